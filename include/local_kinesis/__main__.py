"""The command line: ``python -m local_kinesis [serve] …`` and ``python -m local_kinesis produce …``."""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence

from local_kinesis.api import Api
from local_kinesis.behaviour import EMPTY_PAGES, RESUME, Behaviour
from local_kinesis.errors import ServiceError
from local_kinesis.server import ServeError, loopback_address, make_streams, serve

USAGE_ERROR = 2


def main(arguments: Sequence[str]) -> int:
    """Runs a command and returns its exit code; without a command's name it is ``serve``."""
    if arguments[:1] == ["produce"]:
        # boto3 belongs to the producer alone.
        from local_kinesis.produce_command import produce_command

        return produce_command(arguments[1:])
    return serve_command(arguments[1:] if arguments[:1] == ["serve"] else arguments)


def serve_command(arguments: Sequence[str]) -> int:
    """Runs the server until it is told to end."""
    options = _serve_parser().parse_args(arguments)
    behaviour = Behaviour(
        retention_behaviour=options.retention_behaviour,
        trimmed_pages=options.trimmed_pages,
        iterator_life_ms=round(options.iterator_life_s * 1000),
    )
    api = Api(behaviour)
    try:
        address = loopback_address(options.host)
        api.order(json.dumps({"limits": options.limits}).encode())
        make_streams(api, options.region, options.stream)
        asyncio.run(serve(api, address, options.port, until_stdin_closes=options.until_stdin_closes))
    except (ServeError, ServiceError) as error:
        print(f"local_kinesis: {error}", file=sys.stderr)
        return USAGE_ERROR
    return 0


def _serve_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local_kinesis [serve]",
        description="A local Amazon Kinesis, in memory, on the loopback interface.",
        epilog="To put records on a stream: python -m local_kinesis produce --help",
    )
    add = parser.add_argument
    add("--port", type=int, required=True, help="0 takes a free port")
    add("--host", default="127.0.0.1", help="a loopback address")
    add("--stream", action="append", default=[], metavar="NAME:SHARDS", help="make this stream at the start")
    add("--region", default="us-east-1", help="the region of the streams made at the start")
    add(
        "--retention-behaviour",
        choices=(RESUME, EMPTY_PAGES),
        default=RESUME,
        help="what a read at a trimmed position gets: the oldest record left, or empty pages before it",
    )
    add("--trimmed-pages", type=int, default=60, metavar="N", help="how many pages empty-pages means")
    add("--iterator-life-s", type=float, default=300.0, metavar="S", help="when an iterator expires")
    add(
        "--limits",
        type=json.loads,
        nargs="?",
        default=[],
        const=[{}],
        metavar="JSON",
        help="enforce the service's limits per shard, or those of the control endpoint's order",
    )
    add("--until-stdin-closes", action="store_true", help="end with the process that holds the other end of stdin")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
