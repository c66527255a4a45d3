"""One local Kinesis for the folder; for each test a stream, a ledger and a dataset of its own.

A module of tests that is about datasets runs over each place where they can be, with `support.lakes.PLACES`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from local_kinesis.process import LocalKinesis, running
from local_kinesis.produce import Acknowledged, put_all
from shardlake.batch import Committed, Steps
from shardlake.config import Pipeline
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import Kinesis
from shardlake.lake.home import Home
from shardlake.ledger import Chain, Ledger
from shardlake.ledger.memory import MemoryLedger
from shardlake.names import LIVE
from shardlake.plan import BatchPlan, Role, Run
from shardlake.planning import Planner
from shardlake.ranges import SequenceNumber
from shardlake.shards import Shard
from support.effects import Effects, counted_effects
from support.inline_engine import InlineEngine
from support.lakes import Bucket, BucketLake, Folder, Lake

REGION = "us-east-1"
TEST_BUDGET_S = 2.0
"""How long planning goes on while calls fail, in tests."""

_numbers = itertools.count()


@dataclass
class World:
    """A stream with a producer's log of what it acknowledged, and a pipeline that reads it."""

    server: LocalKinesis
    client: Any
    stream: str
    root: Path
    settings: dict[str, Any]
    bucket: Bucket | None = None
    ledger: Ledger = field(default_factory=MemoryLedger)
    acknowledged: list[Acknowledged] = field(default_factory=list)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline's configuration."""
        settings = {"name": "p", **self.place, "ledger": "sqlite:///unused.db"}
        endpoint = {"stream": self.stream, "region": REGION, "endpoint_url": self.server.endpoint_url}
        return Pipeline(**{**settings, **endpoint, **self.settings})

    @property
    def steps(self) -> Steps:
        """The steps of the pipeline's batches."""
        return Steps(self.pipeline, self.ledger)

    @property
    def home(self) -> Home:
        """The pipeline's dataset."""
        return self.steps.home

    @property
    def lake(self) -> Lake:
        """What lies in the dataset: a folder below `root`, or a prefix that is named after it."""
        folder = self.root / "lake"
        return self.bucket.lake(str(folder).strip("/")) if self.bucket else Folder(folder)

    @property
    def place(self) -> dict[str, Any]:
        """What the configuration says of the dataset."""
        lake = self.lake
        return {"dataset": lake.dataset, "storage": lake.storage}

    def path(self, key: str) -> Path:
        """Where a key lies, for a dataset in a folder."""
        return self.root / "lake" / key

    @property
    def kinesis(self) -> Kinesis:
        """A client of ours."""
        return self.steps.kinesis()

    def put(self, *data: bytes, shard: int = 0) -> list[SequenceNumber]:
        """Put records on a shard, which is open, and return their numbers."""
        (hash_key,) = [s.starting_hash_key for s in self.kinesis.list_shards() if s.shard_id == shard_id(shard)]
        records = [{"PartitionKey": "k", "ExplicitHashKey": hash_key, "Data": each} for each in data]
        results = []
        for begin in range(0, len(records), 500):
            reply = self.client.put_records(StreamName=self.stream, Records=records[begin : begin + 500])
            results += reply["Records"]
        return [SequenceNumber(result["SequenceNumber"]) for result in results]

    def produce(self, count: int) -> None:
        """Put records over all open shards, and log what was acknowledged."""
        begin = len(self.acknowledged)
        items = ((f"key-{n % 31}", b"record %d" % n) for n in range(begin, begin + count))
        self.acknowledged += put_all(self.client, self.stream, items)

    def control(self, **orders: Any) -> None:
        """Give the server orders."""
        self.server.control(orders)

    def advance(self, hours: float = 0, seconds: float = 0) -> None:
        """Move the service's clock ahead."""
        self.control(advance_clock_s=hours * 3600 + seconds)

    def trim(self, before: SequenceNumber | None = None, shard: int = 0) -> None:
        """Let a shard lose its records before one, or all of them."""
        how = {"before": before.text} if before else {"all": True}
        self.control(trim={"stream": self.stream, "shard": shard_id(shard), **how})

    def split(self, shard: int) -> None:
        """Split a shard in two halves."""
        (found,) = [s for s in self.kinesis.list_shards() if s.shard_id == shard_id(shard)]
        middle = (int(found.starting_hash_key) + int(found.ending_hash_key) + 1) // 2
        self.client.split_shard(StreamName=self.stream, ShardToSplit=found.shard_id, NewStartingHashKey=str(middle))

    def merge(self, shard: int, adjacent: int) -> None:
        """Merge two neighbours."""
        pair = {"ShardToMerge": shard_id(shard), "AdjacentShardToMerge": shard_id(adjacent)}
        self.client.merge_shards(StreamName=self.stream, **pair)

    def shard(self, shard: int = 0) -> Shard:
        """A shard as the listing tells it."""
        (found,) = [s for s in self.kinesis.list_shards() if s.shard_id == shard_id(shard)]
        return found

    def calls(self, shard: int = 0) -> dict[str, int]:
        """The calls that concerned a shard since the last reset of the stats, and the records that they gave."""
        counts = self.server.stats()["shards"].get(self.stream, {}).get(shard_id(shard), {})
        return {name: counts.get(name, 0) for name in ("GetShardIterator", "GetRecords", "records")}

    def chain(self, shard: int = 0) -> Chain:
        """Where a shard stands in the ledger."""
        return self.ledger.chains("p", LIVE)[shard_id(shard)]

    def plan(self, run: str = "run-1", kinesis: Kinesis | None = None) -> BatchPlan:
        """The batch of a run."""
        return self.planner(kinesis).plan(Run("dag", run))

    def planner(self, kinesis: Kinesis | None = None) -> Planner:
        """The pipeline's planner."""
        return Planner(self.pipeline, self.ledger, kinesis or self.kinesis, self.home)

    def run(self, run: str = "run-1") -> tuple[BatchPlan, Committed | None]:
        """One batch from plan to commit."""
        return self.steps.run(Run("dag", run), InlineEngine(), lambda line: None)

    def run_until_caught_up(self, name: str = "run") -> int:
        """Batches until one is empty; how many were not."""
        for count in itertools.count():
            if self.run(f"{name}-until-{count}")[1] is None:
                return count
        raise AssertionError

    def numbers(self, shard: int = 0) -> list[str]:
        """The sequence numbers that a shard's published files hold, in the order of the files' names."""
        files = map(self.lake.read, self.lake.keys(f"data/shard_id={shard_id(shard)}/"))
        columns = (pq.read_table(pa.BufferReader(file), columns=["sequence_number"]) for file in files)
        return [number for column in columns for number in column.column(0).to_pylist()]

    def assert_every_record_is_there_once(self) -> None:
        """Compare the dataset with the producer's log, and look for temporary files that should not be left."""
        self.assert_rows_are_those_acknowledged()
        assert self.home.names("_shardlake/tmp") == []
        assert self.left_behind() == []

    def assert_rows_are_those_acknowledged(self) -> None:
        """Compare the dataset with the producer's log."""
        path, files = self.lake.place("data")
        rows = pq.read_table(path, filesystem=files, columns=["shard_id", "sequence_number", "data"]).to_pylist()
        found = Counter((row["shard_id"], row["sequence_number"], row["data"]) for row in rows)
        expected = Counter(
            (record.shard_id, record.sequence_number, b"record %d" % n) for n, record in enumerate(self.acknowledged)
        )
        assert found == expected

    def left_behind(self) -> list[str]:
        """Half written control files, and uploads that are neither completed nor ended."""
        if isinstance(self.lake, BucketLake):
            uploads: list[str] = self.lake.uploads()
            return uploads
        return [key for key in self.lake.keys("_shardlake/") if ".writing-" in key]

    def files(self) -> dict[str, bytes]:
        """All published files and their bytes, by path."""
        return {key.removeprefix("data/"): self.lake.read(key) for key in self.lake.keys("data/")}


def shard_id(number: int) -> str:
    """The id of a stream's n-th shard."""
    return f"shardId-{number:012d}"


@pytest.fixture(scope="session")
def shared_kinesis() -> Iterator[LocalKinesis]:
    """The folder's server."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def shared_client(shared_kinesis: LocalKinesis) -> Any:
    """One client of the tests' own."""
    return shared_kinesis.client(REGION)


class SharedSession:
    """Makes clients of ours in one boto3 session: a new one for each takes longer than most tests."""

    def __init__(self) -> None:
        self._session, self._made = boto3.Session(), dict[tuple[Any, ...], Kinesis]()

    def __call__(
        self,
        stream: str,
        region: str,
        endpoint_url: str | None,
        session: boto3.Session | None = None,
        role: Role | None = None,
    ) -> Kinesis:
        of = (stream, region, endpoint_url, session, role)
        if of not in self._made:
            self._made[of] = Kinesis(stream, region, endpoint_url, session or self._session, role)
        return self._made[of].within(Budget(TEST_BUDGET_S))

    def forget(self) -> None:
        """Give up the clients of streams that are gone: each holds connections."""
        self._made.clear()


@pytest.fixture(scope="session")
def shared_session() -> SharedSession:
    """The tests' one boto3 session."""
    return SharedSession()


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> Bucket | None:
    """Where datasets are: a bucket, or, unless a module asks for it, folders."""
    return request.getfixturevalue("object_store") if getattr(request, "param", "folder") == "s3" else None


@pytest.fixture
def make_world(
    bucket: Bucket | None,
    shared_kinesis: LocalKinesis,
    shared_client: Any,
    shared_session: SharedSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., World]]:
    """Makes streams, each with a pipeline; what a test orders of the server ends with it, but for its clock."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr("shardlake.batch.Kinesis", shared_session)
    monkeypatch.setattr("shardlake.ingesting.Kinesis", shared_session)
    made: list[str] = []

    def make(shards: int = 1, *, ledger: Ledger | None = None, **settings: Any) -> World:
        name = f"stream-{next(_numbers):04d}"
        shared_client.create_stream(StreamName=name, ShardCount=shards)
        made.append(name)
        root = tmp_path / name
        return World(shared_kinesis, shared_client, name, root, settings, bucket, ledger or MemoryLedger())

    yield make
    for name in set(made) & set(shared_client.list_streams(Limit=1000)["StreamNames"]):
        shared_client.delete_stream(StreamName=name)
    shared_kinesis.control(
        {"deny": [], "page_limit": None, "empty_pages": 0, "retention_behaviour": "resume", "reset_stats": True}
        | {"limits": [], "faults": []}
    )
    shared_session.forget()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A stream of one shard."""
    return make_world()


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty pages are followed at once."""
    monkeypatch.setattr("shardlake.kinesis.pages.EMPTY_PAGE_WAIT_S", 0.0)
    monkeypatch.setattr("shardlake.kinesis.reader.EMPTY_PAGE_WAIT_S", 0.0)


@pytest.fixture
def effects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Effects:
    """The effects of everything that a test does."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return counted_effects(monkeypatch, temporary)
