"""Whatever the service replies: a plan and a file that are right, or one clear error, in time.

The replies are put in front of boto3's own parser, so all of the client is at work. A longer run: FUZZ_EXAMPLES=10000.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from hypothesis import given, settings

from shardlake.config import Pipeline
from shardlake.errors import IngestError, ShardlakeError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.reader import read_range
from shardlake.lake.local import LocalHome
from shardlake.lake.parquet import write_range
from shardlake.ledger.memory import MemoryLedger
from shardlake.plan import BatchPlan, Run
from shardlake.planning import Planner
from shardlake.ranges import SequenceNumber, SequenceRange, Start
from support.event_stream import event
from support.fuzz import EXAMPLES, mutated, plan_of

fuzzed = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)

SHARD = "shardId-000000000000"
ARN = "arn:aws:kinesis:eu-west-1:000000000000:stream/s"
MOST_CALLS = 200
"""More than a hundred times what a plan takes, or a range: as long as the budget may last here."""

NUMBERS = [f"4959033827149025660855969253836157109592157598913658{n:04}" for n in range(5)]
RANGE = SequenceRange(
    SHARD, Start("AT", SequenceNumber(NUMBERS[1])), SequenceNumber(NUMBERS[3]), SequenceNumber(NUMBERS[1])
)
PLAN = plan_of(RANGE)


def record(n: int) -> dict[str, Any]:
    data = base64.b64encode(b"record %d" % n).decode()
    at_s = 1_790_000_000 + n / 1000
    return {"SequenceNumber": NUMBERS[n], "PartitionKey": "k", "ApproximateArrivalTimestamp": at_s, "Data": data}


GOOD: dict[str, dict[str, Any]] = {
    "DescribeStreamSummary": {
        "StreamDescriptionSummary": {
            "StreamName": "s",
            "StreamARN": ARN,
            "StreamStatus": "ACTIVE",
            "RetentionPeriodHours": 24,
            "StreamCreationTimestamp": 1.7e9,
        }
    },
    "ListShards": {
        "Shards": [
            {
                "ShardId": SHARD,
                "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
                "SequenceNumberRange": {"StartingSequenceNumber": NUMBERS[0]},
            }
        ]
    },
    "GetShardIterator": {"ShardIterator": "iterator"},
    "GetRecords": {
        "Records": [record(1), record(2), record(3)],
        "NextShardIterator": "next",
        "MillisBehindLatest": 0,
    },
}

EVENT = {**GOOD["GetRecords"], "ContinuationSequenceNumber": NUMBERS[3]}
"""What a subscription gives, in one event."""

CONSUMER = f"{ARN}/consumer/c:1"


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content

    def close(self) -> None:
        """Nothing."""


class Service:
    """What replies in place of the service.

    Attributes:
        others: replies, by operation, in place of the good ones.
        date: the Date header.
        status: the HTTP status.
        events: what a subscription gives, encoded.
    """

    def __init__(self) -> None:
        self.others: dict[str, Any] = {}
        self.date: str | None = "Sat, 21 Nov 2026 10:00:00 GMT"
        self.status, self._calls, self.events = 200, 0, b""
        session = boto3.Session("id", "key")
        self.kinesis = Kinesis("s", "eu-west-1", None, session).within(Budget(0.02))
        self.kinesis._client.meta.events.register("before-send.kinesis", self._send)

    def reply(self, operation: str, reply: Any) -> None:
        """From now on this operation, and no other, replies otherwise."""
        self.others, self._calls = {operation: reply}, 0

    def _send(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        self._calls += 1
        if self._calls > MOST_CALLS:
            pytest.fail(f"no end of calls: {self.others}")
        operation = request.headers["X-Amz-Target"].decode().rpartition(".")[2]
        headers = HTTPHeaders()
        if self.date is not None:
            headers["Date"] = self.date
        if operation == "SubscribeToShard":
            headers["Content-Type"] = "application/vnd.amazon.eventstream"
            return AWSResponse(request.url, 200, headers, _Body(event("initial-response", {}) + self.events))
        told = self.others.get(operation, GOOD[operation])
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        return AWSResponse(request.url, self.status, headers, _Body(content))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr("shardlake.kinesis.client.random.uniform", lambda *_: 0.004)
    monkeypatch.setattr("shardlake.kinesis.pages.EMPTY_PAGE_WAIT_S", 0.004)
    monkeypatch.setattr("shardlake.kinesis.reader.EMPTY_PAGE_WAIT_S", 0.004)
    monkeypatch.setattr("shardlake.kinesis.fan_out.BETWEEN_S", 0)
    monkeypatch.setattr("shardlake.kinesis.http2.send", lambda **_: None)
    return Service()


def plan(service: Service, folder: Path) -> BatchPlan:
    """A first plan in memory, which has to be one that its text tells."""
    place = {"stream": "s", "region": "eu-west-1", "dataset": str(folder / "lake"), "ledger": "sqlite:///unused.db"}
    pipeline = Pipeline(name="p", **place)  # type: ignore[arg-type]
    planner = Planner(pipeline, MemoryLedger(), service.kinesis, LocalHome(str(folder / "lake")))
    draft, ranges = planner.propose(planner.draft(Run("d", "r")))
    made = draft.with_ranges(ranges, 1)
    assert BatchPlan.from_text(made.to_text()) == made
    return made


def read(service: Service, folder: Path, consumer_arn: str | None = None) -> list[tuple[str, bytes]]:
    """The rows that become of the range."""
    pages = read_range(service.kinesis, RANGE, 86_400_000, None, 0.02, consumer_arn)
    write_range(folder / "data", folder / "aside", PLAN, RANGE, pages)
    rows = pq.read_table(folder / "data", columns=["sequence_number", "data"], partitioning=None)
    return list(zip(rows["sequence_number"].to_pylist(), rows["data"].to_pylist(), strict=True))


def test_what_is_documented_is_read(service: Service, tmp_path: Path) -> None:
    (range_,) = plan(service, tmp_path).ranges
    assert (range_.shard_id, range_.through) == (SHARD, SequenceNumber(NUMBERS[3]))
    assert read(service, tmp_path) == [(NUMBERS[n], b"record %d" % n) for n in (1, 2, 3)]


RESHARDED = {
    "ListShards": {
        "Shards": [
            {
                **GOOD["ListShards"]["Shards"][0],
                "SequenceNumberRange": {"StartingSequenceNumber": NUMBERS[0], "EndingSequenceNumber": NUMBERS[4]},
            },
            {
                **GOOD["ListShards"]["Shards"][0],
                "ShardId": "shardId-000000000001",
                "ParentShardId": SHARD,
                "AdjacentParentShardId": "shardId-000000000009",
            },
        ]
    },
    "GetRecords": {
        "Records": [record(1), record(2), record(3)],
        "MillisBehindLatest": 0,
        "ChildShards": [{"ShardId": "shardId-000000000001", "ParentShards": [SHARD], "HashKeyRange": {}}],
    },
}
"""Replies of a stream that was resharded."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "good"),
    [*GOOD.items(), *RESHARDED.items()],
    ids=[*GOOD, *(f"{each}-resharded" for each in RESHARDED)],
)
def test_a_reply_with_a_changed_value_is_right_or_refused(
    service: Service, tmp_path: Path, operation: str, good: dict[str, Any]
) -> None:
    """Only what a reply can be missing without anybody knowing, a record between two, may be missing."""

    @fuzzed
    @given(mutated(good))
    def check(reply: Any) -> None:
        service.reply(operation, reply)
        with contextlib.suppress(ShardlakeError):
            plan(service, tmp_path)
        try:
            rows = read(service, tmp_path)
        except ShardlakeError:
            return
        numbers = [number for number, _ in rows]
        assert numbers == sorted(set(numbers), key=int)
        assert (numbers[0], numbers[-1]) == (NUMBERS[1], NUMBERS[3])

    check()


@pytest.mark.slow
def test_an_event_with_a_changed_value_is_right_polled_or_refused(service: Service, tmp_path: Path) -> None:
    """Kills: an event believed as it comes."""

    @fuzzed
    @given(mutated(EVENT))
    def check(changed: Any) -> None:
        service.reply("none", None)
        service.events = event("SubscribeToShardEvent", changed)
        try:
            rows = read(service, tmp_path, CONSUMER)
        except IngestError:
            return
        numbers = [number for number, _ in rows]
        assert numbers == sorted(set(numbers), key=int)
        assert (numbers[0], numbers[-1]) == (NUMBERS[1], NUMBERS[3])

    check()


def test_an_event_is_read(service: Service, tmp_path: Path) -> None:
    service.reply("GetRecords", b"")
    service.events = event("SubscribeToShardEvent", EVENT)
    assert [number for number, _ in read(service, tmp_path, CONSUMER)] == NUMBERS[1:4]


@pytest.mark.parametrize(
    "records",
    [
        [record(1), record(1), record(3)],
        [record(1), record(3), record(2)],
        [{**record(1), "SequenceNumber": "9" * 57}],
        [{**record(1), "SequenceNumber": "9" * 200}],
        [{**record(1), "SequenceNumber": f"-{NUMBERS[1]}"}],
        [{**record(1), "SequenceNumber": "0"}],
        [{**record(1), "SequenceNumber": "0" * 56}],
        [{**record(1), "SequenceNumber": "٣" * 56}],
        [record(1), {**record(2), "SequenceNumber": ""}, record(3)],
        [record(1), {**record(2), "SequenceNumber": "2\0"}, record(3)],
        [record(1), {**record(2), "ApproximateArrivalTimestamp": 1e308}, record(3)],
        [record(1), {**record(2), "ApproximateArrivalTimestamp": -1}, record(3)],
        [record(1), {**record(2), "ApproximateArrivalTimestamp": float("nan")}, record(3)],
        [record(1), None, record(3)],
    ],
    ids=lambda records: "",
)
def test_records_that_cannot_be_are_refused(service: Service, tmp_path: Path, records: list[Any]) -> None:
    service.reply("GetRecords", {**GOOD["GetRecords"], "Records": records})
    with pytest.raises(IngestError, match="otherwise than documented|out of order|breaks off"):
        read(service, tmp_path)


@pytest.mark.parametrize("zero", ["0", "0" * 56])
def test_numbers_that_make_no_range_are_refused_when_planning(service: Service, tmp_path: Path, zero: str) -> None:
    """No exclusive start comes before zero, no range ends before it begins. Kills: a traceback instead of an error."""
    service.reply("GetRecords", {**GOOD["GetRecords"], "Records": [{**record(1), "SequenceNumber": zero}, record(2)]})
    with pytest.raises(IngestError, match="GetRecords replied otherwise than documented"):
        plan(service, tmp_path)
    service.reply("GetRecords", {**GOOD["GetRecords"], "Records": [record(1), {**record(2), "SequenceNumber": "5"}]})
    with pytest.raises(IngestError, match="GetRecords replied otherwise than documented"):
        plan(service, tmp_path)
    shard = {**GOOD["ListShards"]["Shards"][0], "SequenceNumberRange": {"StartingSequenceNumber": zero}}
    service.reply("ListShards", {"Shards": [shard]})
    with pytest.raises(IngestError, match="ListShards replied otherwise than documented"):
        plan(service, tmp_path)


def test_records_of_another_shard_are_not_taken_for_those_of_the_range(service: Service, tmp_path: Path) -> None:
    strangers = [{**record(n), "SequenceNumber": f"4{NUMBERS[n]}"[:56]} for n in (1, 2, 3)]
    service.reply("GetRecords", {**GOOD["GetRecords"], "Records": strangers})
    with pytest.raises(ShardlakeError, match="are no longer retained"):
        read(service, tmp_path)


@pytest.mark.parametrize("shard_id", ["../../etc", "a/b", "", "é", "shardId-0\n", "s" * 129])
def test_a_shard_whose_id_could_leave_the_dataset_is_refused(service: Service, tmp_path: Path, shard_id: str) -> None:
    shard = {**GOOD["ListShards"]["Shards"][0], "ShardId": shard_id}
    service.reply("ListShards", {"Shards": [shard]})
    with pytest.raises(IngestError, match="ListShards replied otherwise than documented"):
        plan(service, tmp_path)


@pytest.mark.parametrize("date", [None, "", "today", "Sat, 99 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 99999 10:00:00 GMT"])
def test_a_reply_without_its_time_is_refused(service: Service, tmp_path: Path, date: str | None) -> None:
    service.date = date
    with pytest.raises(IngestError, match=r"does not say its time: expected a Date header, found '"):
        plan(service, tmp_path)


@pytest.mark.parametrize("status", [400, 503])
@pytest.mark.parametrize(
    "body", [b"null", b"[]", b"7", b"{}", b"", b"<html>", b'{"__type": 7}', b'{"__type": "x", "message": []}']
)
def test_an_error_that_says_nothing_is_an_error(service: Service, tmp_path: Path, status: int, body: bytes) -> None:
    service.status, service.others = status, dict.fromkeys(GOOD, body)
    with pytest.raises(ShardlakeError):
        plan(service, tmp_path)
