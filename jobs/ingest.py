"""The Spark job: ranges of a pinned plan in, published Parquet files and a report out.

    spark-submit --py-files shardlake.zip jobs/ingest.py --plan FILE --digest SHA256 --ranges 0,1,2 --report KEY

A Spark task has some of the ranges and reads them side by side, as a shard lets its readers wait more than it lets
them work. The rows do not cross into the JVM: the Python worker reads, writes and publishes, and only its reports come
back. A retried or speculative task is just another attempt of the protocol.
Explicit AWS credentials come in the driver's environment; executors have one of their own, so tasks get the credentials
with their code.
Uses nothing newer than Spark 3.5.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path

from pyspark import SparkContext

from shardlake.aws import session_of, take_credentials
from shardlake.errors import ShardlakeError
from shardlake.lake.home import open_home
from shardlake.plan import BatchPlan, load_plan
from shardlake.reports import RangeReport, error_of_report, report_to_text

_NONE: Mapping[str, str] = {}

SIDE_BY_SIDE = 16
"""Ranges that one Spark task reads at once, at most. A shard gives 2 MiB/s, of which a core takes in some 90 MB/s."""


def ingest(
    spark: SparkContext, plan_text: str, plan_digest: str, ranges: list[int], credentials: Mapping[str, str] = _NONE
) -> list[RangeReport]:
    """Publish the named ranges of a plan; one report a range.

    Args:
        credentials: as `aws.credentials_of` gives them.
    """
    plan = load_plan(plan_text, plan_digest)
    all_ranges = list(plan.ranges)
    # Only this job's: Spark writes code of more than 1 MiB to a file (`PythonUtils.getBroadcastThreshold`).
    group = tuple(all_ranges[row] for row in ranges)
    shards = {range_.shard_id for range_ in group}
    keys = tuple(each for each in plan.hash_ranges if each.shard_id in shards)
    own = replace(plan, groups=(group,), hash_ranges=keys, losses=()).to_text()

    def work(rows: Iterable[int]) -> list[RangeReport]:
        from shardlake.ingesting import ingest_ranges  # the driver does without it, and starts sooner

        plan, session = BatchPlan.from_text(own), session_of(credentials)
        (own_ranges,) = plan.groups
        return ingest_ranges(plan, [own_ranges[row] for row in rows], session, SIDE_BY_SIDE)

    count, slots = len(ranges), spark.defaultParallelism
    tasks = min(count, slots * ceil(count / (slots * SIDE_BY_SIDE)))
    return spark.parallelize(range(count), tasks).mapPartitions(work).collect()


def main(argv: list[str]) -> int:
    """Run the job; the exit code is the most severe error's.

    Spark stops with this process: `SparkContext.stop` would wait a second for a server that polls.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", required=True, type=Path)
    parser.add_argument("--digest", required=True)
    parser.add_argument("--ranges", required=True, type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--report", required=True)
    arguments = parser.parse_args(argv)
    credentials = take_credentials(os.environ)
    try:
        plan_text = arguments.plan.read_text(encoding="utf-8")
        plan = load_plan(plan_text, arguments.digest)
        spark = SparkContext.getOrCreate()
        report = report_to_text(ingest(spark, plan_text, arguments.digest, arguments.ranges, credentials))
        open_home(plan.dataset, plan.storage, session_of(credentials)).replace(arguments.report, report)
        error = error_of_report(report)
    except OSError as exc:
        error = ShardlakeError(f"{arguments.plan} cannot be read ({exc.strerror})", todo="Run the plan step again")
    except ShardlakeError as exc:
        error = exc
    if error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return error.exit_code if error else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
