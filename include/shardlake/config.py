"""The model of `pipelines.yaml`: a `defaults:` block and one entry a pipeline.

    defaults: {region: eu-west-1, ledger: "${SHARDLAKE_LEDGER}"}
    pipelines:
      clicks: {stream: clicks, schedule: "@hourly", dataset: /lake/clicks}

`${NAME}` is expanded from the environment. A secret never stands in the file itself, and never in an error: errors
quote what the file says, not what the environment holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shardlake.config_errors import explain
from shardlake.errors import ConfigError
from shardlake.pipeline import PIPELINE_NAME, Pipeline, SparkEngine
from shardlake.redact import has_password, redact
from shardlake.start_keys import AtTimestamp
from shardlake.yaml_text import parse_yaml

__all__ = ["AtTimestamp", "Pipeline", "SparkEngine", "config_file", "load_pipeline", "load_pipelines"]

DEFAULT_FILE = Path(__file__).parents[1] / "pipelines.yaml"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def config_file(named: str | Path | None = None) -> Path:
    """The configuration file: the one named, else `SHARDLAKE_CONFIG`, else `include/pipelines.yaml`."""
    return Path(named or os.environ.get("SHARDLAKE_CONFIG") or DEFAULT_FILE)


def load_pipelines(file: Path, environment: Mapping[str, str] = os.environ) -> dict[str, Pipeline]:
    """All pipelines of a configuration file, by name, in the file's order.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; the message names file, pipeline, key, what was
            found and what is allowed.
    """
    document = _read(file)
    keys = set(document) if isinstance(document, dict) else set()
    if not isinstance(document, dict) or not {"pipelines"} <= keys <= {"defaults", "pipelines"}:
        found = ", ".join(map(str, document)) if isinstance(document, dict) else _kind(document)
        expected = "the keys pipelines and, optionally, defaults"
        raise ConfigError(f"{file}: the top level", expected=expected, found=found)
    blocks = {key: {} if value is None else value for key, value in {"defaults": None, **document}.items()}
    for key, value in blocks.items():
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {key}", expected="a mapping", found=_kind(value))
    pipelines = {
        str(name): _pipeline(file, name, entry, blocks["defaults"], environment)
        for name, entry in blocks["pipelines"].items()
    }
    _refuse_shared_datasets(file, pipelines)
    return pipelines


def load_pipeline(file: Path, name: str) -> Pipeline:
    """One pipeline by its name.

    Raises:
        ConfigError: as `load_pipelines`, or there is no such pipeline.
    """
    pipelines = load_pipelines(file)
    if name not in pipelines:
        raise ConfigError(
            f"{file}: there is no pipeline {name[:80]!r}",
            found=", ".join(pipelines) or "no pipeline at all",
            todo="Name one of these, or add an entry under pipelines:",
        )
    return pipelines[name]


def _read(file: Path) -> object:
    try:
        return parse_yaml(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(
            f"{file}: cannot be read ({exc.strerror})", todo="Name a file with --config or SHARDLAKE_CONFIG"
        ) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{file}: not UTF-8, at byte {exc.start}") from exc
    except ValueError as exc:
        raise ConfigError(f"{file}: not valid YAML, {exc}") from exc


def _pipeline(
    file: Path, name: object, entry: object, defaults: dict[str, Any], environment: Mapping[str, str]
) -> Pipeline:
    where = f"{file}: pipeline {str(name)[:80]!r}"
    if not isinstance(name, str) or not re.fullmatch(PIPELINE_NAME[1:-1], name, re.ASCII):
        expected = "up to 64 letters, digits, - and _, first a letter or digit"
        raise ConfigError(f"{where}: its name", expected=expected, found=_kind(name) if name != str(name) else None)
    if not isinstance(entry, dict):
        raise ConfigError(where, expected="a mapping of keys", found=_kind(entry))
    raw = {**defaults, **entry}
    for key in raw:
        if not isinstance(key, str):
            raise ConfigError(f"{where}: a key", expected="a word", found=f"{key!r}, {_kind(key)}")
    if "name" in raw:
        raise ConfigError(f"{where}, key name: not a key of its own; the entry's key is the name")
    ledger = raw.get("ledger")
    if isinstance(ledger, str) and has_password(_VARIABLE.sub("", ledger)):
        raise ConfigError(
            f"{where}, key ledger: a password stands in the file",
            found=redact(ledger),
            todo="Put the URL in the environment and write ledger: ${SHARDLAKE_LEDGER}",
        )
    values = {key: _expand(value, environment, f"{where}, key {key}") for key, value in raw.items()}
    try:
        return Pipeline(name=name, **values)
    except ValidationError as exc:
        raise ConfigError(explain(exc, where, raw, Pipeline)) from None


def _expand(value: object, environment: Mapping[str, str], where: str) -> Any:
    if isinstance(value, dict):
        return {key: _expand(item, environment, where) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, environment, where) for item in value]
    if not isinstance(value, str):
        return value
    if "${" in _VARIABLE.sub("", value):
        raise ConfigError(f"{where}: ${{ without the name of an environment variable and }}", found=redact(value[:200]))

    def variable(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise ConfigError(
                f"{where}: the environment variable {match[1]} is not set", todo=f"Set it: export {match[1]}=…"
            )
        return environment[match[1]]

    return _VARIABLE.sub(variable, value)


def _refuse_shared_datasets(file: Path, pipelines: Mapping[str, Pipeline]) -> None:
    """Two pipelines never share state, so neither do their datasets, nor does one lie in the other."""
    owners = {pipeline.dataset: name for name, pipeline in pipelines.items()}
    for name, pipeline in pipelines.items():
        parts = pipeline.dataset.split("/")
        for folder in ("/".join(parts[:count]) for count in range(len(parts), 0, -1)):
            if owners.get(folder, name) != name:
                raise ConfigError(
                    f"{file}: pipelines {name!r} and {owners[folder]!r} share a dataset, key dataset",
                    expected="a folder of its own for each pipeline, neither in the other",
                    found=f"{pipeline.dataset} and {folder}",
                )


def _kind(value: object) -> str:
    """What a value is, in a user's words."""
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a date")
