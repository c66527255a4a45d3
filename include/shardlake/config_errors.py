"""What is wrong with a pipeline's entry, said to the one who wrote it: key, what was found, what is allowed.

Values of `ledger` and `engine.conf` are not quoted: they may hold a secret that does not look like one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from shardlake.redact import redact


def explain(exc: ValidationError, where: str, raw: Mapping[str, Any], model: type[BaseModel]) -> str:
    """One line for each key that is wrong.

    Args:
        where: file and pipeline, which begin each line.
        raw: the entry as the file says it, before the environment was filled in.
        model: what the entry should be.
    """
    lines = (_line(error, where, raw, model) for error in exc.errors(include_url=False, include_context=False))
    return "\n".join(dict.fromkeys(lines))


def _line(error: Any, where: str, raw: Mapping[str, Any], model: type[BaseModel]) -> str:
    location = [str(part) for part in error["loc"]]
    if not location:
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    path, inner = location[:1], _inner(model, location[0])
    if inner and len(location) > 1:
        path, model = location[:2], inner
    key = ".".join(path)
    if path[-1] not in model.model_fields:
        return f"{where}, key {key}: unknown; allowed: {', '.join(n for n in model.model_fields if n != 'name')}"
    allowed = model.model_fields[path[-1]].description
    if error["type"] == "missing" and location == path:
        return f"{where}, key {key}: missing; allowed: {allowed}"
    return f"{where}, key {key}: {_found(location, path, raw)}; allowed: {allowed}"


def _inner(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The model of a key's value, where it is a mapping of keys itself."""
    annotation = model.model_fields[key].annotation if key in model.model_fields else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _found(location: list[str], path: list[str], raw: Mapping[str, Any]) -> str:
    value: Any = raw
    for key in path:
        value = value[key]
    if path[-1] == "conf":
        return f"setting {location[2]} is none" if len(location) > 2 else "found no mapping"
    if path[-1] == "shard_starts" and len(location) > 1:
        value = f"{location[1]}: {({str(key): start for key, start in value.items()})[location[1]]}"
    if path[-1] == "ledger":
        scheme, separator, _ = str(value).partition("://")
        return f"found {scheme[:40]}://…" if separator else "found no URL"
    return f"found {redact(str(value))[:200]!r}"
