"""The model of `pipelines.yaml`: a `defaults:` block and one entry a pipeline.

    defaults: {region: eu-west-1, ledger: "${SHARDLAKE_LEDGER}"}
    pipelines:
      clicks: {stream: clicks, schedule: "@hourly", dataset: /lake/clicks}

`${NAME}` is expanded from the environment. A password never stands in the file itself, and never in an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, SecretStr, ValidationError

from shardlake.errors import ConfigError
from shardlake.redact import has_password, redact

DEFAULT_FILE = Path(__file__).parents[1] / "pipelines.yaml"

PIPELINE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)

_DURATION = re.compile(r"(\d+)\s*(s|m|h|d)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_Amount = TypeVar("_Amount", timedelta, ByteSize)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _duration(value: object) -> object:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not match:
        raise ValueError("allowed: a number with a unit s, m, h or d, like 90s or 6h")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _schedule(value: object) -> object:
    return _duration(value) if isinstance(value, str) and _DURATION.fullmatch(value) else value


def _cron(value: timedelta | str) -> timedelta | str:
    if isinstance(value, str) and not value.startswith("@") and len(value.split()) not in (5, 6):
        raise ValueError('allowed: a cron expression, a preset like @hourly, a duration like "15m", or null')
    return value


def _positive(value: _Amount) -> _Amount:
    if not value:
        raise ValueError("allowed: more than zero")
    return value


def _ledger(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("sqlite:///", "postgresql+psycopg://", "airflow://")):
        raise ValueError("allowed: sqlite:///<file>, postgresql+psycopg://<user>@<host>/<database>, airflow://<conn id>")
    return value


def _endpoint(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/@?#]+/?", value):
        raise ValueError("allowed: http(s)://<host>[:<port>], without a user or a path")
    return value


def _dataset(value: str) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value) or not Path(value).is_absolute() or ".." in Path(value).parts:
        raise ValueError("allowed: an absolute path of a folder")
    return str(Path(value))


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class AtTimestamp(_Model):
    """A start by arrival time; the time needs an offset or Z."""

    at_timestamp: Annotated[datetime, Field(strict=False)]

    @property
    def at_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(self.at_timestamp.timestamp() * 1000)


def _aware(value: AtTimestamp | str) -> AtTimestamp | str:
    if isinstance(value, AtTimestamp) and value.at_timestamp.tzinfo is None:
        raise ValueError("allowed: a time with an offset, like 2026-01-31T00:00:00Z")
    return value


class SparkEngine(_Model):
    """Where Spark runs: `spark-submit --master`, with these `--conf` entries."""

    kind: Literal["spark"] = "spark"
    master: str = Field("local[2]", pattern=r"^(local(\[[0-9*]+(,\s*[0-9]+)?\])?|spark://[^\s/]+|yarn|k8s://\S+)$")
    conf: dict[str, str] = {}


class Pipeline(_Model):
    """One stream read into one dataset: the unit of configuration, of isolation and of one DAG."""

    name: str
    stream: str = Field(
        pattern=r"^(arn:aws[a-z-]*:kinesis:[a-z0-9-]+:\d{12}:stream/)?[a-zA-Z0-9_.-]{1,128}$",
        description="a stream's name or ARN",
    )
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")
    endpoint_url: Annotated[str, AfterValidator(_endpoint)] | None = None
    start: Annotated[Literal["trim_horizon", "latest"] | AtTimestamp, AfterValidator(_aware)] = "trim_horizon"
    schedule: Annotated[timedelta | str | None, BeforeValidator(_schedule), AfterValidator(_cron)] = None
    dataset: Annotated[str, AfterValidator(_dataset)]
    ledger: Annotated[SecretStr, AfterValidator(_ledger)]
    aws_conn_id: str | None = None
    max_window: Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_positive)] = timedelta(hours=1)
    max_range_bytes: Annotated[ByteSize, AfterValidator(_positive)] = ByteSize(2**30)
    max_group_ranges: int = Field(256, ge=1, le=10_000)
    on_data_loss: Literal["fail", "skip"] = "fail"
    engine: SparkEngine = SparkEngine()

    @property
    def ledger_url(self) -> str:
        """The ledger's URL with its password: for the ledger alone, never to be printed."""
        return self.ledger.get_secret_value()

    @property
    def dag_id(self) -> str:
        """The id of this pipeline's DAG."""
        return f"kinesis_ingest__{self.name}"


def config_file(named: str | Path | None = None) -> Path:
    """The configuration file: the one named, else `SHARDLAKE_CONFIG`, else `include/pipelines.yaml`."""
    return Path(named or os.environ.get("SHARDLAKE_CONFIG") or DEFAULT_FILE)


def load_pipelines(file: Path, environment: Mapping[str, str] = os.environ) -> dict[str, Pipeline]:
    """All pipelines of a configuration file, by name, in the file's order.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; the message names file, pipeline, key, what was
            found and what is allowed.
    """
    try:
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except OSError as exc:
        raise ConfigError(
            f"{file}: cannot be read ({exc.strerror})", todo="Name a file with --config or SHARDLAKE_CONFIG"
        ) from exc
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as exc:
        raise ConfigError(f"{file}: not valid YAML: {exc}") from exc
    if not isinstance(document, dict) or not set(document) <= {"defaults", "pipelines"} or "pipelines" not in document:
        found = sorted(map(str, document)) if isinstance(document, dict) else type(document).__name__
        raise ConfigError(f"{file}: the top level", expected="the keys defaults (may be left out), pipelines", found=found)
    defaults, entries = document.get("defaults") or {}, document["pipelines"] or {}
    for key, value in (("defaults", defaults), ("pipelines", entries)):
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {key}", expected="a mapping", found=type(value).__name__)
    return {str(name): _pipeline(file, str(name), entry, defaults, environment) for name, entry in entries.items()}


def load_pipeline(file: Path, name: str) -> Pipeline:
    """One pipeline by its name.

    Raises:
        ConfigError: as `load_pipelines`, or there is no such pipeline.
    """
    pipelines = load_pipelines(file)
    if name not in pipelines:
        raise ConfigError(f"{file}: pipeline {name[:80]!r} is not there", found=", ".join(pipelines) or "no pipeline")
    return pipelines[name]


def _pipeline(
    file: Path, name: str, entry: object, defaults: dict[str, Any], environment: Mapping[str, str]
) -> Pipeline:
    where = f"{file}: pipeline {name[:80]!r}"
    if not PIPELINE_NAME.fullmatch(name):
        raise ConfigError(f"{where}: its name", expected="up to 64 letters, digits, - and _, first a letter or digit")
    if not isinstance(entry, dict):
        raise ConfigError(where, expected="a mapping of keys", found=type(entry).__name__)
    if "name" in entry or "name" in defaults:
        raise ConfigError(f"{where}, key name: is not a key; the entry's own key is the name")
    raw = {**defaults, **entry}
    ledger = raw.get("ledger")
    if isinstance(ledger, str) and has_password(_VARIABLE.sub("", ledger)):
        raise ConfigError(
            f"{where}, key ledger: a password stands in the file",
            found=redact(ledger),
            todo="Put it in the environment: ledger: ${SHARDLAKE_LEDGER}",
        )
    values = {key: _expand(value, environment, f"{where}, key {key}") for key, value in raw.items()}
    try:
        return Pipeline(name=name, **values)
    except (ValidationError, TypeError) as exc:
        raise ConfigError(_explain(where, exc, values)) from None


def _expand(value: object, environment: Mapping[str, str], where: str) -> Any:
    if isinstance(value, dict):
        return {key: _expand(item, environment, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, environment, where) for item in value]
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise ConfigError(f"{where}: the environment variable {match[1]} is not set")
        return environment[match[1]]

    return _VARIABLE.sub(variable, value)


def _explain(where: str, exc: ValidationError | TypeError, values: dict[str, Any]) -> str:
    if isinstance(exc, TypeError):
        return f"{where}: its keys have to be plain words"
    lines = []
    for error in exc.errors(include_url=False):
        path = [str(part) for part in error["loc"]]
        key = str(path[0]) if path else ""
        if error["type"] == "extra_forbidden":
            model = SparkEngine if key == "engine" else AtTimestamp if key == "start" else Pipeline
            allowed = ", ".join(sorted(model.model_fields.keys() - {"name"}))
            lines.append(f"{where}, key {'.'.join(path)}: unknown; allowed: {allowed}")
        elif error["type"] == "missing":
            lines.append(f"{where}, key {'.'.join(path)}: missing, and it has no default")
        else:
            found = redact(str(values.get(key)))[:200]
            message = error["msg"].removeprefix("Value error, ")
            lines.append(f"{where}, key {key}: found {found!r}; {message}")
    return "\n".join(dict.fromkeys(lines))


class _Loader(yaml.SafeLoader):
    """A safe loader that also refuses aliases (a small file can unfold without end) and doubled keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("anchors and aliases are not allowed; use defaults:")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        doubled = sorted({str(key) for key in keys if keys.count(key) > 1})
        if doubled:
            raise yaml.YAMLError(f"key {doubled[0]!r} stands twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)
