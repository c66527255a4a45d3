"""native-aws-kcl-py (PyPI): a KCL in Python, polling.

Its leases are in DynamoDB, where `AWS_ENDPOINT_URL_DYNAMODB` says. It takes a checkpoint where a shard's data ends;
what was written since the checkpoint before is written again after a failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field

from native_aws_kcl_py import (
    AwsConfig,
    InitializationInput,
    InitialPositionInStream,
    InitialPositionInStreamExtended,
    KinesisConsumerConfig,
    LeaseLostInput,
    ProcessRecordsInput,
    RetrievalConfig,
    Scheduler,
    ShardEndedInput,
    ShardRecordProcessor,
    ShardRecordProcessorFactory,
    ShutdownRequestedInput,
)
from writing import ShardFile

IDLE_MS = 1
"""Between two calls."""


class Writer(ShardRecordProcessor):
    """Writes the records of one shard."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.file: ShardFile | None = None

    async def initialize(self, input: InitializationInput) -> None:
        """Begin with a shard."""
        self.file = ShardFile(self._work.folder, self._work.stream, input.shard_id)

    async def process_records(self, input: ProcessRecordsInput) -> None:
        """Write the records of a reply."""
        records = input.records
        if self.file and records:
            self._work.begun_s = self._work.begun_s or time.monotonic()
            self.file.add(
                sequence_number=[record.sequence_number for record in records],
                partition_key=[record.partition_key for record in records],
                approximate_arrival_timestamp=[record.approximate_arrival_timestamp for record in records],
                data=[record.data for record in records],
            )
            if input.millis_behind_latest == 0:
                await input.checkpointer.checkpoint()
            self._work.count(len(records))

    async def lease_lost(self, input: LeaseLostInput) -> None:
        """Another worker has the shard: there is none here."""

    async def shard_ended(self, input: ShardEndedInput) -> None:
        """The shard is closed: no shard is, here."""

    async def shutdown_requested(self, input: ShutdownRequestedInput) -> None:
        """End in good order: the files are closed already."""


@dataclass
class Work(ShardRecordProcessorFactory):
    """What is to be read, how much of it is left, and when the first came; `done` once nothing is left."""

    folder: str
    stream: str
    left: int
    begun_s: float = 0.0
    done: asyncio.Event = field(default_factory=asyncio.Event)
    writers: list[Writer] = field(default_factory=list)

    def create_processor(self) -> Writer:
        """A writer for another shard."""
        self.writers.append(Writer(self))
        return self.writers[-1]

    def count(self, rows: int) -> None:
        """Count rows."""
        self.left -= rows
        if self.left <= 0:
            self.done.set()


async def read(endpoint_url: str, work: Work) -> None:
    """Read until nothing is left."""
    region, lease_endpoint_url = os.environ["AWS_DEFAULT_REGION"], os.environ["AWS_ENDPOINT_URL_DYNAMODB"]
    beginning = InitialPositionInStreamExtended(initial_position_in_stream=InitialPositionInStream.TRIM_HORIZON)
    config = KinesisConsumerConfig(
        aws=AwsConfig(region=region, kinesis_endpoint=endpoint_url, dynamodb_endpoint=lease_endpoint_url),
        application_name=os.environ["LEASE_TABLE"],
        stream_name=work.stream,
        record_processor_factory=work,
        initial_position_in_stream=beginning,
        retrieval=RetrievalConfig(work.stream, max_records=10_000, idle_time_between_reads_millis=IDLE_MS),
    )
    running = asyncio.ensure_future(Scheduler(config).run())
    done = asyncio.ensure_future(work.done.wait())
    await asyncio.wait({running, done}, return_when=asyncio.FIRST_COMPLETED)
    if not done.done():
        running.result()
        raise RuntimeError("the scheduler has ended by itself")
    for writer in work.writers:
        if writer.file:
            writer.file.close()


async def main(endpoint_url: str, stream: str, folder: str, records: str) -> None:
    """Read all there is."""
    work = Work(folder, stream, int(records))
    await read(endpoint_url, work)
    print(json.dumps({"reading_s": time.monotonic() - work.begun_s}), flush=True)
    os._exit(0)  # what the reading takes counts, not a graceful end


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
