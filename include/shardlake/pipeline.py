"""The model of one pipeline: what a key of its entry may say."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, SecretStr, model_validator

from shardlake.plan import RETRY_BUDGET_S, Aggregates, Role, Storage
from shardlake.role_keys import MAX_SESSION_NAME, StreamRoleKeys
from shardlake.schedule import parse_duration, parse_schedule
from shardlake.start_keys import SHARD_STARTS, STREAM_START, ShardStarts, StreamStart
from shardlake.storage import REGION, S3, StorageKeys, endpoint, s3_dataset

PIPELINE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"

_STREAM_ARN = re.compile(r"arn:aws[a-z-]*:kinesis:(?P<region>[a-z0-9-]+):[0-9]{12}:stream/.*")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_IN_URI = "".join(map(chr, range(0x21, 0x7F)))
_SECRET_SETTING = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
"""Spark's own `spark.redaction.regex`."""


def _size(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("not a size")
    return value


def _ledger(value: SecretStr) -> SecretStr:
    if not re.match(r"sqlite:///.|postgresql\+psycopg://.|airflow://[^/\s]", value.get_secret_value()):
        raise ValueError("not a ledger")
    return value


def _dataset(value: str) -> str:
    if value.startswith(S3):
        return s3_dataset(value)
    path = Path(value)
    if "://" in value or not path.is_absolute() or path == Path("/") or ".." in path.parts:
        raise ValueError("not a folder's absolute path")
    if _CONTROL_CHARACTER.search(value):
        raise ValueError("a control character")
    return str(path)


def _setting(value: object) -> object:
    """A Spark setting as Spark writes it: YAML's true is its `true`."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _not_secret(key: str) -> str:
    if _SECRET_SETTING.search(key) and not key.lower().endswith("file"):
        raise ValueError("a secret")
    return key


def _class_archive(value: str) -> str:
    if {".", ".."} & set(value.split("/")):
        raise ValueError("not a plain path")
    return value


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SparkEngine(_Model):
    """Where Spark runs: `spark-submit --master`, with these `--conf` entries; what its driver's JVM may start from."""

    kind: Literal["spark"] = Field("spark", description="spark")
    master: str = Field(
        "local[2]",
        pattern=r"^(local(\[([0-9]+|\*)(,\s*[0-9]+)?\])?|spark://[^\s/]+|yarn|k8s://\S+)$",
        description="local[<cores>], spark://<host>:<port>, yarn or k8s://<url>",
    )
    conf: dict[
        Annotated[str, Field(pattern=r"^spark\.[A-Za-z0-9_.-]+$"), AfterValidator(_not_secret)],
        Annotated[str, BeforeValidator(_setting), Field(pattern=r"^[^\x00\n]*$")],
    ] = Field(
        {},
        description="settings spark.<name>: <value>; secrets belong in the cluster's spark-defaults.conf",
    )
    class_archive: Annotated[str, AfterValidator(_class_archive)] | None = Field(
        None,
        pattern=r"^(/[A-Za-z0-9_.+@=-]+)+$",
        description="a file's absolute path of letters, digits and _.+@=-, or null",
    )


class ConsumerKeys(_Model):
    """How a stream is read, other than by polling."""

    enhanced_fan_out: str | None = Field(
        None,
        pattern=r"^[a-zA-Z0-9_.-]{1,128}$",
        description="a consumer's name, up to 128 letters, digits and _.-, or null",
    )


class Pipeline(_Model):
    """One stream read into one dataset: the unit of configuration, of isolation and of one DAG.

    A field's description says what is allowed; errors quote it.
    """

    name: str = Field(pattern=PIPELINE_NAME)
    stream: str = Field(
        pattern=r"^(arn:aws[a-z-]*:kinesis:[a-z0-9-]+:[0-9]{12}:stream/)?[a-zA-Z0-9_.-]{1,128}$",
        description="a stream's name or ARN",
    )
    region: str = Field(pattern=REGION, description="a region's code, like eu-west-1; the ARN's, if any")
    endpoint_url: Annotated[str, AfterValidator(endpoint)] | None = Field(
        None, description="http(s)://<host>[:<port>] without a user or a path, or null"
    )
    stream_role: StreamRoleKeys = Field(
        StreamRoleKeys(), description="{role_arn: …, external_id: …, session_name: …}, the first at least, or {}"
    )
    start: StreamStart = Field("trim_horizon", description=STREAM_START)
    shard_starts: ShardStarts = Field({}, description=SHARD_STARTS)
    schedule: Annotated[timedelta | str | None, BeforeValidator(parse_schedule)] = Field(
        None, description='a cron expression, a preset like "@hourly", a duration like 15m (s, m, h or d), or null'
    )
    dataset: Annotated[str, AfterValidator(_dataset)] = Field(
        description="an absolute path of a folder, or s3://<bucket>/<prefix>"
    )
    storage: StorageKeys = Field(
        StorageKeys(),
        description="for a dataset on S3: {region: …, endpoint_url: …, role_arn: …, external_id: …, kms_key_id: …}",
    )
    ledger: Annotated[SecretStr, AfterValidator(_ledger)] = Field(
        description="sqlite:///<file>, postgresql+psycopg://<user>@<host>/<database>, or airflow://<connection id>"
    )
    aws_conn_id: str | None = Field(None, min_length=1, max_length=250, description="an Airflow connection's id")
    max_window: Annotated[timedelta, BeforeValidator(parse_duration)] = Field(
        timedelta(hours=1), description="a duration like 90s or 6h (s, m, h or d), at most 365d"
    )
    max_range_bytes: Annotated[ByteSize, BeforeValidator(_size)] = Field(
        ByteSize(2**30), gt=0, le=2**40, description="a size like 512MiB, at most 1TiB"
    )
    max_group_ranges: int = Field(256, strict=True, ge=1, le=10_000, description="a number from 1 to 10000")
    read_fraction: float | None = Field(
        None, strict=True, gt=0, le=1, description="a number above 0 and up to 1, or null"
    )
    retry_budget: Annotated[timedelta, BeforeValidator(parse_duration)] = Field(
        timedelta(seconds=RETRY_BUDGET_S), description="a duration like 10m (s, m, h or d), at most 365d"
    )
    on_data_loss: Literal["fail", "skip"] = Field("fail", description="fail or skip")
    aggregates: Aggregates = Field("keep", description="keep, drop or quarantine")
    consumer: ConsumerKeys = Field(ConsumerKeys(), description="{enhanced_fan_out: <a consumer's name>}, or {}")
    engine: SparkEngine = Field(
        SparkEngine(), description="{kind: spark, master: <url>, conf: {…}, class_archive: <file>}"
    )

    @model_validator(mode="after")
    def _arn_in_region(self) -> Pipeline:
        arn = _STREAM_ARN.fullmatch(self.stream)
        if arn and arn["region"] != self.region:
            raise ValueError(f"key region is {self.region}, but the stream's ARN is in {arn['region']}")
        return self

    @model_validator(mode="after")
    def _fan_out_over_tls(self) -> Pipeline:
        if self.consumer.enhanced_fan_out and (self.endpoint_url or "").startswith("http:"):
            raise ValueError("key consumer asks for HTTP/2, which is spoken over TLS, but endpoint_url is http://…")
        return self

    @model_validator(mode="after")
    def _storage_of_s3(self) -> Pipeline:
        if self.storage != StorageKeys() and not self.dataset.startswith(S3):
            raise ValueError("key storage is set, but the dataset is a folder")
        return self

    @property
    def role(self) -> Role | None:
        """The role in which the stream is read, whose session is named after the pipeline unless it has a name."""
        keys = self.stream_role
        if not keys.role_arn:
            return None
        return Role(keys.role_arn, keys.external_id, keys.session_name or f"shardlake-{self.name}"[:MAX_SESSION_NAME])

    @property
    def place(self) -> Storage | None:
        """How the dataset is reached, where it is on S3; None for a folder."""
        if not self.dataset.startswith(S3):
            return None
        return Storage(**{**self.storage.model_dump(), "region": self.storage.region or self.region})

    @property
    def data_uri(self) -> str:
        """The URI of the published files, as Airflow's assets have it: ASCII alone."""
        return f"{quote(self.dataset, safe=_IN_URI)}/data" if self.place else f"file://{self.dataset}/data"

    @property
    def ledger_url(self) -> str:
        """The ledger's URL with its password: for the ledger alone, never to be printed."""
        return self.ledger.get_secret_value()

    @property
    def dag_id(self) -> str:
        """The id of this pipeline's DAG."""
        return f"kinesis_ingest__{self.name}"
