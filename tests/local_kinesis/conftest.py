"""One server for the folder, and a stream of its own for each test; what a test orders of the server ends with it."""

import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from local_kinesis.process import LocalKinesis, running

REGION = "us-east-1"
AUTHORIZATION = f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/kinesis/aws4_request"
_numbers = itertools.count()


@dataclass(frozen=True)
class StreamUnderTest:
    """A stream, and short ways to put, read and reshard with boto3."""

    server: LocalKinesis
    client: Any
    name: str

    def put(self, *data: bytes, hash_key: int = 0) -> list[dict[str, str]]:
        """Puts records on the shard of a hash key and returns their places."""
        records = [{"PartitionKey": "k", "ExplicitHashKey": str(hash_key), "Data": each} for each in data]
        results: list[dict[str, str]] = self.client.put_records(StreamName=self.name, Records=records)["Records"]
        return results

    def numbers(self, *data: bytes, hash_key: int = 0) -> list[str]:
        """Puts records and returns their sequence numbers."""
        return [place["SequenceNumber"] for place in self.put(*data, hash_key=hash_key)]

    def shards(self, **more: Any) -> list[dict[str, Any]]:
        """The first page of the listing."""
        shards: list[dict[str, Any]] = self.client.list_shards(StreamName=self.name, **more)["Shards"]
        return shards

    def ids(self, **more: Any) -> list[int]:
        """The numbers in the ids of the listed shards."""
        return [int(shard["ShardId"].removeprefix("shardId-")) for shard in self.shards(**more)]

    def iterator(self, kind: str = "TRIM_HORIZON", shard: int = 0, **more: Any) -> str:
        """A new iterator."""
        reply = self.client.get_shard_iterator(
            StreamName=self.name, ShardId=f"shardId-{shard:012d}", ShardIteratorType=kind, **more
        )
        return str(reply["ShardIterator"])

    def page(self, iterator: str, **more: Any) -> dict[str, Any]:
        """One reply of GetRecords."""
        reply: dict[str, Any] = self.client.get_records(ShardIterator=iterator, **more)
        return reply

    def read(self, kind: str = "TRIM_HORIZON", shard: int = 0, **more: Any) -> list[bytes]:
        """The data of all records from a position to the tip or the shard's end."""
        iterator: str | None = self.iterator(kind, shard, **more)
        data: list[bytes] = []
        while iterator:
            reply = self.page(iterator)
            data += [record["Data"] for record in reply["Records"]]
            iterator = reply.get("NextShardIterator") if reply["MillisBehindLatest"] else None
        return data

    def split(self, shard: int, new_hash_start: int) -> None:
        """Splits a shard."""
        self.client.split_shard(
            StreamName=self.name, ShardToSplit=f"shardId-{shard:012d}", NewStartingHashKey=str(new_hash_start)
        )

    def merge(self, shard: int, adjacent: int) -> None:
        """Merges two shards."""
        self.client.merge_shards(
            StreamName=self.name,
            ShardToMerge=f"shardId-{shard:012d}",
            AdjacentShardToMerge=f"shardId-{adjacent:012d}",
        )

    def resize(self, target: int) -> dict[str, Any]:
        """Changes the number of shards."""
        reply: dict[str, Any] = self.client.update_shard_count(
            StreamName=self.name, TargetShardCount=target, ScalingType="UNIFORM_SCALING"
        )
        return reply

    def trim(self, shard: int = 0, **how: Any) -> None:
        """Trims a shard by the control endpoint."""
        self.server.control({"trim": {"stream": self.name, "shard": f"shardId-{shard:012d}", **how}})


@dataclass(frozen=True)
class Wire:
    """Calls without boto3, which changes times and drops nulls."""

    host: str

    def call(self, operation: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
        """One call: its status, headers (names in lower case) and JSON body."""
        sent = {
            "X-Amz-Target": f"Kinesis_20131202.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
            "Authorization": AUTHORIZATION,
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.host, timeout=10)
        try:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", "/", raw, {name: value for name, value in sent.items() if value})
            reply = connection.getresponse()
            text = reply.read()
            return reply.status, {k.lower(): v for k, v in reply.getheaders()}, json.loads(text) if text else None
        finally:
            connection.close()


@pytest.fixture(scope="session")
def shared_server() -> Iterator[LocalKinesis]:
    """The folder's server."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def shared_client(shared_server: LocalKinesis) -> Any:
    """One client for all tests: making one takes longer than most tests."""
    return shared_server.client(REGION)


@pytest.fixture
def server(shared_server: LocalKinesis) -> Iterator[LocalKinesis]:
    """The server as it is after its start, but for its clock."""
    shared_server.control({"reset_stats": True})
    yield shared_server
    shared_server.control(
        {
            "deny": [],
            "page_limit": None,
            "empty_pages": 0,
            "fail_put_records": 0,
            "retention_behaviour": "resume",
            "limits": [],
            "faults": [],
        }
    )


@pytest.fixture
def client(server: LocalKinesis, shared_client: Any) -> Any:
    """A boto3 client."""
    return shared_client


@pytest.fixture
def wire(server: LocalKinesis) -> Wire:
    """Raw calls."""
    return Wire(server.endpoint_url.removeprefix("http://"))


@pytest.fixture
def make_stream(server: LocalKinesis, client: Any) -> Iterator[Callable[..., StreamUnderTest]]:
    """Makes streams, and deletes them after the test."""
    made: list[str] = []

    def make(shards: int = 1, **more: Any) -> StreamUnderTest:
        name = f"stream-{next(_numbers):04d}"
        client.create_stream(StreamName=name, ShardCount=shards, **more)
        made.append(name)
        return StreamUnderTest(server, client, name)

    yield make
    for name in made:
        with suppress(client.exceptions.ResourceNotFoundException):
            client.delete_stream(StreamName=name)


@pytest.fixture
def stream(make_stream: Callable[..., StreamUnderTest]) -> StreamUnderTest:
    """A stream of one shard."""
    return make_stream()
