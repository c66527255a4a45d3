"""What `make conformance-aws` does before and after asking, with the local Kinesis in the service's place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local_kinesis.process import LocalKinesis, running

ROOT = Path(__file__).parents[2]


@pytest.fixture
def service() -> Iterator[LocalKinesis]:
    with running("--stream", "somebody-elses:1") as server:
        yield server


def start(service: LocalKinesis, *options: str, confirm: str = "yes") -> subprocess.Popen[str]:
    environment = {
        "AWS_ENDPOINT_URL_KINESIS": service.endpoint_url,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "CONFIRM": confirm,
        "PYTHONPATH": f"{ROOT}/include",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.on_aws", "-p", "no:cacheprovider", *options],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def streams(service: LocalKinesis) -> list[str]:
    names: list[str] = service.client().list_streams()["StreamNames"]
    return names


def test_without_a_yes_nothing_is_done(service: LocalKinesis) -> None:
    run = start(service, confirm="perhaps")
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 2
    assert re.search(r"Cost at most: \d+ questions, \d+ shards .* = \$\d\.\d\d \(us-east-1, as known on", output)
    assert "Nothing was done" in output
    assert service.stats()["operations"] == {}


@pytest.mark.slow
def test_a_question_is_asked_and_its_stream_deleted(service: LocalKinesis) -> None:
    run = start(service, "-k", "a_new_stream_is_described")
    output, _ = run.communicate(timeout=120)
    assert (run.returncode, "1 passed" in output) == (0, True), output
    assert output.rstrip().endswith("Every stream of this run is deleted.")
    assert streams(service) == ["somebody-elses"]
    assert service.stats()["operations"]["CreateStream"] == 1


@pytest.mark.slow
def test_streams_are_deleted_also_when_the_run_is_ended_in_the_middle(service: LocalKinesis) -> None:
    run = start(service, "-k", "an_iterator_expires")  # which waits for minutes
    deadline = time.monotonic() + 60
    while len(streams(service)) == 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (asking,) = psutil.Process(run.pid).children()
    run.terminate()
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 143, output
    assert not asking.is_running()
    assert output.rstrip().endswith("Every stream of this run is deleted.")
    assert streams(service) == ["somebody-elses"]


@pytest.mark.slow
def test_a_stream_that_cannot_be_deleted_is_named(service: LocalKinesis) -> None:
    service.control({"deny": ["DeleteStream"]})
    run = start(service, "-k", "a_new_stream_is_described")
    output, _ = run.communicate(timeout=120)
    (left,) = set(streams(service)) - {"somebody-elses"}
    assert run.returncode == 3
    assert f"STILL THERE, delete it: {left} (An error occurred (AccessDeniedException)" in output
