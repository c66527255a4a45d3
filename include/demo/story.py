"""What happens in the demo, from an empty folder to two tables. Every claim is checked.

put half of the flights, while scheduled runs ingest   until some of them have committed a batch
split a shard, merge two others                        while records arrive
put the rest                                           until as many more have committed a batch
let the runs catch up, audit, count
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from demo.airflow_home import DATABASE, Airflow
from demo.background import Background
from demo.check import differences, read_dataset
from demo.flights import count_by_carrier, read_flights, to_record
from demo.folder import DemoFolder
from demo.producer import Producer
from demo.runs import CommittedRun, committed_runs, scheduled_between
from demo.services import (
    DAG_ID,
    PIPELINE,
    REGION,
    SHARDLAKE,
    STREAM,
    product_environment,
    start_kinesis,
    start_product,
    write_config,
)
from demo.setting import Setting
from demo.tables import carriers_table, shards_table
from demo.watch import DemoError, Watch
from local_kinesis.produce import kinesis_client

FLIGHTS = 336_776

_SHARDS = 4


class Story:
    """The demo in one setting; what it starts runs on.

    Args:
        folder: where everything lies.
        background: what its processes belong to.
        console: who is told.
        setting: where data and jobs are.
        begun: when it began, by the monotonic clock.
    """

    def __init__(
        self, folder: DemoFolder, background: Background, console: Console, setting: Setting, begun: float
    ) -> None:
        self._folder, self._background, self._console, self._setting = folder, background, console, setting
        self._begun = begun
        self.acknowledged: Counter[str] = Counter()
        """How many records each shard has acknowledged."""

    def say(self, text: str) -> None:
        """Tell a line, with the time since the beginning."""
        minutes, seconds = divmod(int(time.monotonic() - self._begun), 60)
        self._console.print(f"{minutes}:{seconds:02} {text}", highlight=False, soft_wrap=True)

    def ingest(self, runs_on_each_side: int, after_reshard: Callable[[], None] = lambda: None) -> Airflow:
        """Put every flight on a stream that is resharded on the way, until all are committed.

        Args:
            runs_on_each_side: how many scheduled runs have to commit a batch before the reshard, and after it.
            after_reshard: what else happens to the product while it is at work.

        Raises:
            DemoError: something is not as it must be; the message says what.
        """
        endpoint_url = start_kinesis(self._folder, self._background)
        client = kinesis_client(endpoint_url, REGION, max_attempts=1)
        client.create_stream(StreamName=STREAM, ShardCount=_SHARDS)
        write_config(self._folder, endpoint_url, self._setting)
        self.say(f"stream {STREAM} with {_SHARDS} shards is on the local Kinesis, {endpoint_url}; Airflow is starting")
        airflow = start_product(self._folder, self._background, self._setting)
        self.say(f"Airflow is up: {airflow.url}, {airflow.login}")

        putting = kinesis_client(endpoint_url, REGION, max_attempts=1)
        producer = Producer(putting, STREAM, map(to_record, read_flights()))
        self.acknowledged = producer.acknowledged
        database = airflow.home.home / DATABASE
        with Watch(self._console, self._background, database, DAG_ID, producer, FLIGHTS) as watch:
            producer.approach(FLIGHTS // 2)
            producer.start()
            watch.until(
                f"{runs_on_each_side} scheduled runs to commit a batch before the reshard",
                lambda runs: len(scheduled_between(runs, None, datetime.now(UTC))) >= runs_on_each_side,
            )
            reshard_began = datetime.now(UTC)
            reshard(client)
            reshard_ended = datetime.now(UTC)
            self.say(f"{runs_on_each_side} scheduled runs have committed a batch; a shard is split, two are merged")
            producer.approach(FLIGHTS)
            after_reshard()
            watch.until(
                f"{runs_on_each_side} scheduled runs to commit a batch after the reshard",
                lambda runs: len(scheduled_between(runs, reshard_ended, None)) >= runs_on_each_side,
            )
            producer.finish(FLIGHTS)
            self.say(f"{runs_on_each_side} more have; the last flights are put, and the runs catch up")
            watch.until("all flights to be committed", _all_committed)
        self._check_runs(airflow, runs_on_each_side, reshard_began, reshard_ended)
        return airflow

    def check(self, below: str = "", *audit_options: str) -> None:
        """Audit and count what is in the dataset, or in a part of it.

        Raises:
            DemoError: not every flight is there exactly once.
        """
        self.shardlake("audit", PIPELINE, *audit_options)
        found, carriers = read_dataset(self._setting.dataset(below)), count_by_carrier()
        self._console.print(shards_table(found, self.acknowledged), carriers_table(found, carriers))
        wrong = differences(found, carriers, self.acknowledged)
        if wrong:
            raise DemoError("\n".join(wrong))
        self.say(f"every one of the {FLIGHTS:,} flights is in Parquet exactly once")

    def shardlake(self, *arguments: str) -> Any:
        """What a command prints as JSON.

        Raises:
            DemoError: it did not end well.
        """
        environment = {**os.environ, **product_environment(self._folder, self._setting)}
        command = [str(SHARDLAKE), *arguments, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            raise DemoError(f"shardlake {' '.join(arguments)} ended with exit code {done.returncode}:\n{said}")
        return json.loads(done.stdout)

    def _check_runs(self, airflow: Airflow, expected: int, reshard_began: datetime, reshard_ended: datetime) -> None:
        runs = committed_runs(airflow.home.home / DATABASE, DAG_ID)
        for side, number in (
            ("before", len(scheduled_between(runs, None, reshard_began))),
            ("after", len(scheduled_between(runs, reshard_ended, None))),
        ):
            self.say(f"Airflow's database: {number} scheduled runs committed a batch {side} the reshard")
            if number < expected:
                raise DemoError(f"that should be {expected}")


def _all_committed(runs: list[CommittedRun]) -> bool:
    return sum(run.rows for run in runs) >= FLIGHTS and all(run.state == "success" for run in runs)


def reshard(client: Any) -> None:
    """Splits the first shard in two equal ones and merges the last two."""
    shards = client.list_shards(StreamName=STREAM, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    shards.sort(key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))
    first, *_, last_but_one, last = shards
    start, end = (int(first["HashKeyRange"][key]) for key in ("StartingHashKey", "EndingHashKey"))
    middle = str((start + end + 1) // 2)
    client.split_shard(StreamName=STREAM, ShardToSplit=first["ShardId"], NewStartingHashKey=middle)
    client.merge_shards(StreamName=STREAM, ShardToMerge=last_but_one["ShardId"], AdjacentShardToMerge=last["ShardId"])
