"""What S3 and the way to it answer instead of a reply, as errors of ours. Nothing of a request is quoted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import botocore.exceptions
import botocore.parsers
from botocore.exceptions import ClientError

from shardlake.errors import ConfigError, ShardlakeError, UnavailableError

_REFUSED = (
    "403",  # HEAD has no body that would say more
    "AccessDenied",
    "AllAccessDisabled",
    "AuthorizationHeaderMalformed",  # another region
    "Forbidden",
    "IllegalLocationConstraintException",
    "InvalidAccessKeyId",
    "InvalidBucketName",
    "InvalidClientTokenId",
    "InvalidToken",
    "MethodNotAllowed",
    "NotImplemented",  # a store without conditional writes
    "PermanentRedirect",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")

_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
)
NO_REPLY = (
    botocore.exceptions.ConnectionError,
    botocore.exceptions.FlexibleChecksumError,  # a reply that was damaged on its way
    botocore.exceptions.HTTPClientError,
    botocore.exceptions.IncompleteReadError,
    botocore.parsers.ResponseParserError,
)

_GRANT = (
    "Grant s3:ListBucket and s3:ListBucketMultipartUploads on the bucket; s3:GetObject, PutObject, DeleteObject and"
    " AbortMultipartUpload on the prefix; kms:GenerateDataKey and kms:Decrypt on the key, if there is one"
)


def code_of(exc: ClientError) -> str:
    """The service's name for an error."""
    return str(exc.response.get("Error", {}).get("Code", "Unknown"))


@contextlib.contextmanager
def translated(dataset: str) -> Iterator[None]:
    """Raise what botocore raises for calls for a dataset as errors of ours.

    Raises:
        ConfigError: no such bucket, no access, no credentials, or a request that cannot be made.
        UnavailableError: no reply, a broken one, or one that says to try again.
    """
    try:
        yield
    except ClientError as exc:
        raise _of_reply(exc, dataset) from exc
    except _NO_CREDENTIALS as exc:
        raise ConfigError(
            f"no AWS credentials for dataset {dataset} ({exc})",
            todo="Set them for the default chain (environment, profile, role), or name aws_conn_id",
        ) from exc
    except NO_REPLY as exc:
        raise UnavailableError(
            f"dataset {dataset}: S3 does not answer as it should ({type(exc).__name__}: {str(exc)[:300]})",
            todo="Check storage.region, storage.endpoint_url and the network",
        ) from exc
    except botocore.exceptions.BotoCoreError as exc:
        raise ConfigError(f"dataset {dataset}: S3 cannot be asked: {exc}") from exc


def _of_reply(exc: ClientError, dataset: str) -> ShardlakeError:
    code, message = code_of(exc), exc.response.get("Error", {}).get("Message", "")
    said = f"dataset {dataset}: {exc.operation_name}: {code}: {message}"
    if code in _EXPIRED:  # a step run again gets itself new ones
        return UnavailableError(said, todo="The AWS credentials have expired: run the step again with new ones")
    if code == "NoSuchBucket":
        return ConfigError(said, todo="Make the bucket, or check dataset, storage.region and storage.endpoint_url")
    if code.startswith("KMS.") and "Throttling" not in code:
        return ConfigError(f"no access: {said}", todo="Check storage.kms_key_id and the key's policy")
    if _is_refused(exc):
        return ConfigError(f"no access: {said}", todo=_GRANT)
    return UnavailableError(said, todo="Run the step again")


def _is_refused(exc: ClientError) -> bool:
    return code_of(exc) in _REFUSED or exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 403
