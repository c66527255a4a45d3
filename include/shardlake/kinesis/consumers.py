"""The registered consumer that enhanced fan-out reads by: made when it is missing, removed by hand only.

It costs money for as long as it is there, per shard and hour. Batches that read by it may be under way at any time, so
nothing removes it by itself; whoever does, sends them back to polling.
"""

from __future__ import annotations

import time

from shardlake.errors import ConfigError, ConflictError, UnavailableError
from shardlake.kinesis.client import Consumer, Kinesis
from shardlake.kinesis.failures import InUseError

TAG = "shardlake-pipeline"
"""The tag of consumers that were registered here; its value is the pipeline's name."""

READY_S = 120.0
POLL_S = 2.0
"""ListStreamConsumers takes five calls a second (API reference)."""


def active_consumer(kinesis: Kinesis, stream_arn: str, name: str, pipeline: str) -> str:
    """The ARN of a consumer that can be read by; it is registered if it is missing, whoever is quicker.

    Raises:
        UnavailableError: it is not there in time, or the stream has as many as it may have.
        ConfigError: no access.
    """
    until_s = time.monotonic() + READY_S
    while True:
        consumer = kinesis.consumers(stream_arn).get(name)
        if consumer and consumer.status == "ACTIVE":
            return consumer.arn
        if time.monotonic() > until_s:
            raise UnavailableError(
                f"consumer {name} of stream {kinesis.stream_name} is not ready after {READY_S:.0f} s",
                found=consumer.status if consumer else "none",
                todo="Run the step again",
            )
        if consumer is None:
            _register(kinesis, stream_arn, name, pipeline)
        time.sleep(POLL_S)


def _register(kinesis: Kinesis, stream_arn: str, name: str, pipeline: str) -> None:
    try:
        kinesis.register_consumer(stream_arn, name, {TAG: pipeline})
    except InUseError:
        return  # somebody else has, or an old one is not quite gone: the listing will tell
    except UnavailableError as exc:
        raise UnavailableError(
            f"consumer {name} of stream {kinesis.stream_name} cannot be registered: {exc.what}",
            todo="Check how many consumers the stream has, or remove consumer from the configuration",
        ) from exc


def own_consumer(kinesis: Kinesis, stream_arn: str, name: str, pipeline: str) -> Consumer:
    """The consumer of this name, if it was registered for this pipeline.

    Raises:
        ConfigError: there is none.
        ConflictError: it is somebody else's.
    """
    consumer = kinesis.consumers(stream_arn).get(name)
    if consumer is None:
        raise ConfigError(f"stream {kinesis.stream_name} has no consumer {name}")
    tags = kinesis.consumer_tags(consumer.arn)
    if tags.get(TAG) != pipeline:
        raise ConflictError(
            f"consumer {name} of stream {kinesis.stream_name} was not registered for pipeline {pipeline}",
            expected=f"its tag {TAG} to say {pipeline}",
            found=tags.get(TAG, "no such tag"),
            todo="If nobody reads by it any more, deregister it with AWS's own tools",
        )
    return consumer
