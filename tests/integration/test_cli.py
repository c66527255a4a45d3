"""Each command against a real local Kinesis, a real SQLite ledger and real files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from demo.java import java_home
from shardlake.batch import Committed, Steps
from shardlake.cli import command_line
from shardlake.config import load_pipeline
from shardlake.engines import IngestJob
from shardlake.errors import IngestError
from shardlake.ledger import Ledger, open_ledger
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Run, Stream
from support.command_line import CommandLine, entry_of, write_config
from support.inline_engine import InlineEngine

if TYPE_CHECKING:
    from tests.integration.conftest import World

INCLUDE = Path(__file__).parents[2] / "include"
SHARD_0, SHARD_1, SHARD_2, SHARD_3 = (f"shardId-{number:012d}" for number in range(4))


class FailingEngine:
    """Fails as Spark does, after lines of log."""

    def run(self, job: IngestJob, log: Callable[[str], None]) -> None:
        for line in range(100):
            log(f"line {line}")
        raise IngestError("spark-submit ended with exit code 1", todo="Its log is above")

    def cancel(self) -> None:
        pass


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(2)


@pytest.fixture
def shardlake(world: World, tmp_path: Path) -> CommandLine:
    return write_config(tmp_path / "pipelines.yaml", p=entry_of(world))


def ledger_of(world: World) -> Ledger:
    return open_ledger(f"sqlite:///{world.root}/ledger.db")


def pin(shardlake: CommandLine) -> None:
    """Plan a batch and leave it there, as a run that was killed does."""
    pipeline = load_pipeline(shardlake.config, "p")
    Steps(pipeline, open_ledger(pipeline.ledger_url)).plan(Run("dag", "killed"))


class TestRun:
    def test_commits_a_batch_and_says_what(self, shardlake: CommandLine, world: World) -> None:
        world.produce(200)
        (line,) = shardlake.lines("run", "p")
        size = sum(len(content) for content in world.files().values()) / 1024
        assert re.fullmatch(
            rf"batch cli__\d{{4}}-\S+-[0-9a-f]{{12}}: 2 ranges, 200 rows, {size:.1f} KiB committed",
            line,
        )
        world.assert_every_record_is_there_once()

    def test_json_is_an_array_of_batches(self, shardlake: CommandLine, world: World) -> None:
        world.produce(200)
        (batch,) = shardlake.json("run", "p")
        assert batch.keys() == {"batch_id", "pipeline", "ranges", "rows", "bytes", "behind"}
        assert (batch["pipeline"], batch["rows"], batch["behind"]) == ("p", 200, False)
        assert [range_["shard_id"] for range_ in batch["ranges"]] == [SHARD_0, SHARD_1]
        assert batch["bytes"] == sum(len(content) for content in world.files().values())

    def test_has_nothing_to_do_when_caught_up(self, shardlake: CommandLine, world: World) -> None:
        world.produce(10)
        shardlake.lines("run", "p")
        assert shardlake.lines("run", "p") == ["nothing to read: pipeline p has caught up with its stream"]
        assert shardlake.json("run", "p") == []

    def test_says_that_more_is_there(self, world: World, tmp_path: Path) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, max_range_bytes=500))
        world.produce(200)
        assert shardlake.lines("run", "p")[1] == "more records are there: run again, or with --until-caught-up"

    def test_until_caught_up_goes_on_across_a_reshard(self, world: World, tmp_path: Path) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, max_range_bytes=500))
        world.produce(100)
        world.split(0)
        world.produce(100)
        *batches, last = shardlake.lines("run", "p", "--until-caught-up")
        assert len(batches) > 1
        assert re.fullmatch(rf"caught up: 200 rows, [0-9.]+ KiB in {len(batches)} batches", last)
        assert {shard["state"] for shard in shardlake.json("status", "p")["shards"]} == {"finished", "idle"}
        world.assert_every_record_is_there_once()

    @pytest.mark.parametrize(
        ("batches", "count"),
        [
            pytest.param([(0, False, 5), (1, False, 3), (2, False, 0)], 3, id="until nothing is found"),
            pytest.param([(0, False, 5), (59_999, False, 3), (60_000, False, 2)], 3, id="until a minute has passed"),
            pytest.param([(0, True, 5), (90_000, True, 5), (95_000, False, 2)], 3, id="while records are left behind"),
            pytest.param([(0, True, 0), (1, False, 0)], 2, id="past a loss without records behind it"),
            pytest.param([(0, False, 0)], 1, id="at once"),
        ],
    )
    def test_until_caught_up_goes_on(
        self, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch, batches: list[tuple[int, bool, int]], count: int
    ) -> None:
        left = [*batches, (10**9, False, 0)]

        def run(steps: Steps, run: Run, *_: object) -> tuple[BatchPlan, Committed | None]:
            at_ms, behind, rows = left.pop(0)
            stream = Stream("s", "arn", 0, 0, "us-east-1", None)
            plan = BatchPlan(run.run_id, "p", LIVE, run, stream, "/lake", "l", at_ms, behind, ())
            return plan, Committed(run.run_id, "p", [], rows, 0) if rows else None

        monkeypatch.setattr(Steps, "run", run)
        result = shardlake("run", "p", "--until-caught-up", "--json")
        assert (result.exit_code, len(batches) + 1 - len(left)) == (0, count)
        assert [batch["rows"] for batch in json.loads(result.stdout)] == [rows for *_, rows in batches if rows]

    def test_shows_the_tail_of_the_log_of_an_engine_that_failed(self, shardlake: CommandLine, world: World) -> None:
        world.produce(10)
        result = shardlake("run", "p", engine=FailingEngine())
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.splitlines() == [
            *(f"line {line}" for line in range(40, 100)),
            "Error: spark-submit ended with exit code 1. Its log is above",
        ]

    def test_finishes_what_a_failed_run_left_open(self, shardlake: CommandLine, world: World) -> None:
        world.produce(100)
        shardlake("run", "p", engine=FailingEngine())
        world.produce(100)
        shardlake.lines("run", "p", "--until-caught-up")
        world.assert_every_record_is_there_once()

    def test_verbose_shows_the_log_on_stderr(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"record")
        result = shardlake("run", "p", "--verbose")
        assert result.exit_code == 0
        assert re.fullmatch(
            rf"{SHARD_0} AT \d+ through \d+: 1 rows\npublished 1 of 1 ranges: 1 records .*\n", result.stderr
        )
        assert "through" not in result.stdout

    def test_fails_with_3_for_lost_records_and_commits_the_others(self, shardlake: CommandLine, world: World) -> None:
        world.produce(50)
        shardlake.lines("run", "p")
        world.produce(50)
        world.trim(shard=0)
        world.put(b"the oldest left", shard=0)
        result = shardlake("run", "p")
        assert result.exit_code == 3
        assert f"records of {SHARD_0} after position AFTER" in result.stderr
        assert "are no longer retained" in result.stderr
        assert "Set on_data_loss: skip to record the loss and go on" in result.stderr
        counts = [row["rows"] for row in shardlake.json("ranges", "p", "--shard", SHARD_1)]
        assert len(counts) == 2

    @pytest.mark.slow
    def test_runs_on_spark(self, shardlake: CommandLine, world: World) -> None:
        world.produce(200)
        environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": str(INCLUDE)}
        command = [sys.executable, "-m", "shardlake", "--config", str(shardlake.config), "run", "p", "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        assert [batch["rows"] for batch in json.loads(done.stdout)] == [200]
        assert done.stderr == ""
        world.assert_every_record_is_there_once()


class TestPlan:
    def test_works_before_the_first_run_and_writes_nothing(self, shardlake: CommandLine, world: World) -> None:
        first = world.put(b"1", b"2", shard=0)
        header, row, last = shardlake.lines("plan", "p", "--dry-run")
        assert header.split() == ["shard", "start", "through", "range"]
        assert row.split() == [SHARD_0, "AT", first[0].text, first[1].text, "new"]
        assert last == "it would catch up with the stream, but for its last minute at most"
        assert list(world.root.iterdir()) == []

    def test_json_tells_new_ranges_from_open_ones(self, shardlake: CommandLine, world: World) -> None:
        (opened,) = world.put(b"1", shard=0)
        pin(shardlake)
        world.put(b"2", shard=0)
        (new,) = world.put(b"3", shard=1)
        assert shardlake.json("plan", "p", "--dry-run") == {
            "pipeline": "p",
            "behind": True,
            "ranges": [
                {"shard_id": SHARD_0, "start": f"AT {opened}", "through": opened.text, "open": True},
                {
                    "shard_id": SHARD_1,
                    "start": f"AT {world.shard(1).starting_sequence_number}",
                    "through": new.text,
                    "open": False,
                },
            ],
            "losses": [],
        }

    def test_leaves_ledger_and_dataset_as_they_are(self, shardlake: CommandLine, world: World) -> None:
        world.produce(50)
        shardlake.lines("run", "p")
        world.produce(50)
        world.split(0)

        def state() -> Any:
            ledger = ledger_of(world)
            files = sorted(path.name for path in world.root.rglob("*") if not path.name.startswith("ledger.db-"))
            return list(ledger.ranges("p", LIVE)), ledger.chains("p", LIVE), ledger.shards("p"), files

        before = state()
        shardlake.lines("plan", "p", "--dry-run")
        assert state() == before

    def test_says_when_nothing_is_there(self, shardlake: CommandLine) -> None:
        assert shardlake.lines("plan", "p", "--dry-run") == [
            "nothing to read",
            "it would catch up with the stream, but for its last minute at most",
        ]

    def test_only_looks(self, shardlake: CommandLine, world: World) -> None:
        result = shardlake("plan", "p")
        assert result.exit_code == 2
        assert "add --dry-run to look, or use `shardlake run p` to plan and ingest a batch" in result.stderr
        assert list(world.root.iterdir()) == []

    @pytest.mark.parametrize(("on_data_loss", "exit_code"), [("fail", 3), ("skip", 0)])
    def test_tells_a_loss(self, world: World, tmp_path: Path, on_data_loss: str, exit_code: int) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, on_data_loss=on_data_loss))
        world.put(b"read", shard=0)
        shardlake.lines("run", "p")
        world.put(b"lost", shard=0)
        world.trim(shard=0)
        world.put(b"left", shard=0)
        (loss,) = shardlake.json("plan", "p", "--dry-run", exit_code=exit_code)["losses"]
        assert loss.startswith(f"records of {SHARD_0} after position AFTER")
        assert list(ledger_of(world).ranges("p", LIVE, state="lost")) == []


class TestStatus:
    def test_before_the_first_run_every_shard_is_new(self, shardlake: CommandLine, world: World) -> None:
        lines = shardlake.lines("status", "p")
        assert [line.split() for line in lines[1:]] == [
            [shard, "new", "-", "-", "-", "-"] for shard in (SHARD_0, SHARD_1)
        ]
        assert list(world.root.iterdir()) == []

    def test_tells_lag_and_headroom_by_the_services_clock(self, shardlake: CommandLine, world: World) -> None:
        (read,) = world.put(b"read", shard=0)
        shardlake.lines("run", "p")
        world.put(b"unread", b"unread too", shard=0)
        world.advance(hours=2)
        status = shardlake.json("status", "p")
        assert (status["pipeline"], status["stream"], status["error"]) == ("p", world.stream, None)
        behind, idle = status["shards"]
        assert behind["lag_s"] == pytest.approx(7200, abs=60)
        assert behind["headroom_s"] == pytest.approx(22 * 3600, abs=60)
        assert behind | {"lag_s": 0, "headroom_s": 0} == {
            "shard_id": SHARD_0,
            "state": "behind",
            "position": f"AFTER {read}",
            "lag_s": 0,
            "headroom_s": 0,
            "open_range": None,
        }
        assert idle == {
            "shard_id": SHARD_1,
            "state": "idle",
            "position": f"AT {world.shard(1).starting_sequence_number}",
            "lag_s": 0,
            "headroom_s": None,
            "open_range": None,
        }

    def test_costs_two_calls_a_shard_at_most(self, shardlake: CommandLine, world: World) -> None:
        world.produce(500)
        shardlake.lines("run", "p")
        world.produce(500)
        world.control(reset_stats=True)
        shardlake.lines("status", "p")
        calls = {"GetShardIterator": 1, "GetRecords": 1, "records": 2}
        assert (world.calls(0), world.calls(1)) == (calls, calls)

    def test_tells_finished_and_new_shards_after_a_reshard(self, shardlake: CommandLine, world: World) -> None:
        world.produce(50)
        world.split(0)
        shardlake.lines("run", "p")
        states = {shard["shard_id"]: shard["state"] for shard in shardlake.json("status", "p")["shards"]}
        assert states == {SHARD_0: "finished", SHARD_1: "idle", SHARD_2: "idle", SHARD_3: "idle"}

    def test_shows_an_open_range(self, shardlake: CommandLine, world: World) -> None:
        (number,) = world.put(b"planned", shard=0)
        pin(shardlake)
        shard, _ = shardlake.json("status", "p")["shards"]
        assert shard["open_range"] == {"start": f"AT {number}", "through": number.text}
        assert shard["state"] == "behind"

    def test_tells_a_position_that_is_gone(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"read", shard=0)
        shardlake.lines("run", "p")
        world.put(b"lost", shard=0)
        world.trim(shard=0)
        world.put(b"left", shard=0)
        shard, _ = shardlake.json("status", "p")["shards"]
        assert (shard["state"], shard["lag_s"], shard["headroom_s"]) == ("trimmed", None, 0)

    def test_an_idle_shard_whose_last_record_is_gone_is_idle(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"read", shard=0)
        shardlake.lines("run", "p")
        shardlake.lines("run", "p")  # finds nothing, and notes it
        world.trim(shard=0)
        shard, _ = shardlake.json("status", "p")["shards"]
        assert shard["state"] == "idle"

    def test_tells_what_the_ledger_knows_where_the_stream_cannot_be_asked(
        self, shardlake: CommandLine, world: World
    ) -> None:
        (number,) = world.put(b"read", shard=0)
        shardlake.lines("run", "p")
        world.control(deny=["DescribeStreamSummary"])
        result = shardlake("status", "p")
        assert result.exit_code == 2
        shards = [line.split()[:2] for line in result.stdout.splitlines()[1:]]
        assert shards == [[SHARD_0, "unknown"], [SHARD_1, "unknown"]]
        assert f"AFTER {number}" in result.stdout
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("Error: no access: DescribeStreamSummary")
        status = shardlake.json("status", "p", exit_code=2)
        assert status["error"].startswith("no access")
        assert [shard["lag_s"] for shard in status["shards"]] == [None, None]


class TestRanges:
    def test_lists_the_chains_in_order(self, shardlake: CommandLine, world: World) -> None:
        one = world.put(b"1", shard=0)[0]
        shardlake.lines("run", "p")
        two = world.put(b"2", b"3", shard=0)[1]
        shardlake.lines("run", "p")
        header, *lines = shardlake.lines("ranges", "p")
        assert header.split() == ["shard", "state", "rows", "bytes", "start", "through"]
        sizes = [f"{len(content):,}" for content in world.files().values()]
        assert [line.split() for line in lines] == [
            [SHARD_0, "committed", "1", sizes[0], "AT", one.text, one.text],
            [SHARD_0, "committed", "2", sizes[1], "AFTER", one.text, two.text],
        ]

    def test_selects_by_shard_and_state(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"1", shard=0)
        shardlake.lines("run", "p")
        (number,) = world.put(b"2", shard=1)
        pin(shardlake)
        assert [row["shard_id"] for row in shardlake.json("ranges", "p", "--shard", SHARD_0)] == [SHARD_0]
        (planned,) = shardlake.json("ranges", "p", "--state", "planned")
        assert planned == {
            "shard_id": SHARD_1,
            "state": "planned",
            "start": f"AT {world.shard(1).starting_sequence_number}",
            "through": number.text,
            "batch_id": planned["batch_id"],
            "rows": None,
            "bytes": None,
            "checksum": None,
            "closed_at_ms": None,
        }
        assert shardlake.json("ranges", "p", "--state", "lost") == []

    def test_refuses_another_state(self, shardlake: CommandLine) -> None:
        assert shardlake("ranges", "p", "--state", "done").exit_code == 2

    def test_makes_no_ledger(self, shardlake: CommandLine, world: World) -> None:
        assert shardlake.json("ranges", "p") == []
        assert list(world.root.iterdir()) == []


class TestFiles:
    def test_are_paths_for_other_tools(self, shardlake: CommandLine, world: World) -> None:
        world.produce(100)
        shardlake.lines("run", "p")
        paths = shardlake.lines("files", "p")
        assert len(paths) == 2
        assert sum(pq.read_table(path, partitioning=None).num_rows for path in paths) == 100

    def test_leave_out_what_is_published_and_not_committed(self, shardlake: CommandLine, world: World) -> None:
        world.put(b"1", shard=0)
        shardlake.lines("run", "p")
        world.put(b"2", shard=0)
        pipeline = load_pipeline(shardlake.config, "p")
        steps = Steps(pipeline, open_ledger(pipeline.ledger_url))
        plan = steps.plan(Run("dag", "killed after ingest"))
        steps.ingest(plan.batch_id, 0, InlineEngine(), lambda line: None)
        assert len(world.files()) == 2
        (file,) = shardlake.json("files", "p")
        committed = Path(file["path"])
        assert file == {"path": str(committed), "shard_id": SHARD_0, "rows": 1, "bytes": committed.stat().st_size}


class TestEveryCommand:
    COMMANDS = ("run", "plan", "status", "ranges", "files", "audit")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_refuses_a_pipeline_that_is_not_there(self, shardlake: CommandLine, command: str) -> None:
        result = shardlake(command, "q", *(["--dry-run"] if command == "plan" else []))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            f"Error: {shardlake.config}: there is no pipeline 'q': found p. Name one of these, or add an entry under"
            " pipelines:\n"
        )

    @pytest.mark.parametrize("command", COMMANDS)
    def test_says_what_to_do_about_airflows_ledger(self, world: World, tmp_path: Path, command: str) -> None:
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, ledger="airflow://lake_ledger"))
        result = shardlake(command, "p", *(["--dry-run"] if command == "plan" else []))
        assert result.exit_code == 2
        assert result.stderr == (
            "Error: pipeline p, key ledger: airflow://lake_ledger is known to Airflow's tasks only. Write ledger:"
            " ${SHARDLAKE_LEDGER}, with the ledger's own URL in the environment of this command\n"
        )

    def test_takes_the_configuration_that_the_environment_names(
        self, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SHARDLAKE_CONFIG", str(shardlake.config))
        result = CliRunner().invoke(command_line, ["status", "p", "--json"])
        assert json.loads(result.stdout)["pipeline"] == "p"

    def test_tells_a_bug_in_one_line_and_with_debug_where(
        self, shardlake: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise TypeError("connect to https://user:hunter2@host failed")

        monkeypatch.setattr("shardlake.batch.Steps.kinesis", fail)
        result = shardlake("audit", "p")
        said = (
            "Error: TypeError: connect to https://user:***@host failed. To see where, run again with:"
            " shardlake --debug …\n"
        )
        assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)
        result = shardlake("--debug", "audit", "p")
        assert result.exit_code == 1
        assert result.stderr.startswith("Traceback (most recent call last):")
        assert "hunter2" not in result.stderr
        assert result.stderr.endswith(said)


class TestProcess:
    """What shows only in a process of its own."""

    def python(self, code: str, *arguments: str) -> list[str]:
        return [sys.executable, "-c", textwrap.dedent(code), *arguments]

    def test_help_loads_nothing_heavy(self) -> None:
        code = """
            import sys, shardlake.cli
            print({"boto3", "pyarrow", "sqlalchemy", "pyspark", "pydantic", "rich", "airflow"} & set(sys.modules))
        """
        environment = {**os.environ, "PYTHONPATH": str(INCLUDE)}
        done = subprocess.run(self.python(code), env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "set()\n"

    def test_python_m_shardlake_shows_the_version(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(INCLUDE)}
        command = [sys.executable, "-m", "shardlake", "--version"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "shardlake, version 0.1.0\n"

    @pytest.mark.parametrize(("signal_number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_ending_a_run_ends_spark(
        self, shardlake: CommandLine, world: World, signal_number: signal.Signals, exit_code: int
    ) -> None:
        world.produce(10)
        code = """
            from shardlake.cli import main
            from shardlake.engines.spark_submit import SparkSubmit
            SparkSubmit.arguments = lambda *_: ["sh", "-c", "sleep 60 & echo child $!; wait"]
            main()
        """
        command = self.python(code, "--config", str(shardlake.config), "run", "p", "--verbose")
        environment = {**os.environ, "PYTHONPATH": str(INCLUDE)}
        with subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) as process:
            assert process.stderr is not None
            child = int(process.stderr.readline().removeprefix("child "))
            process.send_signal(signal_number)
            _, said = process.communicate(timeout=20)
        assert process.returncode == exit_code
        assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        if signal_number == signal.SIGINT:
            assert said == "Error: interrupted. What is committed stays; run the command again to go on\n"
