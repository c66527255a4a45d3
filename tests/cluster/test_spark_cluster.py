"""Batches on a Spark cluster of one master and two workers: the same result, whatever becomes of a worker or a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import psutil
import pytest

from demo.flights import read_flights, to_record
from demo.processes import Process
from local_kinesis.process import LocalKinesis
from local_kinesis.produce import Item
from shardlake.plan import BatchPlan
from shardlake.ranges import SHARD_END
from support.spark_lake import SparkLake, listening_on, task_events, wait_for

pytestmark = pytest.mark.slow

Ingest = Callable[[SparkLake, BatchPlan], Future[None]]

JOB_S = 180
"""A job takes ten seconds on two idle cores."""


def records(count: int) -> list[Item]:
    return [(f"plane-{n % 50}", b'{"n": %d}' % n) for n in range(count)]


@contextmanager
def reading_held(kinesis: LocalKinesis) -> Iterator[None]:
    """Meanwhile every reader gets empty pages only, as the service may give them."""
    kinesis.control({"empty_pages": 1000})
    yield
    kinesis.control({"empty_pages": 0})


def two_of(attempts: dict[psutil.Process, Process]) -> dict[psutil.Process, Process]:
    """Attempts, once there are two of them on two workers; until then none."""
    return attempts if len(attempts) == len(set(attempts.values())) == 2 else {}


def executor_of(attempt: psutil.Process) -> psutil.Process:
    """The executor that an attempt's Python process belongs to."""
    return next(parent for parent in attempt.parents() if parent.name() == "java")


def files_with(text: str, *folders: Path) -> list[Path]:
    """The files below folders that hold a text, while others add files and remove them."""
    found = []
    for file in (file for folder in folders for file in folder.rglob("*") if file.is_file()):
        with suppress(FileNotFoundError):
            if text.encode() in file.read_bytes():
                found.append(file)
    return found


def command_line(process: psutil.Process) -> str:
    """A process' command line, if it may be seen and the process is still there."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def test_the_demos_batches_before_and_after_a_reshard(lake: Callable[..., SparkLake], ingest: Ingest) -> None:
    flights = map(to_record, islice(read_flights(), 6_000))
    made = lake(shards=3)
    client = made.server.client()
    stream = made.pipeline.stream

    made.put(list(islice(flights, 3_000)))
    before = made.plan("before")
    ingest(made, before).result(JOB_S)
    made.finish(before)
    middle = str(2**127 // 3)
    client.split_shard(StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey=middle)
    merge = {"ShardToMerge": "shardId-000000000001", "AdjacentShardToMerge": "shardId-000000000002"}
    client.merge_shards(StreamName=stream, **merge)
    made.put(list(flights))
    for run in ("parents", "children"):
        plan = made.plan(run)
        ingest(made, plan).result(JOB_S)
        made.finish(plan)

    parents, children = ([(range_.shard_id[-1], range_.through) for range_ in plan.ranges] for plan in made.plans[1:])
    assert parents == [("0", SHARD_END), ("1", SHARD_END), ("2", SHARD_END)]
    assert [shard for shard, _ in children] == ["3", "4", "5"]
    made.assert_result_is_the_same_as_without_spark()


def test_a_job_survives_an_executor_and_then_a_worker_that_die_in_the_middle(
    lake: Callable[..., SparkLake], ingest: Ingest
) -> None:
    made = lake(shards=4)
    made.put(records(6_000))
    plan = made.plan()
    made.server.control({"page_limit": 1, "reset_stats": True})
    job = ingest(made, plan)
    wait_for(lambda: made.records_read() > 100, job)
    with reading_held(made.server):
        assert made.records_read() < 6_000
        made.server.control({"page_limit": None})
        (attempt, worker), *_ = wait_for(lambda: made.attempts(plan), job).items()
        executor_of(attempt).kill()
        wait_for(lambda: made.said("Lost executor .* on"), job)
        _, at_work = wait_for(lambda: two_of(made.attempts(plan)), job).values()
        made.cluster.kill(at_work)
        wait_for(lambda: made.said("Lost executor .* worker lost"), job)
        assert attempt not in made.attempts(plan)
    job.result(JOB_S)

    made.finish(plan)
    made.assert_result_is_the_same_as_without_spark()


def test_a_speculative_attempt_overtakes_one_that_hangs(
    lake: Callable[..., SparkLake], ingest: Ingest, tmp_path: Path
) -> None:
    event_log = tmp_path / "events"
    event_log.mkdir()
    speculation = {"speculation": "true", "speculation.interval": "100ms", "speculation.multiplier": "1.1"}
    speculation |= {"speculation.quantile": "0.1", "speculation.minTaskRuntime": "100ms"}
    logging = {"eventLog.enabled": "true", "eventLog.dir": event_log.as_uri()}
    logging |= {"eventLog.compress": "false", "eventLog.rolling.enabled": "false"}
    made = lake(shards=2, **speculation, **logging)
    few, many = "6", "0"  # partition keys of the first and of the second shard
    made.put([(few if n < 10 else many, b"%d" % n) for n in range(5_000)])
    plan = made.plan()
    with reading_held(made.server):
        job = ingest(made, plan)
        wait_for(lambda: two_of(made.attempts(plan)), job)
        made.server.control({"page_limit": 1})
    wait_for(lambda: made.said("Finished task"), job)
    with reading_held(made.server):
        made.server.control({"page_limit": None})
        attempts = wait_for(lambda: two_of(made.attempts(plan)), job)
        hosts = {made.cluster.workers[worker]: attempt for attempt, worker in attempts.items()}
        (speculative,) = made.said(r"Starting task \d+\.1 .*\((.+),executor")
        (hanging,) = (attempt for host, attempt in hosts.items() if host != speculative[1])
        hanging.suspend()
    job.result(JOB_S)

    made.finish(plan)
    with suppress(psutil.NoSuchProcess):
        hanging.resume()
    hanging.wait(10)
    made.assert_result_is_the_same_as_without_spark()
    ended = list(task_events(event_log, "SparkListenerTaskEnd"))
    succeeded = [
        event["Task Info"]["Speculative"] for event in ended if event["Task End Reason"]["Reason"] == "Success"
    ]
    assert succeeded == [False, True]


def test_two_jobs_of_one_batch_at_once_publish_one_file_a_range(lake: Callable[..., SparkLake], ingest: Ingest) -> None:
    made = lake(shards=2, **{"cores.max": "1"})
    made.put(records(3_000))
    plan = made.plan()
    with reading_held(made.server):
        jobs = [ingest(made, plan), ingest(made, plan)]
        wait_for(lambda: two_of(made.attempts(plan)), jobs[0])
        started = psutil.Process().children(recursive=True)
        assert sum("CoarseGrainedExecutorBackend" in line for line in map(command_line, started)) == 2
        assert listening_on(started) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    for job in jobs:
        job.result(JOB_S)

    made.finish(plan)
    made.assert_result_is_the_same_as_without_spark()


def test_executors_get_the_credentials_of_the_submitting_side_and_nothing_keeps_them(
    lake: Callable[..., SparkLake], ingest: Ingest, tmp_path: Path, cluster_folder: Path
) -> None:
    event_log, scratch = tmp_path / "events", tmp_path / "scratch"
    event_log.mkdir()
    logging = {"eventLog.enabled": "true", "eventLog.dir": event_log.as_uri(), "eventLog.compress": "false"}
    made = lake(**logging, **{"local.dir": str(scratch)})
    made.put(records(1_000))
    plan = made.plan()
    secret = made.session.get_credentials().secret_key
    with reading_held(made.server):
        job = ingest(made, plan)
        wait_for(lambda: two_of(made.attempts(plan)), job)
        told = [command_line(process) for process in psutil.process_iter()]
        assert any(made.cluster.master_url in line and "ingest.py" in line for line in told)
        assert [line for line in told if secret in line] == []
        assert files_with(secret, cluster_folder, tmp_path) == []
    job.result(JOB_S)

    made.finish(plan)
    made.assert_result_is_the_same_as_without_spark()
    assert files_with(plan.batch_id, event_log) != []
    assert files_with(secret, cluster_folder, tmp_path) == []
    assert made.said(secret) == []
