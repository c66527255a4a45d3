"""async-kinesis (PyPI): its consumer hands out the data of records and nothing else, so that is the only column.

It keeps no position here: its checkpoints want Redis or DynamoDB.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

from kinesis import Consumer
from kinesis.processors import StringProcessor
from writing import ShardFile

ROWS = 1_000


class AsTheyAre(StringProcessor):
    """Hands records out as bytes, not looked into."""

    def parse(self, data: bytes) -> Iterator[bytes]:
        """The one item in a record."""
        yield data


async def read(endpoint_url: str, stream: str, folder: str, records: int) -> int:
    """Read until there are as many records; how many rows."""
    file, rows, data = ShardFile(folder, stream, "all", ("data",)), 0, list[bytes]()
    consumer = Consumer(stream_name=stream, endpoint_url=endpoint_url, processor=AsTheyAre(), sleep_time_no_records=0.2)
    async with consumer:
        while rows < records:
            async for each in consumer:
                data.append(each)
                if len(data) == ROWS or rows + len(data) == records:
                    file.add(data=data)
                    rows += len(data)
                    data.clear()
                if rows == records:
                    break
    file.close()
    return rows


def main(endpoint_url: str, stream: str, folder: str, records: str) -> None:
    """Read all there is."""
    print(json.dumps({"rows": asyncio.run(read(endpoint_url, stream, folder, int(records)))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
