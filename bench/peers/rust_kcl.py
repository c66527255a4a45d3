"""kcl-rs (PyPI): a KCL in Rust, polling, which calls Python with the records of one reply.

Its leases are in DynamoDB, where `AWS_ENDPOINT_URL_DYNAMODB` says. It takes a checkpoint at a shard's end of data; what
was written since the checkpoint before is written again after a failure.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from kcl_rs import (
    InitializeInput,
    LeaseLostInput,
    ProcessRecordsInput,
    RecordProcessorBase,
    Scheduler,
    ShardEndedInput,
    ShutdownRequestedInput,
)
from writing import ShardFile

IDLE_MS = 200
"""Between two calls: the least that it takes."""


class Counter:
    """Counts rows over all shards; `done` once they are as many as there are."""

    def __init__(self, records: int) -> None:
        self._left, self._lock, self.done = records, threading.Lock(), threading.Event()
        self.begun_s = 0.0

    def begin(self) -> None:
        """Note when the first records came."""
        with self._lock:
            self.begun_s = self.begun_s or time.monotonic()

    def add(self, rows: int) -> None:
        """Count rows that are written."""
        with self._lock:
            self._left -= rows
            if self._left <= 0:
                self.done.set()


class Writer(RecordProcessorBase):
    """Writes the records of one shard."""

    def __init__(self, folder: str, stream: str, counter: Counter) -> None:
        self._folder, self._stream, self._counter = folder, stream, counter
        self._file: ShardFile | None = None

    def initialize(self, initialize_input: InitializeInput) -> None:
        """Begin with a shard."""
        self._file = ShardFile(self._folder, self._stream, str(initialize_input.shard_id))

    def process_records(self, process_records_input: ProcessRecordsInput) -> None:
        """Write the records of a reply."""
        records = process_records_input.records
        if self._file and records:
            self._counter.begin()
            self._file.add(
                sequence_number=[record.sequence_number for record in records],
                partition_key=[record.partition_key for record in records],
                approximate_arrival_timestamp=[record.approximate_arrival_timestamp for record in records],
                data=[record.data for record in records],
            )
            self._counter.add(len(records))
            if process_records_input.millis_behind_latest == 0:
                process_records_input.checkpointer.checkpoint()

    def lease_lost(self, lease_lost_input: LeaseLostInput) -> None:
        """Another worker has the shard: there is none here."""
        self.close()

    def shard_ended(self, shard_ended_input: ShardEndedInput) -> None:
        """The shard is closed: no shard is, here."""
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input: ShutdownRequestedInput) -> None:
        """End in good order."""
        self.close()

    def close(self) -> None:
        """Finish the file."""
        if self._file:
            self._file.close()
            self._file = None


def main(endpoint_url: str, stream: str, folder: str, records: str) -> None:
    """Read until there are as many records."""
    os.environ["AWS_ENDPOINT_URL_KINESIS"] = endpoint_url
    counter, writers = Counter(int(records)), list[Writer]()

    def writer() -> Writer:
        writers.append(Writer(folder, stream, counter))
        return writers[-1]

    scheduler = Scheduler(
        stream_name=stream,
        application_name=os.environ["LEASE_TABLE"],
        record_processor_factory=writer,
        region=os.environ["AWS_DEFAULT_REGION"],
        initial_position="TRIM_HORIZON",
        retrieval_mode="POLLING",
        max_records=10_000,
        idle_time_between_reads_millis=IDLE_MS,
    )
    scheduler.start()
    counter.done.wait()
    for each in writers:
        each.close()
    print(json.dumps({"reading_s": time.monotonic() - counter.begun_s}), flush=True)
    os._exit(0)  # what the reading takes counts, not a graceful end


if __name__ == "__main__":
    main(*sys.argv[1:])
