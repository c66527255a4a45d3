"""Registered consumers: made, listed with their state, told by their tags, removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from tests.local_kinesis.conftest import StreamUnderTest


def arn_of(stream: StreamUnderTest) -> str:
    return f"arn:aws:kinesis:us-east-1:000000000000:stream/{stream.name}"


def test_a_consumer_is_registered_listed_and_deregistered(stream: StreamUnderTest) -> None:
    arn, client = arn_of(stream), stream.client
    assert client.list_stream_consumers(StreamARN=arn)["Consumers"] == []
    made = client.register_stream_consumer(StreamARN=arn, ConsumerName="a", Tags={"b": "c"})["Consumer"]
    assert made["ConsumerARN"].startswith(f"{arn}/consumer/a:")
    assert (made["ConsumerName"], made["ConsumerStatus"]) == ("a", "ACTIVE")
    assert client.list_stream_consumers(StreamARN=arn)["Consumers"] == [made]
    assert client.list_tags_for_resource(ResourceARN=made["ConsumerARN"])["Tags"] == [{"Key": "b", "Value": "c"}]
    client.deregister_stream_consumer(ConsumerARN=made["ConsumerARN"])
    assert client.list_stream_consumers(StreamARN=arn)["Consumers"] == []
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client.deregister_stream_consumer(ConsumerARN=made["ConsumerARN"])


def test_a_name_is_taken_once_and_twenty_are_as_many_as_there_may_be(stream: StreamUnderTest) -> None:
    for n in range(20):
        stream.client.register_stream_consumer(StreamARN=arn_of(stream), ConsumerName=f"c{n}")
    with pytest.raises(ClientError, match="ResourceInUseException.*c7 under stream .* already exists"):
        stream.client.register_stream_consumer(StreamARN=arn_of(stream), ConsumerName="c7")
    with pytest.raises(ClientError, match="LimitExceededException"):
        stream.client.register_stream_consumer(StreamARN=arn_of(stream), ConsumerName="c20")


def test_a_stream_that_is_not_there_has_none(stream: StreamUnderTest) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        stream.client.list_stream_consumers(StreamARN=arn_of(stream) + "-not")
