"""What happens in the demo, from an empty folder to two tables. Every claim is checked.

put half of the flights, while scheduled runs ingest   until 3 of them have committed a batch
split a shard, merge two others                        while records arrive
put the rest                                           until 3 more runs have committed a batch
let the runs catch up, audit, count
"""

from __future__ import annotations

import os
import subprocess
import time
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
from demo.tables import carriers_table, shards_table
from demo.watch import DemoError, Watch
from local_kinesis.produce import kinesis_client

FLIGHTS = 336_776
RUNS_ON_EACH_SIDE = 3

_SHARDS = 4


def tell(folder: DemoFolder, background: Background, console: Console) -> Airflow:
    """Runs the demo; what it started runs on.

    Raises:
        DemoError: something is not as it must be; the message says what.
    """
    begun = time.monotonic()

    def say(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - begun), 60)
        console.print(f"{minutes}:{seconds:02} {text}", highlight=False, soft_wrap=True)

    endpoint_url = start_kinesis(folder, background)
    client = kinesis_client(endpoint_url, REGION, max_attempts=1)
    client.create_stream(StreamName=STREAM, ShardCount=_SHARDS)
    write_config(folder, endpoint_url)
    say(f"stream {STREAM} with {_SHARDS} shards is on the local Kinesis, {endpoint_url}; Airflow is starting")
    airflow = start_product(folder, background)
    say(f"Airflow is up: {airflow.url}, {airflow.login}")

    producer = Producer(kinesis_client(endpoint_url, REGION, max_attempts=1), STREAM, map(to_record, read_flights()))
    database = airflow.home.home / DATABASE
    with Watch(console, background, database, DAG_ID, producer, FLIGHTS) as watch:
        producer.approach(FLIGHTS // 2)
        producer.start()
        watch.until(
            f"{RUNS_ON_EACH_SIDE} scheduled runs to commit a batch before the reshard",
            lambda runs: len(scheduled_between(runs, None, datetime.now(UTC))) >= RUNS_ON_EACH_SIDE,
        )
        reshard_began = datetime.now(UTC)
        reshard(client)
        reshard_ended = datetime.now(UTC)
        say(f"{RUNS_ON_EACH_SIDE} scheduled runs have committed a batch; one shard is split now, two others are merged")
        producer.approach(FLIGHTS)
        watch.until(
            f"{RUNS_ON_EACH_SIDE} scheduled runs to commit a batch after the reshard",
            lambda runs: len(scheduled_between(runs, reshard_ended, None)) >= RUNS_ON_EACH_SIDE,
        )
        producer.finish(FLIGHTS)
        say(f"{RUNS_ON_EACH_SIDE} more have; the last flights are put, and the runs catch up")
        watch.until("all flights to be committed", _all_committed)
    say("every flight is committed; audit and count")
    wrong = _audit(folder)
    runs = committed_runs(database, DAG_ID)
    for side, number in (
        ("before", len(scheduled_between(runs, None, reshard_began))),
        ("after", len(scheduled_between(runs, reshard_ended, None))),
    ):
        say(f"Airflow's database: {number} scheduled runs committed a batch {side} the reshard")
        if number < RUNS_ON_EACH_SIDE:
            wrong.append(f"scheduled runs that committed a batch {side} the reshard: {number}, not {RUNS_ON_EACH_SIDE}")
    found, carriers = read_dataset(folder.dataset), count_by_carrier()
    console.print(shards_table(found, producer.acknowledged), carriers_table(found, carriers))
    wrong += differences(found, carriers, producer.acknowledged)
    if wrong:
        raise DemoError("\n".join(wrong))
    say(f"every one of the {FLIGHTS:,} flights is in Parquet exactly once")
    return airflow


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


def _audit(folder: DemoFolder) -> list[str]:
    environment = {**os.environ, **product_environment(folder)}
    command = [str(SHARDLAKE), "audit", PIPELINE, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [f"shardlake audit ended with exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"]
