"""What the service and the way to it answer, as errors that tell whether trying again can help."""

from __future__ import annotations

import botocore.exceptions
import botocore.parsers
import pytest

from shardlake.errors import ConfigError, DataLossError, IngestError, ShardlakeError, UnavailableError
from shardlake.kinesis.failures import (
    InvalidPositionError,
    IteratorExpiredError,
    ListingExpiredError,
    ShardGoneError,
    translated,
)


def translation(exc: Exception) -> ShardlakeError:
    with pytest.raises(ShardlakeError) as caught, translated("clicks", "https://kinesis.eu-west-1.amazonaws.com"):
        raise exc
    assert caught.value.__cause__ is exc
    return caught.value


def reply(code: str, message: str = "said so", status: int = 400) -> botocore.exceptions.ClientError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore.exceptions.ClientError(response, "GetRecords")


@pytest.mark.parametrize(
    ("exc", "error"),
    [
        (reply("ProvisionedThroughputExceededException"), UnavailableError),
        (reply("LimitExceededException"), UnavailableError),
        (reply("KMSThrottlingException"), UnavailableError),
        (reply("InternalFailure", status=500), UnavailableError),
        (reply("SomethingNew", status=503), UnavailableError),
        (reply("ExpiredTokenException"), IngestError),
        (reply("SomethingNew"), IngestError),
        (reply("KMSDisabledException"), IngestError),
        (reply("ExpiredIteratorException"), IteratorExpiredError),
        (reply("ExpiredNextTokenException"), ListingExpiredError),
        (reply("InvalidArgumentException"), InvalidPositionError),
        (reply("AccessDeniedException"), ConfigError),
        (reply("KMSAccessDeniedException"), ConfigError),
        (reply("UnrecognizedClientException"), ConfigError),
        (reply("ResourceNotFoundException", "Stream clicks under account 1 not found."), ConfigError),
        (reply("ResourceNotFoundException", "Stream shardId-1 under account 1 not found."), ConfigError),
        (
            reply("ResourceNotFoundException", "Shard shardId-000000000007 in stream clicks does not exist"),
            ShardGoneError,
        ),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="http://x"), UnavailableError),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="http://x"), UnavailableError),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="http://x"), UnavailableError),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="http://x"), UnavailableError),
        (botocore.exceptions.ResponseStreamingError(error="reset"), UnavailableError),
        (botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), UnavailableError),
        (botocore.parsers.ResponseParserError("not JSON"), UnavailableError),
        (botocore.exceptions.NoCredentialsError(), ConfigError),
        (botocore.exceptions.PartialCredentialsError(provider="env", cred_var="x"), ConfigError),
        (botocore.exceptions.CredentialRetrievalError(provider="sso", error_msg="expired"), ConfigError),
        (botocore.exceptions.ProfileNotFound(profile="x"), ConfigError),
        (ValueError("Invalid endpoint: x"), ConfigError),
    ],
    ids=lambda value: str(value)[:70] if isinstance(value, Exception) else value.__name__,
)
def test_each_failure_has_its_error(exc: Exception, error: type[ShardlakeError]) -> None:
    assert type(translation(exc)) is error


def test_errors_that_pass_are_told_from_those_that_do_not() -> None:
    passing = (UnavailableError, IngestError, IteratorExpiredError, ListingExpiredError)
    assert [error.terminal for error in passing] == [False] * 4
    assert [error.terminal for error in (ConfigError, InvalidPositionError, ShardGoneError)] == [True] * 3
    assert issubclass(ShardGoneError, DataLossError)


def test_a_missing_stream_is_told_with_where_it_was_looked_for() -> None:
    error = translation(reply("ResourceNotFoundException", "Stream clicks under account 1 not found."))
    assert str(error) == (
        "stream clicks is not there, at https://kinesis.eu-west-1.amazonaws.com:"
        " found Stream clicks under account 1 not found. Check stream, region and account"
    )


def test_a_refused_call_is_told_with_the_rights_that_are_needed() -> None:
    error = translation(reply("AccessDeniedException", "User: x is not authorized"))
    assert str(error) == (
        "no access: GetRecords on stream clicks: AccessDeniedException: User: x is not authorized."
        " Grant kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords on the stream"
    )


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), translated("clicks", "x"):
        raise ZeroDivisionError
