"""What the service and the way to it answer instead of a reply, as errors of ours."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import botocore.eventstream
import botocore.exceptions
import botocore.parsers

from shardlake.errors import ConfigError, DataLossError, IngestError, ShardlakeError, UnavailableError

_REFUSED = (
    "AccessDenied",
    "AccessDeniedException",
    "IncompleteSignature",
    "InvalidSignatureException",
    "KMSAccessDeniedException",
    "MissingAuthenticationTokenException",
    "OptInRequired",
    "UnrecognizedClientException",
)
_PASSING = (
    "InternalFailure",
    "InternalFailureException",
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestTimeout",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
)
_NO_SUCH_SHARD = re.compile(r"\bshard shardId-\d", re.IGNORECASE)
"""ResourceNotFoundException is said of streams and shards alike; only its message tells which is meant."""

_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
)
_NO_REPLY = (
    botocore.exceptions.ConnectionError,
    botocore.exceptions.HTTPClientError,
    botocore.exceptions.IncompleteReadError,
    botocore.eventstream.ParserError,
    botocore.parsers.ResponseParserError,
)


class IteratorExpiredError(IngestError):
    """A shard iterator is older than five minutes: get another one behind the last record."""


class InUseError(IngestError):
    """What was asked for is another's, is there already, or is not ready yet."""


class ListingExpiredError(IngestError):
    """A ListShards token is older than five minutes: begin the listing again."""


class InvalidPositionError(ConfigError):
    """The service refuses a position: a number that is not of the shard, or a time in its future."""


class ShardGoneError(DataLossError):
    """The shard has left the stream: all of its records have expired."""


@contextlib.contextmanager
def translated(stream: str, where: str) -> Iterator[None]:
    """Raise the botocore errors of calls for `stream`, a stream's name, as errors of ours.

    Args:
        where: what the endpoint is called in messages.

    Raises:
        ConfigError: no such stream, no access, no credentials, or a client that cannot be made.
        UnavailableError: no reply, a broken one, or one that says to try again.
        IteratorExpiredError, ListingExpiredError, InvalidPositionError, ShardGoneError: as their names say.
    """
    try:
        yield
    except botocore.exceptions.ClientError as exc:
        raise _of_reply(exc, stream, where) from exc
    except _NO_CREDENTIALS as exc:
        raise ConfigError(
            f"no AWS credentials for stream {stream} ({exc})",
            todo="Set them for the default chain (environment, profile, role), or name aws_conn_id",
        ) from exc
    except _NO_REPLY as exc:
        raise UnavailableError(
            f"the Kinesis endpoint {where} does not answer as it should ({type(exc).__name__}: {str(exc)[:300]})",
            todo="Check region, endpoint_url and the network",
        ) from exc
    except (botocore.exceptions.BotoCoreError, ValueError) as exc:
        raise ConfigError(f"the Kinesis client for {where} cannot be used: {exc}") from exc


def _of_reply(exc: botocore.exceptions.ClientError, stream: str, where: str) -> ShardlakeError:
    code, message = exc.response["Error"]["Code"], exc.response["Error"].get("Message", "")
    said = f"{exc.operation_name} on stream {stream}: {code}: {message}"
    status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    match code:
        case "ExpiredIteratorException":
            return IteratorExpiredError(said)
        case "ExpiredNextTokenException":
            return ListingExpiredError(said)
        case "InvalidArgumentException":
            return InvalidPositionError(said)
        case "ResourceInUseException":
            return InUseError(said)
        case "ResourceNotFoundException" if exc.operation_name == "SubscribeToShard" or _NO_SUCH_SHARD.search(message):
            return ShardGoneError(said)
        case "ResourceNotFoundException":
            todo = "Check stream, region and account"
            return ConfigError(f"stream {stream} is not there, at {where}", found=message, todo=todo)
        case "ExpiredTokenException":  # a step run again gets itself new ones, the same call would not
            return IngestError(said, todo="The AWS credentials have expired: run the step again with new ones")
    if code in _REFUSED:
        return ConfigError(
            f"no access: {said}",
            todo="Grant kinesis:DescribeStreamSummary, ListShards, GetShardIterator and GetRecords on the stream",
        )
    if code in _PASSING or status >= 500:
        return UnavailableError(said, todo="Run the step again; where it is throttled, see read_fraction, retry_budget")
    return IngestError(said)
