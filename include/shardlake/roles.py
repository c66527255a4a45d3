"""A session in the role of an account, and what it means when STS does not give one."""

from __future__ import annotations

import functools

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, NoCredentialsError
from botocore.parsers import ResponseParserError

from shardlake.errors import ConfigError, IngestError, ShardlakeError, UnavailableError
from shardlake.plan import Role

_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 5}, connect_timeout=5, read_timeout=30)

_EXPIRED = ("ExpiredToken", "ExpiredTokenException")
_PASSING = ("RequestLimitExceeded", "Throttling", "ThrottlingException")
_NO_SUCH_CALLER = ("InvalidClientTokenId", "MissingAuthenticationToken", "SignatureDoesNotMatch")


@functools.lru_cache(maxsize=16)
def assumed(session: boto3.Session | None, role: Role, region: str) -> boto3.Session:
    """A session in a role, whose credentials are renewed before they expire: one for all clients of a process.

    The role is assumed at the first call that is signed, which raises ConfigError where STS refuses, IngestError where
    the credentials of whoever asks have expired, and UnavailableError where STS does not answer.

    Args:
        session: whoever assumes the role; None for the default chain.
        region: where STS is asked, unless `AWS_ENDPOINT_URL_STS` says otherwise; and the new session's region.

    Raises:
        NoCredentialsError: there is nobody to assume the role.
    """
    session = session or boto3.Session()
    source = session.get_credentials()
    if source is None:
        raise NoCredentialsError
    fetcher = AssumeRoleCredentialFetcher(
        client_creator=functools.partial(session.client, region_name=region, config=_CONFIG),
        source_credentials=source,
        role_arn=role.role_arn,
        extra_args={
            "RoleSessionName": role.session_name,
            **({"ExternalId": role.external_id} if role.external_id else {}),
        },
    )
    core = botocore.session.Session()
    # There is no public way to give a session credentials that renew themselves; Airflow's AWS hook does the same.
    core._credentials = DeferredRefreshableCredentials(
        refresh_using=functools.partial(_credentials, fetcher, role), method="sts-assume-role"
    )
    return boto3.Session(botocore_session=core, region_name=region)


def _credentials(fetcher: AssumeRoleCredentialFetcher, role: Role) -> dict[str, str]:
    """New credentials in a role.

    A reply that breaks off is a parser's error, which quotes it and with it a secret, or one without members.
    """
    try:
        credentials: dict[str, str] = fetcher.fetch_credentials()
    except ClientError as exc:
        raise _refusal(exc, role) from exc
    except (ConnectionError, HTTPClientError) as exc:
        raise _no_answer(role, str(exc)) from exc
    except (KeyError, ResponseParserError):
        raise _no_answer(role, "its reply breaks off") from None
    return credentials


def _no_answer(role: Role, why: str) -> UnavailableError:
    return UnavailableError(
        f"STS, asked for role {role.role_arn}, does not answer as it should: {why}",
        todo="Check the network, and AWS_ENDPOINT_URL_STS if it is set",
    )


def _refusal(exc: ClientError, role: Role) -> ShardlakeError:
    code, message = exc.response["Error"]["Code"], exc.response["Error"].get("Message", "")
    external_id = f"the external id {role.external_id}" if role.external_id else "no external id"
    said = f"role {role.role_arn} is not assumed, with {external_id}: {code}: {message}"
    if code in _EXPIRED:  # a step run again gets itself new ones, the same call would not
        return IngestError(said, todo="The AWS credentials have expired: run the step again with new ones")
    if code in _PASSING or exc.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
        return UnavailableError(said, todo="Run the step again")
    if code in _NO_SUCH_CALLER:
        todo = "Check the credentials that it is assumed with: the default chain's, or those of aws_conn_id"
        return ConfigError(f"no access: {said}", todo=todo)
    return ConfigError(
        f"no access: {said}",
        todo="Check role_arn and external_id, whom the role's trust policy names, and that the caller is granted"
        " sts:AssumeRole on it",
    )
