"""`make conformance-aws`: the same questions to the service itself, on streams of this run, deleted whatever happens.

NOT RUN against the service so far. Tests try it with the local Kinesis in its place, by AWS_ENDPOINT_URL_KINESIS. A run
that is killed by SIGKILL leaves its streams: their names begin with the prefix that it prints first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import tests.conformance.asked  # noqa: F401 -- notes the behaviours
from tests.conformance.behaviour import BEHAVIOURS
from tests.conformance.servers import new_prefix

SHARD_HOUR_USD = 0.015
"""A provisioned shard in us-east-1, as known on 2026-11-21: AWS' price list counts, and other regions may be dearer."""
MILLION_UNITS_USD = 0.014
"""A million PUT payload units of 25 KB each, there and then."""
UNITS = 60_000
"""More than are put: the most by the pages of 10,000 records and of 10 MiB."""
STARTED_HOURS = 1
"""A shard is billed by the started hour; none here lives longer."""


def cost() -> str:
    """What the run costs at most, and how that is reckoned."""
    asked = [each for each in BEHAVIOURS.values() if not each.a_day]
    shards = sum(each.shards + each.opens for each in asked)
    usd = shards * STARTED_HOURS * SHARD_HOUR_USD + UNITS / 1e6 * MILLION_UNITS_USD
    return (
        f"{len(asked)} questions, {shards} shards for an hour or less each, at most {UNITS:,} PUT payload units: "
        f"{shards} x {STARTED_HOURS} h x ${SHARD_HOUR_USD} + {UNITS / 1e6} million x ${MILLION_UNITS_USD} = ${usd:.2f} "
        "(us-east-1, as known on 2026-11-21; AWS' price list counts). It takes about an hour."
    )


def confirmed() -> bool:
    """Whether a person, or CONFIRM=yes, agrees."""
    if os.environ.get("CONFIRM") == "yes":
        return True
    if not sys.stdin.isatty():
        return False
    return input("Type yes to go on: ") == "yes"


def delete(kinesis: Any, prefix: str) -> list[str]:
    """Deletes the streams whose names begin with a prefix, and returns those that could not be."""
    pages = kinesis.get_paginator("list_streams").paginate()
    names = [name for page in pages for name in page["StreamNames"] if name.startswith(prefix)]
    left = []
    for name in names:
        try:
            kinesis.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
        except kinesis.exceptions.ResourceNotFoundException:
            continue
        except Exception as exc:  # whatever it is, the others are deleted
            left.append(f"{name} ({exc})")
        time.sleep(0.25)  # 5 calls a second are allowed
    return left


def main(options: list[str]) -> int:
    """Asks, and returns pytest's exit code; 2 if nobody agreed, 3 if a stream is left.

    Args:
        options: more of pytest's.
    """
    kinesis = boto3.client("kinesis")
    prefix = new_prefix()
    print(f"Streams named {prefix}* will be made in {kinesis.meta.region_name} ({kinesis.meta.endpoint_url}).")
    print(f"Cost at most: {cost()}", flush=True)
    if not confirmed():
        print("Nothing was done: say CONFIRM=yes, or answer yes.")
        return 2
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", str(here / "test_conformance.py"), f"--servers=aws:{prefix}", *options]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        left = delete(kinesis, prefix)
        print("\n".join(f"STILL THERE, delete it: {name}" for name in left) or "Every stream of this run is deleted.")
    return 3 if left else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
