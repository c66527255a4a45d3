"""``python -m local_kinesis produce``: a file's lines, or made-up records, onto a stream."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from local_kinesis.items import bursts, file_items, made_up_items
from local_kinesis.produce import Acknowledged, Item, kinesis_client, put_each

PROGRESS_S = 2.0


def produce_command(arguments: Sequence[str]) -> int:
    """Puts the records, tells the progress on standard error and the outcome, as JSON, on standard output."""
    options = _parse(arguments)
    started = time.monotonic()
    shards: Counter[str] = Counter()
    total_bytes = 0
    try:
        with ExitStack() as opened:
            log = opened.enter_context(options.acknowledged.open("w")) if options.acknowledged else None
            for record in _reported(_acknowledgements(options), started):
                shards[record.shard_id] += 1
                total_bytes += record.data_bytes
                if log is not None:
                    log.write(_log_line(record))
    except (BotoCoreError, ClientError, OSError) as error:
        print(f"produce: {error} ({shards.total()} records were acknowledged before)", file=sys.stderr)
        return 1
    summary = {
        "records": shards.total(),
        "bytes": total_bytes,
        "seconds": round(time.monotonic() - started, 3),
        "shards": dict(sorted(shards.items())),
    }
    print(json.dumps(summary), flush=True)
    return 0


def _acknowledgements(options: argparse.Namespace) -> Iterator[Acknowledged]:
    client = kinesis_client(options.endpoint_url, options.region)
    for burst in bursts(_items(options), options.rate):
        yield from put_each(client, options.stream, burst)


def _items(options: argparse.Namespace) -> Iterator[Item]:
    if options.file is not None:
        items = file_items(options.file, options.partition_key_field)
    else:
        items = made_up_items(options.record_bytes)
    count = options.count
    if options.seconds is not None:
        count = round(options.rate * options.seconds)
    return islice(items, count)


def _reported(acknowledgements: Iterator[Acknowledged], started: float) -> Iterator[Acknowledged]:
    reported = started
    for count, record in enumerate(acknowledgements, start=1):
        yield record
        now = time.monotonic()
        if now - reported >= PROGRESS_S:
            reported = now
            print(f"produce: {count:,} records, {count / (now - started):,.0f}/s", file=sys.stderr, flush=True)


def _log_line(record: Acknowledged) -> str:
    line = {
        "shard_id": record.shard_id,
        "sequence_number": record.sequence_number,
        "partition_key": record.partition_key,
        "sha256": record.data_sha256,
    }
    return json.dumps(line) + "\n"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m local_kinesis produce",
        description="Puts a file's lines, or made-up JSON records, on a stream of any Kinesis endpoint.",
    )
    add = parser.add_argument
    add("--endpoint-url", required=True)
    add("--region", required=True)
    add("--stream", required=True, help="the stream's name")
    add("--file", type=Path, help="put this file's lines")
    add("--partition-key-field", metavar="F", help="the JSON field that is the partition key; else a hash of the line")
    add("--record-bytes", type=int, default=400, metavar="B", help="the length of a made-up record")
    add("--count", type=int, metavar="N", help="end after so many records")
    add("--rate", type=float, metavar="R", help="at most so many records a second")
    add("--seconds", type=float, metavar="S", help="with --rate: end after so many seconds' records")
    add("--acknowledged", type=Path, metavar="PATH", help="write a JSON line for every acknowledged record")
    options = parser.parse_args(arguments)
    if options.rate is not None and options.rate <= 0:
        parser.error("--rate must be above 0")
    if options.seconds is not None and options.rate is None:
        parser.error("--seconds needs --rate")
    if options.seconds is not None and options.count is not None:
        parser.error("--seconds and --count exclude each other")
    if options.file is not None and not options.file.is_file():
        parser.error(f"--file {options.file} is not a file")
    if options.file is None and options.partition_key_field is not None:
        parser.error("--partition-key-field needs --file")
    if options.file is None and options.count is None and options.seconds is None:
        parser.error("made-up records need --count, or --rate and --seconds")
    return options
