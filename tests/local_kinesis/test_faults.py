"""Plans of faults: which calls a rule befalls, what is reported of it, and what is no plan."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

from local_kinesis.fault_plan import parsed_rules
from local_kinesis.faults import Call, Faults
from local_kinesis.process import LocalKinesis, LocalKinesisError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.local_kinesis.conftest import StreamUnderTest

OPERATIONS = frozenset({"GetRecords", "GetShardIterator", "ListShards", "PutRecords"})
SHARD_2 = "shardId-000000000002"
READ = Call("GetRecords", "s", "shardId-000000000000")


@pytest.mark.parametrize(
    ("selection", "befallen"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ({"count": 2}, [1, 2]),
        ({"nth": 3}, [3]),
        ({"nth": [1, 4]}, [1, 4]),
        ({"every": 5}, [5, 10]),
        ({"every": 3, "count": 2}, [3, 6]),
        ({"probability": 1}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ({"probability": 0.3, "seed": 7}, [2, 4, 7, 9, 11, 12]),
        ({"probability": 0.3, "seed": 7, "count": 1}, [2]),
    ],
)
def test_a_rule_befalls_the_calls_it_says_and_the_same_ones_again(
    selection: dict[str, Any], befallen: list[int]
) -> None:
    for _ in range(2):
        faults = _faults({"kind": "reset"} | selection)
        assert [i for i in range(1, 13) if faults.next(READ)] == befallen


def test_without_a_seed_a_plan_is_repeatable_too() -> None:
    first, second = _faults({"kind": "reset", "probability": 0.5}), _faults({"kind": "reset", "probability": 0.5})
    assert [bool(first.next(READ)) for _ in range(50)] == [bool(second.next(READ)) for _ in range(50)]


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, [True, True, True, True]),
        ({"operation": "GetRecords"}, [True, True, True, False]),
        ({"stream": "s"}, [True, True, False, True]),
        ({"shard": "shardId-000000000001"}, [False, True, False, False]),
        ({"operation": "GetRecords", "stream": "t", "shard": "shardId-000000000000"}, [False, False, True, False]),
    ],
)
def test_a_rule_counts_the_calls_of_its_operation_stream_and_shard(rule: dict[str, Any], matches: list[bool]) -> None:
    faults = _faults({"kind": "reset"} | rule)
    calls = [
        READ,
        Call("GetRecords", "s", "shardId-000000000001"),
        Call("GetRecords", "t", "shardId-000000000000"),
        Call("PutRecords", "s", None),
    ]
    assert [faults.next(call) is not None for call in calls] == matches
    assert faults.snapshot()[0]["calls"] == sum(matches)


def test_a_call_is_befallen_by_the_first_rule_that_is_due_and_counted_by_all() -> None:
    faults = _faults({"kind": "reset", "nth": 2}, {"kind": "lost_reply", "nth": [2, 3]}, {"kind": "delay", "ms": 1})
    befallen = [type(faults.next(READ)).__name__ for _ in range(4)]
    assert befallen == ["Delay", "Reset", "LostReply", "Delay"]
    assert [(rule["calls"], rule["fired"]) for rule in faults.snapshot()] == [(4, 1), (4, 1), (4, 2)]


def test_the_stats_show_what_a_plan_has_done(stream: StreamUnderTest) -> None:
    rules = [
        {"kind": "throttle", "operation": "GetRecords", "stream": stream.name, "nth": 2},
        {"kind": "server_error", "shard": "shardId-000000000009"},
    ]
    stream.server.control({"faults": rules})
    iterator = stream.iterator()
    stream.page(iterator)
    with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException, match="Rate exceeded"):
        stream.page(iterator)
    stream.page(iterator)
    shown = [{"rule": rules[0], "calls": 3, "fired": 1}, {"rule": rules[1], "calls": 0, "fired": 0}]
    assert stream.server.stats()["faults"] == shown
    stream.server.control({"reset_stats": True})
    assert stream.server.stats()["faults"] == shown
    stream.server.control({"faults": []})
    assert stream.server.stats()["faults"] == []


def test_a_new_plan_counts_from_one_and_no_plan_lets_all_through(stream: StreamUnderTest) -> None:
    order = {"faults": [{"kind": "throttle", "operation": "ListShards", "nth": 1}]}
    for _ in range(2):
        stream.server.control(order)
        with pytest.raises(stream.client.exceptions.ProvisionedThroughputExceededException, match="Rate exceeded"):
            stream.ids()
        assert stream.ids() == [0]
    stream.server.control(order)
    stream.server.control({"faults": []})
    assert stream.ids() == [0]


def test_rules_find_the_stream_however_the_call_names_it(make_stream: Callable[..., StreamUnderTest]) -> None:
    stream, other = make_stream(3), make_stream(3)
    client, by_arn = stream.client, {"StreamARN": f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream.name}"}
    token = client.list_shards(StreamName=stream.name, MaxResults=1)["NextToken"]
    other_token = client.list_shards(StreamName=other.name, MaxResults=1)["NextToken"]
    stream.server.control(
        {"faults": [{"kind": "delay", "ms": 1, "stream": stream.name}, {"kind": "delay", "ms": 1, "shard": SHARD_2}]}
    )
    client.describe_stream_summary(StreamName=stream.name)
    client.describe_stream_summary(**by_arn)
    client.list_shards(NextToken=token)
    iterators = [stream.iterator(shard=2), stream.iterator(shard=1)]
    for iterator in iterators:
        stream.page(iterator)
    client.list_shards(NextToken=other_token)
    other.page(other.iterator(shard=2))
    client.list_streams()
    assert [rule["calls"] for rule in stream.server.stats()["faults"]] == [7, 4]


def test_a_call_that_makes_no_sense_is_refused_as_without_a_plan(stream: StreamUnderTest) -> None:
    stream.server.control({"faults": [{"kind": "delay", "ms": 1, "shard": SHARD_2}]})
    with pytest.raises(stream.client.exceptions.InvalidArgumentException, match="Invalid ShardIterator"):
        stream.page("nonsense")
    with pytest.raises(stream.client.exceptions.ResourceNotFoundException, match="not found"):
        stream.client.get_shard_iterator(StreamName="absent", ShardId=SHARD_2, ShardIteratorType="LATEST")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "kind must be one of throttle, server_error, .*, clock_jump, not None"),
        ({"kind": "explode"}, "kind must be one of .*, not 'explode'"),
        ({"kind": ["reset"]}, r"kind must be one of .*, not \['reset'\]"),
        ({"kind": "reset", "operation": "Dance"}, "operation must be an operation of this server, not 'Dance'"),
        ({"kind": "reset", "operation": ["GetRecords"]}, "operation must be an operation of this server"),
        ({"kind": "reset", "stream": "a b"}, "stream must be the name of a stream, not 'a b'"),
        ({"kind": "reset", "shard": 0}, "shard must be the id of a shard, not 0"),
        ({"kind": "reset", "shard": "0"}, "shard must be the id of a shard, not '0'"),
        (
            {"kind": "reset", "operation": "PutRecords", "shard": "shardId-000000000000"},
            "a shard is known of GetRecords and GetShardIterator, not of PutRecords",
        ),
        ({"kind": "reset", "nth": 0}, "nth must be a whole number above 0, or a list of them, not 0"),
        ({"kind": "reset", "nth": []}, "nth must be"),
        ({"kind": "reset", "nth": [1, True]}, "nth must be"),
        ({"kind": "reset", "every": 0}, "every must be a whole number above 0, not 0"),
        ({"kind": "reset", "every": 1.5}, "every must be a whole number above 0, not 1.5"),
        ({"kind": "reset", "count": True}, "count must be a whole number above 0, not True"),
        ({"kind": "reset", "probability": 0}, "probability must be above 0 and not above 1, not 0"),
        ({"kind": "reset", "probability": 1.01}, "probability must be above 0 and not above 1"),
        ({"kind": "reset", "probability": "1"}, "probability must be above 0 and not above 1"),
        ({"kind": "reset", "probability": 0.5, "seed": "x"}, "seed must be a whole number, not 'x'"),
        ({"kind": "reset", "seed": 1}, "a seed goes with a probability"),
        ({"kind": "reset", "nth": 1, "every": 2}, "a rule takes one of nth, every and probability"),
        ({"kind": "reset", "at": "end"}, "at must be before or middle, not 'end'"),
        ({"kind": "lost_reply", "ms": 1}, "lost_reply takes no parameters, not ms"),
        ({"kind": "throttle", "error": "AccessDeniedException"}, "error must be one of Provisioned.*, not 'AccessD"),
        ({"kind": "throttle", "error": ["x"]}, "error must be one of"),
        ({"kind": "server_error", "status": 502}, "status must be 500 or 503, not 502"),
        ({"kind": "delay"}, "delay needs ms"),
        ({"kind": "delay", "ms": 0}, "ms must be a whole number above 0, not 0"),
        ({"kind": "delay", "ms": 1, "s": 1}, "delay takes ms, not s"),
        ({"kind": "slow", "piece_bytes": 1}, "slow needs pause_ms"),
        ({"kind": "slow", "piece_bytes": 1, "pause_ms": True}, "pause_ms must be a whole number"),
        ({"kind": "truncated_body", "keep": 1}, "keep must be a share from 0 to below 1, not 1"),
        ({"kind": "cut_json", "keep": -0.1}, "keep must be a share from 0 to below 1, not -0.1"),
        ({"kind": "empty_page", "behind_ms": 0}, "behind_ms must be a whole number above 0, not 0"),
        ({"kind": "empty_page", "operation": "PutRecords"}, "empty_page is for GetRecords, not PutRecords"),
        ({"kind": "expired_iterator", "operation": "ListShards"}, "expired_iterator is for GetRecords"),
        ({"kind": "clock_jump"}, "clock_jump needs seconds"),
        ({"kind": "clock_jump", "seconds": 1e9}, "seconds must be a number between"),
        ({"kind": "clock_jump", "seconds": float("nan")}, "seconds must be a number between"),
    ],
)
def test_a_plan_of_another_form_is_refused_whole_and_says_where(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=f"faults 1: {message}"):
        parsed_rules([{"kind": "reset"}, rule], OPERATIONS)


@pytest.mark.parametrize(
    ("plan", "message"), [({}, "faults must be a list of rules"), (["x"], "faults 0: a rule must")]
)
def test_a_refused_plan_leaves_the_one_in_force(server: LocalKinesis, plan: Any, message: str) -> None:
    server.control({"faults": [{"kind": "delay", "ms": 1}]})
    with pytest.raises(LocalKinesisError, match=message):
        server.control({"faults": plan})
    assert server.stats()["faults"] == [{"rule": {"kind": "delay", "ms": 1}, "calls": 0, "fired": 0}]


def test_a_plan_or_limits_beside_a_bad_order_are_not_carried_out(stream: StreamUnderTest) -> None:
    plan, limits = [{"kind": "throttle"}], [{"iterator_calls_per_s": 1}]
    with pytest.raises(LocalKinesisError, match="no such order"):
        stream.server.control({"faults": plan, "limits": limits, "page_limit": 0})
    assert stream.server.stats()["faults"] == []
    for _ in range(3):
        stream.iterator()


def test_a_refused_plan_is_a_400(server: LocalKinesis) -> None:
    connection = http.client.HTTPConnection(server.endpoint_url.removeprefix("http://"), timeout=5)
    connection.request("POST", "/_local/control", json.dumps({"faults": [{"kind": "throttle", "error": "x"}]}))
    reply = connection.getresponse()
    kind = json.loads(reply.read())["__type"]
    connection.close()
    assert (reply.status, kind) == (400, "InvalidArgumentException")


def _faults(*rules: dict[str, Any]) -> Faults:
    faults = Faults()
    faults.rules = parsed_rules(list(rules), OPERATIONS)
    return faults
