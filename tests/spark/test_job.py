"""The Spark job: what it publishes, what it reports, and what it needs of the machine it runs on."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pyarrow.parquet as pq
import pytest
from bench.pour import payloads, pour
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from shardlake.batch import Steps
from shardlake.config import SparkEngine
from shardlake.engines import IngestJob
from shardlake.engines.spark_submit import SparkSubmit
from shardlake.errors import ConflictError, DataLossError, IngestError, ShardlakeError
from shardlake.kinesis.newest import newest_record
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import FileKey
from shardlake.plan import BatchPlan, HashRange, Run, digest
from shardlake.reports import RangeReport, error_of_report, report_to_text

pytestmark = pytest.mark.slow

ITEMS = [(f"plane-{n % 50}", b'{"n": %d}' % n) for n in range(3000)]


def run_job(spark: SparkSession, plan: BatchPlan, ranges: list[int]) -> list[RangeReport]:
    text = plan.to_text()
    reports: list[RangeReport] = load_job().ingest(spark.sparkContext, text, digest(text), ranges)
    return reports


def load_job() -> Any:
    spec = importlib.util.spec_from_file_location("ingest", Path(__file__).parents[2] / "jobs" / "ingest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_batch_goes_through_spark_submit_to_its_commit_and_its_log_is_shown(steps: Callable[..., Steps]) -> None:
    made = steps(ITEMS)
    lines: list[str] = []
    plan, committed = made.run(Run("dag", "run"), SparkSubmit(SparkEngine()), lines.append)
    assert committed is not None
    assert (committed.rows, len(committed.ranges)) == (3000, 2)
    assert pq.read_table(Path(made.home.url("data"))).num_rows == 3000
    assert any("SparkContext" in line for line in lines)
    assert made.home.names("_shardlake/tmp") == []
    report = json.loads(Path(made.home.url(f"_shardlake/batches/{plan.batch_id}/report-0000.json")).read_text())
    assert sum(row["rows"] for row in report) == 3000


def test_the_second_job_starts_from_the_classes_that_the_first_one_left(
    steps: Callable[..., Steps], tmp_path: Path
) -> None:
    """Kills: an archive that Java does not take, which it says nothing of."""
    loaded = tmp_path / "loaded"
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:class+load:file={loaded}"
    engine = SparkEngine(
        conf={"spark.driver.extraJavaOptions": options}, class_archive=str(tmp_path / "archive" / "spark.jsa")
    )
    shared = list[float]()
    for turn in range(2):
        made, lines = steps(ITEMS, dataset=str(tmp_path / f"lake-{turn}")), list[str]()
        _, committed = made.run(Run("dag", "run"), SparkSubmit(engine), lines.append)
        assert committed is not None
        assert committed.rows == 3000
        assert any("the next jobs start from" in line for line in lines) == (shared == [])
        classes = [line for line in loaded.read_text().splitlines() if "Lambda" not in line]
        sparks = [line for line in classes if " org.apache.spark." in line]
        shared.append(sum("shared objects file" in line for line in sparks) / len(sparks))
    assert shared[0] == 0
    assert shared[1] > 0.95


def test_the_job_needs_only_the_zip_not_pythonpath_nor_the_working_directory(
    steps: Callable[..., Steps], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A Python with the installed libraries, but without this project: what a worker elsewhere has.
    venv.create(tmp_path / "worker", with_pip=False)
    python = tmp_path / "worker" / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "worker")}))
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.chdir(tmp_path)
    without = subprocess.run([python, "-c", "import shardlake"], capture_output=True, text=True)
    assert "No module named 'shardlake'" in without.stderr
    _, committed = steps(ITEMS).run(Run("dag", "run"), SparkSubmit(SparkEngine()), print)
    assert committed is not None
    assert committed.rows == 3000


def test_an_error_stays_with_its_range_and_the_others_are_published(
    steps: Callable[..., Steps], kinesis: Any, spark: SparkSession
) -> None:
    made = steps(ITEMS, shards=3)
    plan = made.plan(Run("dag", "run"))
    kinesis.control({"trim": {"stream": plan.stream.name, "shard": "shardId-000000000001", "all": True}})
    reports = run_job(spark, plan, [0, 1, 2])
    assert [report.error for report in reports] == [None, "DataLossError", None]
    assert "no longer retained" in (reports[1].message or "")
    published = [Path(made.home.url(FileKey.of(range_).path)).exists() for range_ in plan.ranges]
    assert published == [True, False, True]


def test_a_worker_does_without_pandas(steps: Callable[..., Steps], spark: SparkSession) -> None:
    plan = steps(ITEMS).plan(Run("dag", "run"))
    assert [report.error for report in run_job(spark, plan, [0, 1])] == [None, None]
    loaded = spark.sparkContext.parallelize(range(8), 8).map(lambda _: sys.modules.get("pandas") is not None)
    assert not any(loaded.collect())


def test_two_attempts_at_a_range_at_once_publish_one_file_and_report_the_same(
    steps: Callable[..., Steps], spark: SparkSession
) -> None:
    made = steps(ITEMS, shards=1)
    plan = made.plan(Run("dag", "run"))
    reports = run_job(spark, plan, [0, 0])
    assert reports[0] == reports[1]
    assert reports[0].rows == 3000
    (range_,) = plan.ranges
    assert made.home.names(FileKey.of(range_).directory) == [Path(FileKey.of(range_).path).name]
    assert made.home.names(f"_shardlake/tmp/{plan.batch_id}") == []


def test_a_plan_file_that_is_not_the_ledgers_is_refused(steps: Callable[..., Steps]) -> None:
    made = steps(ITEMS)
    plan = made.plan(Run("dag", "run"))
    other = replace(plan, pipeline="other").to_text()
    job = IngestJob("job", other, digest(plan.to_text()), [0], "_shardlake/report.json", {})
    lines: list[str] = []
    with pytest.raises(IngestError, match="exit code 4"):
        SparkSubmit(SparkEngine()).run(job, lines.append)
    assert any("the plan file is not the ledger's plan" in line for line in lines)
    assert made.home.names("data") == []


def test_cancel_ends_every_process_of_the_submission(steps: Callable[..., Steps], kinesis: Any) -> None:
    made = steps(ITEMS)
    engine = SparkSubmit(SparkEngine())
    started = threading.Event()
    failed: list[ShardlakeError] = []

    def submit() -> None:
        try:
            made.run(Run("dag", "run"), engine, lambda line: started.set())
        except ShardlakeError as exc:
            failed.append(exc)

    before = psutil.Process().children(recursive=True)
    thread = threading.Thread(target=submit)
    thread.start()
    assert started.wait(60)
    family = [child for child in psutil.Process().children(recursive=True) if child not in before]
    assert "java" in {process.name() for process in family}
    engine.cancel()
    thread.join(30)
    assert not thread.is_alive()
    assert len(failed) == 1
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []


@pytest.mark.parametrize(
    ("master", "on_this_machine"),
    [
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://127.0.0.1.evil.example:7077", False),
        ("yarn", False),
    ],
)
def test_a_driver_for_this_machine_alone_listens_nowhere_else(master: str, on_this_machine: bool) -> None:
    job = IngestJob("job", "{}", "abc", [0], "_shardlake/report.json", {})
    arguments = SparkSubmit(SparkEngine(master=master)).arguments(job, Path("/tmp"))
    assert ("spark.driver.bindAddress=127.0.0.1" in arguments) == on_this_machine
    assert ("spark.driver.host=127.0.0.1" in arguments) == on_this_machine


def test_a_tasks_code_has_only_what_its_job_needs(steps: Callable[..., Steps]) -> None:
    """Spark writes code of more than 1 MiB to a file, and credentials go along with it."""
    plan = steps(ITEMS).plan(Run("dag", "run"))
    others = tuple(HashRange(f"shardId-{n:012d}", "0", "9" * 39) for n in range(1, 20_000))
    large = replace(plan, hash_ranges=(*plan.hash_ranges, *others), losses=("gone " * 20,) * 20_000)
    assert len(large.to_text()) > 2**21
    spark = MagicMock(defaultParallelism=2)
    spark.parallelize.return_value.mapPartitions.return_value.collect.return_value = []

    load_job().ingest(
        spark, large.to_text(), digest(large.to_text()), [0], {"SHARDLAKE_AWS_SECRET_ACCESS_KEY": "hidden"}
    )

    (work,) = spark.parallelize.return_value.mapPartitions.call_args.args
    assert len(cloudpickle.dumps(work)) < 2**16  # type: ignore[no-untyped-call]


def test_the_command_line_is_a_list_of_arguments_without_secrets(tmp_path: Path) -> None:
    engine = SparkSubmit(SparkEngine(master="spark://host:7077", conf={"spark.executor.memory": "2g"}))
    job = IngestJob("job", "{}", "abc", [3, 4], "_shardlake/report.json", {"AWS_SECRET_ACCESS_KEY": "hidden"})
    submit, *arguments = engine.arguments(job, Path("/tmp"))
    assert Path(submit).name == "spark-submit"
    jobs = Path(__file__).parents[2] / "jobs" / "ingest.py"
    assert arguments == [
        *("--master", "spark://host:7077", "--name", "job", "--py-files", "/tmp/shardlake.zip"),
        *("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        *("--conf", "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        *("--conf", "spark.executor.memory=2g"),
        *("--conf", "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL=system"),
        *("--conf", "spark.executorEnv.MALLOC_ARENA_MAX=2"),
        *("--conf", "spark.executorEnv.MALLOC_MMAP_THRESHOLD_=33554432"),
        *("--conf", "spark.executorEnv.MALLOC_TRIM_THRESHOLD_=33554432"),
        *("--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.ui.showConsoleProgress=false"),
        *(str(jobs), "--plan", "/tmp/plan.json", "--digest", "abc"),
        *("--ranges", "3,4", "--report", "_shardlake/report.json"),
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([None, None], None),
        ([None, "UnavailableError"], IngestError),
        (["UnavailableError", "DataLossError"], DataLossError),
        (["ConflictError", None], ConflictError),
    ],
)
def test_the_most_severe_error_of_a_report_counts(names: list[str | None], expected: type | None) -> None:
    reports = [RangeReport("s", "range", None, None, name, name and "what happened") for name in names]
    error = error_of_report(report_to_text(reports))
    assert isinstance(error, expected) if expected else error is None


def test_1_gib_of_backlog_costs_planning_a_page_and_a_worker_less_than_300_mib(
    steps: Callable[..., Steps], kinesis: Any, spark: SparkSession, tmp_path: Path
) -> None:
    block = os.urandom(100_000)
    made = steps([("key", n.to_bytes(8, "big") + block) for n in range(10_737)], shards=1, max_range_bytes=2**32)

    behind = {"max_window": timedelta(seconds=1), "dataset": str(tmp_path / "behind")}
    kinesis.control({"reset_stats": True})
    Steps(made.pipeline.model_copy(update=behind), MemoryLedger()).plan(Run("dag", "run"))
    counts = kinesis.stats()["shards"][made.pipeline.stream]["shardId-000000000000"]
    records_of_a_page = 10 * 2**20 // 100_008
    assert counts["records"] <= records_of_a_page + 3
    assert (counts["GetRecords"], counts["GetShardIterator"]) == (3, 3)

    plan, client = made.plan(Run("dag", "run")), made.kinesis()
    (range_,) = plan.ranges
    now_ms = client.describe()[1]
    newest = newest_record(client, range_.shard_id, now_ms, now_ms - plan.stream.retention_ms)
    assert newest is not None  # the end that is planned is near the tip, not at it
    text = replace(plan, groups=((replace(range_, through=newest),),)).to_text()

    rows, peak_mib = rows_and_peak_mib(spark, text)
    assert rows == 10_737
    assert peak_mib <= 300


def test_16_ranges_side_by_side_cost_a_worker_less_than_300_mib(
    steps: Callable[..., Steps], kinesis: Any, spark: SparkSession
) -> None:
    """Kills: rows, or pages, of which every range holds its own in memory."""
    made, records = steps([], shards=16), 8 * 2**20 // 500
    pour(kinesis, made.pipeline.stream, 16, records, payloads(500, records))
    kinesis.control({"advance_clock_s": 7200})
    pour(kinesis, made.pipeline.stream, 16, 1, payloads(500, 1))  # behind the window: with it, the ranges end
    rows, peak_mib = rows_and_peak_mib(spark, made.plan(Run("dag", "run")).to_text())
    assert rows == 16 * (records + 1)
    assert peak_mib <= 300


def rows_and_peak_mib(spark: SparkSession, plan_text: str) -> tuple[int, float]:
    """What a worker of Spark writes of a plan, 16 ranges side by side, and the most memory that it has had."""

    def work(_: Any) -> list[tuple[int, int]]:
        import resource

        from shardlake.ingesting import ingest_ranges
        from shardlake.plan import BatchPlan

        plan = BatchPlan.from_text(plan_text)
        reports = ingest_ranges(plan, list(plan.ranges), side_by_side=16)
        return [(sum(report.rows or 0 for report in reports), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)]

    began = time.monotonic()
    ((rows, peak_kib),) = spark.sparkContext.parallelize([0], 1).mapPartitions(work).collect()
    print(f"{rows} rows in {time.monotonic() - began:.0f} s, peak {peak_kib / 1024:.0f} MiB", file=sys.stderr)
    return rows, peak_kib / 1024
