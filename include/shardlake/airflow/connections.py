"""What stands in Airflow's connections: the ledger's URL and AWS credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from shardlake.errors import ConfigError

if TYPE_CHECKING:
    import boto3

    from shardlake.config import Pipeline

_CONNECTION = "airflow://"


def ledger_url(pipeline: Pipeline) -> str:
    """The ledger's URL, with `airflow://<conn id>` looked up: a connection of type postgres, or one of type sqlite.

    Raises:
        ConfigError: there is no such connection, or it is of another type.
    """
    url = pipeline.ledger_url
    if not url.startswith(_CONNECTION):
        return url
    name = url.removeprefix(_CONNECTION)
    try:
        connection = BaseHook.get_connection(name)
    except AirflowNotFoundException as exc:
        raise ConfigError(
            f"pipeline {pipeline.name}, key ledger: Airflow has no connection {name}", todo="Add it, or name another"
        ) from exc
    if connection.conn_type == "sqlite":
        return f"sqlite:///{connection.host}"
    if connection.conn_type != "postgres":
        raise ConfigError(
            f"pipeline {pipeline.name}, key ledger: connection {name} cannot hold a ledger",
            expected="type postgres or sqlite",
            found=f"type {connection.conn_type}",
        )
    user, password = quote(connection.login or "", safe=""), quote(connection.password or "", safe="")
    port = f":{connection.port}" if connection.port else ""
    return f"postgresql+psycopg://{user}:{password}@{connection.host}{port}/{connection.schema or ''}"


def aws_session(pipeline: Pipeline) -> boto3.Session | None:
    """A session with the credentials of `aws_conn_id`; None, which means the default chain, where it is not set."""
    if pipeline.aws_conn_id is None:
        return None
    from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook

    hook: AwsGenericHook[Any] = AwsGenericHook(
        aws_conn_id=pipeline.aws_conn_id, region_name=pipeline.region, client_type="kinesis"
    )
    return hook.get_session(region_name=pipeline.region)
