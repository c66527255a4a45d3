"""The fast decoder of GetRecords gives what botocore's own parser gives, and never makes a reply of half of one."""

from __future__ import annotations

import base64
import json
from typing import Any

import boto3
import pytest
from botocore.parsers import create_parser
from hypothesis import given
from hypothesis import strategies as st

from shardlake.errors import IngestError, UnavailableError
from shardlake.kinesis.replies import decode_records

CLIENT = boto3.Session("id", "key", region_name="eu-west-1").client("kinesis")
decode_records(CLIENT)
RECORD = {
    "SequenceNumber": "49590338271490256608559692538361571095921575989136588898",
    "PartitionKey": "clé",
    "ApproximateArrivalTimestamp": 1.79e9,
    "Data": base64.b64encode(b"data").decode(),
    "EncryptionType": "KMS",
}


def decoded(body: bytes, status: int = 200) -> tuple[dict[str, Any], bytes]:
    """What the decoder makes of a body, and what it leaves of it to botocore."""
    response: dict[str, Any] = {"status_code": status, "body": body, "headers": {}}
    custom: dict[str, Any] = {}
    CLIENT.meta.events.emit(
        "before-parse.kinesis.GetRecords",
        operation_model=None,
        response_dict=response,
        customized_response_dict=custom,
    )
    return custom, response["body"]


texts = st.text(st.characters(exclude_categories=["Cs"]))
records = st.lists(
    st.tuples(st.integers(1, 10**56 - 1).map(str), texts, st.integers(0, 4 * 10**12), st.binary(max_size=64)),
    max_size=5,
).map(lambda some: sorted(some, key=lambda record: int(record[0])))


@given(records, st.none() | texts, st.integers(0, 2**40))
def test_a_reply_is_what_botocores_parser_makes_of_it(
    records: list[tuple[str, str, int, bytes]], iterator: str | None, behind_ms: int
) -> None:
    body = {
        "Records": [
            {
                "SequenceNumber": number,
                "PartitionKey": key,
                "ApproximateArrivalTimestamp": arrival_ms / 1000,
                "Data": base64.b64encode(data).decode(),
            }
            for number, key, arrival_ms, data in records
        ],
        "MillisBehindLatest": behind_ms,
        **({"NextShardIterator": iterator} if iterator is not None else {}),
    }
    text = json.dumps(body).encode()
    ours, left = decoded(text)
    shape = CLIENT.meta.service_model.operation_model("GetRecords").output_shape
    theirs = create_parser("json").parse({"status_code": 200, "body": text, "headers": {}}, shape)

    assert [(each.sequence_number, each.partition_key, each.data) for each in ours["Records"]] == [
        (each["SequenceNumber"], each["PartitionKey"], each["Data"]) for each in theirs["Records"]
    ]
    assert [round(each.approximate_arrival_timestamp * 1000) for each in ours["Records"]] == [
        round(each["ApproximateArrivalTimestamp"].timestamp() * 1000) for each in theirs["Records"]
    ]
    assert ours["NextShardIterator"] == theirs.get("NextShardIterator") == iterator
    assert ours["MillisBehindLatest"] == theirs["MillisBehindLatest"] == behind_ms
    assert left == b"{}"


def test_a_reply_cut_anywhere_is_one_without_members() -> None:
    body = json.dumps({"NextShardIterator": "next", "MillisBehindLatest": 0, "Records": [RECORD, RECORD]}).encode()
    for length in range(len(body)):
        assert decoded(body[:length]) == ({}, b"{}")


@pytest.mark.parametrize("body", [b"{}", b'{"Records": null}', b'{"MillisBehindLatest": 0}'])
def test_a_reply_without_records_has_none(body: bytes) -> None:
    assert decoded(body) == ({}, body)


def test_an_errors_reply_is_left_to_botocore() -> None:
    body = b'{"__type": "ExpiredIteratorException"}'
    assert decoded(body, status=400) == ({}, body)


@pytest.mark.parametrize("body", [b'"Service Unavailable"', b"null", b'{"message": {"code": 503}}'])
@pytest.mark.parametrize(("status", "kind"), [(503, UnavailableError), (400, IngestError)])
def test_words_of_a_gateway_are_told_by_their_status(body: bytes, status: int, kind: type[IngestError]) -> None:
    """Kills: an error of the server that is not tried again, because its JSON is not the service's."""
    with pytest.raises(IngestError, match="GetRecords replied otherwise than documented") as caught:
        decoded(body, status)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "changed",
    [{"Data": "not base64!"}, {"SequenceNumber": 7}, {"ApproximateArrivalTimestamp": "today"}, {"PartitionKey": None}],
)
def test_a_reply_that_is_not_as_documented_is_told(changed: dict[str, Any]) -> None:
    body = json.dumps({"Records": [RECORD | changed], "NextShardIterator": "next", "MillisBehindLatest": 0}).encode()
    with pytest.raises(IngestError, match=f"otherwise than documented: .*{next(iter(changed))}|base64"):
        decoded(body)
