"""Tells each effect of a process before it takes place, and stops the process at the one that was ordered.

Python imports this by itself in every process whose PYTHONPATH names this folder; without `SHARDLAKE_TAP` it does
nothing. The product knows nothing of it: effects are heard through audit hooks, SQLAlchemy's events, and calls that
are wrapped where they are looked up.

`SHARDLAKE_TAP` names a folder, `SHARDLAKE_TAP_PLACE` the one that datasets lie in. `<scope>.log` gets a JSON line an
effect; `<scope>.order` says where to stop: the process that comes to that effect adds `"stopped": true` to its line and
sends itself SIGSTOP, once an order; when it goes on, it writes the line again. A scope is an Airflow DAG, or `all`.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any
from urllib.parse import unquote

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_STABLE = (
    (re.compile(r"(_shardlake/(?:batches|tmp)/)[^/]+"), r"\1*"),
    (re.compile(r"\.writing-\w+"), ".writing-*"),
    (re.compile(r"shard_id=[^/]+"), "shard_id=*"),
    (re.compile(r"[^/]+\.parquet$"), "*.parquet"),
    (re.compile(r"report-\d+"), "report-*"),
)
"""What differs from run to run, or from shard to shard, in the names of effects."""

_folder = ""
_place = ""
_role: str | None = None
_telling = threading.local()
_turn = threading.Lock()
"""One thread tells at a time: a process that is stopped while another of its threads has the log keeps all from it."""


def install(folder: str, place: str, role: str | None = None) -> None:
    """Tell effects from now on.

    Args:
        folder: where logs and orders are.
        place: effects on files are told below this folder's folders, the datasets, and named without it and them.
        role: what this process is; None: what its command line says.
    """
    global _folder, _place, _role
    _folder, _place, _role = folder, place, role
    sys.addaudithook(_heard)
    os.register_at_fork(before=_turn.acquire, after_in_parent=_turn.release, after_in_child=_turn.release)
    os.fsync = _told_before(os.fsync, lambda handle: ("sync", _opened_path(_number(handle))))
    for name, action in _ACTIONS.items():
        if name in sys.modules:
            action(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport())
    atexit.register(tell, "end")


def tell(effect: str, *paths: str) -> None:
    """Write an effect down, before it takes place; stop there if that is the order.

    Args:
        paths: the files and folders that it is on, the one that it makes or changes last: told only below our place.
    """
    if _is_telling() or (paths and not _is_ours(paths[-1])):
        return
    _telling.now = True
    try:
        role, scope = _role_and_scope()
        if role is None:
            return
        keys = [_key(path) for path in paths]
        with _turn:
            _tell(scope, " ".join((f"{role}:", effect, *map(_stable, keys[-1:]))), keys)
    finally:
        _telling.now = False


def _tell(scope: str, name: str, keys: list[str]) -> None:
    handle = os.open(f"{_folder}/{scope}.log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        earlier = [json.loads(line) for line in _contents(handle).splitlines()]
        count = 1 + sum(each["name"] == name for each in earlier)
        stops = _ordered(scope, name, count) and not any(each["stopped"] for each in earlier)
        line = {
            "name": name,
            "count": count,
            "keys": keys,
            "pid": os.getpid(),
            "thread": threading.get_native_id(),
            "stopped": stops,
        }
        _write(handle, line)
        if stops:
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # os.kill lets this thread go on for a moment
            _write(handle, line | {"stopped": False})
    finally:
        os.close(handle)


def _write(handle: int, line: dict[str, Any]) -> None:
    os.write(handle, json.dumps(line).encode() + b"\n")
    fcntl.flock(handle, fcntl.LOCK_UN)


def _is_telling() -> bool:
    return getattr(_telling, "now", False)


def _contents(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _ordered(scope: str, name: str, count: int) -> bool:
    try:
        handle = os.open(f"{_folder}/{scope}.order", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        order = json.loads(_contents(handle))
    finally:
        os.close(handle)
    return bool(order == [name, count])


def _role_and_scope() -> tuple[str | None, str]:
    """What this process is, None where nobody asked; and the DAG that it works for."""
    command = " ".join(sys.orig_argv)
    scope = os.environ.get("AIRFLOW_CTX_DAG_ID", "all")
    for part, role in _ROLES:
        if part in command:
            return role, scope
    if "AIRFLOW_CTX_TASK_ID" in os.environ and "-m airflow " in command:
        return os.environ["AIRFLOW_CTX_TASK_ID"], scope
    return _supervised or (_role, scope)


_ROLES = (("pyspark.daemon", "worker"), ("jobs/ingest.py", "driver"), ("-m shardlake ", "command"))

_supervised: tuple[str, str] | None = None
"""The role and scope of a process that supervises one of Airflow's tasks."""


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_telling() or event not in _EVENTS:
        return
    _telling.now = True
    try:
        effect = _EVENTS[event](arguments)
    finally:
        _telling.now = False
    if effect:
        tell(*effect)


def _is_ours(path: str) -> bool:
    return path.startswith(f"{_place}/")


def _key(path: str) -> str:
    return path[len(_place) + 1 :].partition("/")[2] or "."


def _stable(key: str) -> str:
    for pattern, stable in _STABLE:
        key = pattern.sub(stable, key)
    return key


def _number(handle: Any) -> int:
    return handle if isinstance(handle, int) else int(handle.fileno())


def _path(path: Any, folder: Any = -1) -> str:
    """An absolute path, where it is given relative to an open folder."""
    text = os.fsdecode(path)
    return text if text.startswith("/") or folder in (-1, None) else f"{_opened_path(folder)}/{text}"


def _opened_path(handle: int) -> str:
    return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 -- nothing but plain calls within an audit hook


def _opened(arguments: tuple[Any, ...]) -> tuple[str, ...] | None:
    path, _, flags = arguments
    writes = isinstance(path, str | bytes | os.PathLike) and (flags or 0) & _WRITES
    return ("open", _path(path)) if writes else None


def _sent(arguments: tuple[Any, ...]) -> tuple[str, ...] | None:
    """A request of botocore: of Kinesis by its operation, of S3 by its method, step of an upload in parts, and key."""
    data = arguments[1]
    head = bytes(data[:4096]).partition(b"\r\n\r\n")[0].decode("latin-1") if isinstance(data, bytes | bytearray) else ""
    if target := re.search(r"(?im)^x-amz-target: \w+\.(\w+)", head):
        return (f"ask {target[1]}",)
    if line := re.match(r"(PUT|POST|DELETE) (/[^ ?]*)(\?\w+)?", head):
        return (f"{line[1]}{line[3] or ''}", unquote(line[2]))
    return None


_EVENTS: dict[str, Callable[[tuple[Any, ...]], tuple[str, ...] | None]] = {
    "open": _opened,
    "os.link": lambda a: ("link", _path(a[0], a[2]), _path(a[1], a[3])),
    "os.rename": lambda a: ("rename", _path(a[0], a[2]), _path(a[1], a[3])),
    "os.remove": lambda a: ("remove", _path(a[0], a[1])),
    "os.mkdir": lambda a: ("mkdir", _path(a[0], a[2])),
    "os.rmdir": lambda a: ("rmdir", _path(a[0], a[1])),
    "http.client.send": _sent,
    "subprocess.Popen": lambda a: ("start Spark",) if "spark-submit" in str(a[0]) else None,
}


def _told_before(call: Callable[..., Any], effect: Callable[..., tuple[str, ...] | None]) -> Callable[..., Any]:
    def told(*arguments: Any, **named: Any) -> Any:
        if found := effect(*arguments, **named):
            tell(*found)
        return call(*arguments, **named)

    return told


def _of_sqlalchemy(module: ModuleType) -> None:
    """Transactions that write, named after the tables, before their COMMIT."""
    written = re.compile(
        r"\s*(?:INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE|ALTER TABLE)\s+\"?shardlake_(\w+)", re.IGNORECASE
    )

    def executed(connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if found := written.match(statement):
            connection.info.setdefault("tables", {})[found[1]] = None

    def committed(connection: Any) -> None:
        if tables := connection.info.pop("tables", None):
            tell(f"COMMIT {' '.join(tables)}")

    module.event.listen(module.Engine, "before_cursor_execute", executed)
    module.event.listen(module.Engine, "commit", committed)


def _of_parquet(module: ModuleType) -> None:
    """Rows and footers, as they go to a file."""
    writer = module.ParquetWriter
    for name, said in (("write_table", "write rows"), ("close", "write footer")):

        def effect(self: Any, *_arguments: Any, said: str = said, **_named: Any) -> tuple[str, ...] | None:
            return (said,) if self.is_open else None

        setattr(writer, name, _told_before(getattr(writer, name), effect))


def _of_task_sdk(module: ModuleType) -> None:
    """What a task tells its supervisor: XComs, and in the end its state with the events of its assets."""
    decoder = module.CommsDecoder

    def effect(_self: Any, msg: Any) -> tuple[str, ...] | None:
        name = type(msg).__name__
        return (f"say {name}",) if name in _SAID else None

    decoder.send = _told_before(decoder.send, effect)


def _of_supervisor(module: ModuleType) -> None:
    """Who supervises what: a LocalExecutor's worker, one task after the other."""
    supervise = module.supervise_task

    def supervised(**named: Any) -> Any:
        global _supervised
        _supervised = (f"supervisor of {named['ti'].task_id}", named["ti"].dag_id)
        try:
            return supervise(**named)
        finally:
            _supervised = None

    module.supervise_task = supervised  # type: ignore[attr-defined]


def _of_execution_api(module: ModuleType) -> None:
    """What a supervisor tells the API server: XComs, and a task's state in the end."""
    client = module.Client

    def effect(_self: Any, method: str, url: Any, *_arguments: Any, **_named: Any) -> tuple[str, ...] | None:
        last = str(url).rpartition("/")[2]
        if method == "POST" and "xcoms/" in str(url):
            return (f"POST XCom {last}",)
        return (f"PATCH {last}",) if method == "PATCH" and last in ("run", "state", "skip-downstream") else None

    client.request = _told_before(client.request, effect)


_SAID = ("SetXCom", "SucceedTask", "SkipDownstreamTasks", "TriggerDagRun", "TaskState")

_ACTIONS: dict[str, Callable[[ModuleType], None]] = {
    "sqlalchemy": _of_sqlalchemy,
    "pyarrow.parquet": _of_parquet,
    "airflow.sdk.execution_time.comms": _of_task_sdk,
    "airflow.sdk.execution_time.supervisor": _of_supervisor,
    "airflow.sdk.api.client": _of_execution_api,
}


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls an action once its module is loaded."""

    def __init__(self) -> None:
        self._waiting = {name: action for name, action in _ACTIONS.items() if name not in sys.modules}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        action = self._waiting.pop(name, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def then(module: ModuleType) -> None:
            execute(module)
            action(module)

        spec.loader.exec_module = then  # type: ignore[method-assign]
        return spec


if "SHARDLAKE_TAP" in os.environ:
    install(os.environ["SHARDLAKE_TAP"], os.environ["SHARDLAKE_TAP_PLACE"])
