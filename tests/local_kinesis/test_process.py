"""The server as a process: where it listens, how it starts and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, cast

import pytest

from local_kinesis.process import LocalKinesisError, running

EVERYWHERE = "0.0.0.0"  # noqa: S104 -- what must be refused
INCLUDE = Path(__file__).resolve().parents[2] / "include"


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1", "example.com", ""])
def test_only_loopback_addresses_are_served(host: str) -> None:
    ended = _run("--port", "0", "--host", host)
    expected = (
        f"local_kinesis: refusing to listen on {host}: only loopback addresses (127.0.0.1, ::1, localhost) are served\n"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", expected)


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.2", r"http://127\.0\.0\.2:\d+"), ("localhost", r"http://127\.0\.0\.1:\d+")]
)
def test_any_loopback_address_will_do(host: str, url: str) -> None:
    with running("--host", host) as server:
        assert re.fullmatch(url, server.endpoint_url)
        assert server.client().list_streams()["StreamNames"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_line_says_that_it_is_ready_and_a_signal_ends_it_cleanly(number: int) -> None:
    process = _start("serve", "--port", "0")
    line = cast(IO[str], process.stdout).readline()
    match = re.fullmatch(r"local_kinesis listening on http://127\.0\.0\.1:(\d+)\n", line)
    assert match
    with socket.create_connection(("127.0.0.1", int(match[1])), timeout=5):
        process.send_signal(number)
        rest, errors = process.communicate(timeout=10)
    assert (process.returncode, rest, errors) == (0, "", "")


def test_a_taken_port_is_one_clear_message() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = _run("--port", str(port))
    message = f"local_kinesis: cannot listen on 127.0.0.1 port {port}: "
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (["s"], "--stream must be NAME:SHARDS, not 's'"),
        (["s:0"], "must be NAME:SHARDS"),
        (["s:1", "s:2"], "already exists"),
    ],
)
def test_a_stream_that_cannot_be_made_is_one_clear_message(stream: list[str], message: str) -> None:
    ended = _run("--port", "0", *(word for each in stream for word in ("--stream", each)))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr


def test_streams_are_made_at_the_start_in_the_region_given() -> None:
    with running("--region", "eu-west-1", "--stream", "a:1", "--stream", "b:3") as server:
        client = server.client("eu-west-1")
        assert client.list_streams()["StreamNames"] == ["a", "b"]
        assert len(client.list_shards(StreamName="b")["Shards"]) == 3
        assert server.client().list_streams()["StreamNames"] == []


def test_streams_made_at_one_moment_have_creation_times_of_their_own() -> None:
    with running(*(word for i in range(20) for word in ("--stream", f"s{i}:1"))) as server:
        summaries = server.client().list_streams()["StreamSummaries"]
    assert len({summary["StreamCreationTimestamp"] for summary in summaries}) == 20


def test_the_context_ends_the_server_also_when_a_test_fails() -> None:
    pids = []

    def fail() -> None:
        with running() as server:
            pids.append(server.pid)
            raise ZeroDivisionError("a failing test")

    with pytest.raises(ZeroDivisionError, match="a failing test"):
        fail()
    with pytest.raises(ProcessLookupError, match="No such process"):
        os.kill(pids[0], 0)


def test_a_server_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(LocalKinesisError, match="did not start: local_kinesis: refusing to listen on example"),
        running("--host", "example"),
    ):
        pass


def test_the_server_ends_with_the_process_that_holds_its_standard_input() -> None:
    process = _start("--port", "0", "--until-stdin-closes")
    assert cast(IO[str], process.stdout).readline().startswith("local_kinesis listening on ")
    cast(IO[str], process.stdin).close()
    assert process.wait(10) == 0
    cast(IO[str], process.stdout).close()
    cast(IO[str], process.stderr).close()


def test_a_standard_input_whose_end_cannot_be_waited_for_is_one_clear_message() -> None:
    with (INCLUDE / "local_kinesis" / "__main__.py").open() as file:
        ended = _run("--port", "0", "--until-stdin-closes", stdin=file)
    expected = "local_kinesis: --until-stdin-closes needs a pipe or a terminal as standard input\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", expected)


def test_the_server_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import local_kinesis.__main__;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - sys.stdlib_module_names - {'local_kinesis'}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=INCLUDE, capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "local_kinesis", *arguments],
        cwd=INCLUDE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(*arguments: str, stdin: IO[str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "local_kinesis", *arguments]
    return subprocess.run(command, cwd=INCLUDE, stdin=stdin, capture_output=True, text=True, timeout=20)
