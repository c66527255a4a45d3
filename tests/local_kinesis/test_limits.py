"""The service's limits: the bucket itself, and what a shard's producers and consumers get to see of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_kinesis.limits import Bucket, Rates
from local_kinesis.process import LocalKinesis, LocalKinesisError, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest

S = 1_000_000_000
MIB = 2**20
ZERO = "shardId-000000000000"
# A clock's nanoseconds are large, and a bucket's first question may come at any of them.
STARTS = st.integers(0, 10**18)


@given(
    rate=st.integers(1, 50),
    start_ns=STARTS,
    asked=st.lists(st.tuples(st.integers(0, 2 * S), st.integers(1, 120)), max_size=40),
)
def test_a_bucket_never_gives_more_than_its_limit_over_any_window(
    rate: int, start_ns: int, asked: list[tuple[int, int]]
) -> None:
    bucket, now_ns, given_out = Bucket(rate), start_ns, []
    for pause_ns, amount in asked:
        now_ns += pause_ns
        if bucket.has(amount, now_ns):
            bucket.take(amount)
            given_out.append((now_ns, amount))
    for i, (since_ns, _) in enumerate(given_out):
        for j, (until_ns, _) in enumerate(given_out[i:], i):
            window = [amount for _, amount in given_out[i : j + 1]]
            # One second's worth at once, then the rate; an amount larger than the bucket is lent, once.
            lent = max(0, max(window) - rate)
            assert (sum(window) - lent) * S <= rate * (S + until_ns - since_ns)


@given(
    rate=st.integers(1, 50),
    start_ns=STARTS,
    asked=st.lists(st.tuples(st.integers(0, S), st.integers(1, 120)), min_size=1, max_size=40),
)
def test_what_a_bucket_refuses_it_gives_as_soon_as_the_rate_has_made_it(
    rate: int, start_ns: int, asked: list[tuple[int, int]]
) -> None:
    bucket, now_ns, owed = Bucket(rate), start_ns, 0
    for pause_ns, amount in asked:
        now_ns += pause_ns
        owed = max(0, owed - pause_ns * rate)
        if not bucket.has(amount, now_ns):
            # In full: that is when any amount must be given.
            now_ns += -(-owed // rate)
            owed = 0
            assert bucket.has(amount, now_ns)
        bucket.take(amount)
        owed += amount * S


@pytest.mark.parametrize("rate", [1, 3, 5, 7])
def test_a_reader_that_asks_all_the_time_gets_the_limit_to_the_last_call(rate: int) -> None:
    bucket, calls = Bucket(rate), []
    for now_ns in range(0, 10 * S + 1, S // 1000):
        if bucket.has(1, now_ns):
            bucket.take(1)
            calls.append(now_ns)
    assert len(calls) == rate + 10 * rate
    assert calls[:rate] == [i * S // 1000 for i in range(rate)]


def test_ten_mebibytes_are_paid_back_for_five_seconds() -> None:
    bucket = Bucket(2 * MIB)
    assert bucket.has(1, 7 * S)
    bucket.take(10 * MIB)
    assert not bucket.has(1, 12 * S - 1)
    assert bucket.has(1, 12 * S)


def test_replies_within_the_limit_are_not_paid_back_in_full() -> None:
    bucket = Bucket(2 * MIB)
    assert bucket.has(1, 0)
    bucket.take(2 * MIB)
    assert not bucket.has(1, 0)
    assert bucket.has(1, S // 100)


def test_a_bucket_without_a_rate_never_refuses() -> None:
    bucket = Bucket(None)
    bucket.take(10**12)
    assert bucket.has(10**12, 0)


def test_the_limits_are_the_service_s() -> None:
    assert Rates() == Rates(
        write_bytes_per_s=1_048_576,
        write_records_per_s=1_000,
        read_bytes_per_s=2_097_152,
        read_calls_per_s=5,
        iterator_calls_per_s=5,
    )


def test_a_shard_s_readers_share_its_calls(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    first, second, other = stream.iterator(), stream.iterator(), stream.iterator(shard=1)
    _limit(stream.server, {"read_calls_per_s": 1})
    stream.page(first)
    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException) as raised:
        stream.page(second)
    stream.page(other)
    assert raised.value.response["Error"] == {
        "Code": "ProvisionedThroughputExceededException",
        "Message": f"Rate exceeded for shard {ZERO} in stream {stream.name} under account 000000000000.",
    }
    counts = stream.server.stats()["shards"][stream.name]
    assert counts[ZERO] == {"GetShardIterator": 2, "GetRecords": 2, "GetRecordsThrottled": 1, "records": 0, "bytes": 0}
    time.sleep(1)
    stream.page(second)


def test_a_large_reply_is_whole_and_paid_back_before_the_next(stream: StreamUnderTest) -> None:
    stream.put(*[bytes(999)] * 2)
    iterator = stream.iterator()
    _limit(stream.server, {"read_bytes_per_s": 1000, "read_calls_per_s": None})
    assert len(stream.page(iterator)["Records"]) == 2
    started = time.monotonic()
    while _throttled(stream, lambda: stream.page(iterator)):
        time.sleep(0.02)
    assert 1.9 < time.monotonic() - started < 8


def test_empty_replies_cost_calls_only(stream: StreamUnderTest) -> None:
    iterator = stream.iterator("LATEST")
    _limit(stream.server, {"read_bytes_per_s": 1, "read_calls_per_s": 20})
    for _ in range(20):
        stream.page(iterator)


def test_iterators_have_calls_of_their_own(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    _limit(stream.server, {"iterator_calls_per_s": 1, "read_calls_per_s": 1})
    iterator = stream.iterator()
    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException, match=f"for shard {ZERO} in"):
        stream.iterator()
    stream.iterator(shard=1)
    stream.page(iterator)
    assert stream.server.stats()["shards"][stream.name][ZERO]["GetShardIteratorThrottled"] == 1


def test_records_over_the_limit_are_refused_one_by_one(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream = make_stream(2)
    _limit(stream.server, {"write_records_per_s": 3})
    records = [{"PartitionKey": "k", "ExplicitHashKey": "0", "Data": str(i).encode()} for i in range(5)]
    records.append({"PartitionKey": "k", "ExplicitHashKey": str(2**127), "Data": b"elsewhere"})
    reply = stream.client.put_records(StreamName=stream.name, Records=records)
    refused = {
        "ErrorCode": "ProvisionedThroughputExceededException",
        "ErrorMessage": f"Rate exceeded for shard {ZERO} in stream {stream.name} under account 000000000000.",
    }
    assert reply["FailedRecordCount"] == 2
    assert reply["Records"][3:5] == [refused, refused]
    assert (stream.read(), stream.read(shard=1)) == ([b"0", b"1", b"2"], [b"elsewhere"])
    assert stream.server.stats()["shards"][stream.name][ZERO]["PutRecordsThrottled"] == 2


def test_bytes_over_the_limit_are_refused_and_cost_no_record(stream: StreamUnderTest) -> None:
    _limit(stream.server, {"write_bytes_per_s": 100_000, "write_records_per_s": 3})
    # Keys count: the fourth record fills the second to the byte, as the third was refused and took no record's place.
    results = stream.put(bytes(49_999), bytes(49_000), bytes(50_000), bytes(998), bytes(50_000))
    assert [result.get("ErrorCode") is None for result in results] == [True, True, False, True, False]


def test_a_record_larger_than_the_limit_is_taken_by_a_shard_at_rest(stream: StreamUnderTest) -> None:
    _limit(stream.server, {"write_bytes_per_s": 100})
    results = stream.put(bytes(300), b"")
    assert [result.get("ErrorCode") is None for result in results] == [True, False]


def test_put_record_is_refused_as_a_call(stream: StreamUnderTest) -> None:
    _limit(stream.server, {"write_records_per_s": 1})
    stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=b"0")
    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException, match=f"for shard {ZERO} in"):
        stream.client.put_record(StreamName=stream.name, PartitionKey="k", Data=b"1")
    assert stream.read() == [b"0"]
    assert stream.server.stats()["shards"][stream.name][ZERO]["PutRecordThrottled"] == 1


def test_a_stream_s_own_limits_count_before_those_of_all(make_stream: Callable[..., StreamUnderTest]) -> None:
    own, other = make_stream(), make_stream()
    _limit(own.server, {"stream": own.name, "write_records_per_s": 1}, {"write_records_per_s": 2})
    kept = [sum("ErrorCode" not in result for result in stream.put(*[b"x"] * 4)) for stream in (own, other)]
    assert kept == [1, 2]
    _limit(own.server, {"stream": own.name, "write_records_per_s": 1})
    kept = [sum("ErrorCode" not in result for result in stream.put(*[b"x"] * 4)) for stream in (own, other)]
    assert kept == [1, 4]
    _limit(own.server)
    assert not any("ErrorCode" in result for result in own.put(*[b"x"] * 4))


@pytest.mark.parametrize("seconds", [60, -60])
def test_a_jump_of_the_service_s_clock_neither_fills_a_bucket_nor_stops_it(seconds: int) -> None:
    with running("--stream", "s:1", "--limits", '[{"iterator_calls_per_s": 1}]') as server:
        server.control({"faults": [{"kind": "clock_jump", "seconds": seconds, "nth": 1, "operation": "ListStreams"}]})
        client = server.client()
        ask = {"StreamName": "s", "ShardId": ZERO, "ShardIteratorType": "LATEST"}
        client.get_shard_iterator(**ask)
        client.list_streams()
        with pytest.raises(client.exceptions.ProvisionedThroughputExceededException, match="Rate exceeded"):
            client.get_shard_iterator(**ask)
        time.sleep(1)
        client.get_shard_iterator(**ask)


def test_the_command_line_switches_the_service_s_limits_on() -> None:
    with running("--limits", "--stream", "s:1") as server:
        client = server.client()
        records = [{"PartitionKey": "k", "Data": bytes(500_000)}] * 4
        reply = client.put_records(StreamName="s", Records=records)
    assert [("ErrorCode" in result) for result in reply["Records"]] == [False, False, True, True]


def test_bad_limits_on_the_command_line_are_one_clear_message() -> None:
    with pytest.raises(LocalKinesisError, match="did not start: local_kinesis: limits 0: no such limit: speed"):
        running("--limits", '[{"speed": 1}]').__enter__()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, r"must be a list of objects, \[\] to end them"),
        ([1], "must be a list of objects"),
        ([{"stream": "s"}, {"calls": 1}], "limits 1: no such limit: calls; there are .*'read_calls_per_s'"),
        ([{"read_calls_per_s": 0}], "limits 0: read_calls_per_s must be a whole number above 0, or null .* not 0"),
        ([{"read_calls_per_s": True}], "whole number above 0, or null for no limit, not True"),
        ([{"read_calls_per_s": 0.5}], "not 0.5"),
        ([{"stream": 1}], "limits 0: stream must be a stream's name, not 1"),
        ([{}, {}], "limits 1: there is an entry for all streams before"),
        ([{"stream": "s"}, {"stream": "s"}], "limits 1: there is an entry for s before"),
    ],
)
def test_limits_of_another_form_are_refused(server: LocalKinesis, limits: Any, message: str) -> None:
    with pytest.raises(LocalKinesisError, match=message):
        server.control({"limits": limits})


def _limit(server: LocalKinesis, *entries: dict[str, Any]) -> None:
    server.control({"limits": list(entries)})


def _throttled(stream: StreamUnderTest, call: Callable[[], object]) -> bool:
    try:
        call()
    except stream.client.exceptions.ProvisionedThroughputExceededException:
        return True
    return False
