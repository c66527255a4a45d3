"""What the demo and the tests ask of Airflow's REST API (`/api/v2`), as the JSON objects that it answers with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

JsonObject = dict[str, Any]

_PAGE = 100
"""The most that `[api] maximum_page_limit` lets through by default."""

# A proxy of the environment has no business with the loopback interface.
_OPENER = build_opener(ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class AirflowApi:
    """The REST API of one Airflow, for one user.

    Every method raises `urllib.error.HTTPError` for an answer that is not 2xx.

    Attributes:
        url: the base URL, without a slash at its end.
        token: the bearer token, see `log_in`; empty for what needs none (`healthy`).
    """

    url: str
    token: str = ""

    def log_in(self, user: str, password: str) -> AirflowApi:
        """The same API with a token of this user (SimpleAuthManager)."""
        answer = self._call("POST", "/auth/token", {"username": user, "password": password})
        return AirflowApi(self.url, answer["access_token"])

    def healthy(self, *components: str) -> bool:
        """Whether these components, like `scheduler`, and the API itself are up and sent a heartbeat lately."""
        try:
            health = self._call("GET", "/api/v2/monitor/health")
        except (URLError, ConnectionError, TimeoutError):
            return False
        return all(health[component]["status"] == "healthy" for component in components)

    def dags(self) -> list[JsonObject]:
        """The DAGs that were parsed."""
        return self._pages("/api/v2/dags", "dags")

    def import_errors(self) -> list[JsonObject]:
        """The DAG files that could not be parsed."""
        return self._pages("/api/v2/importErrors", "import_errors")

    def set_paused(self, dag_id: str, paused: bool) -> None:
        """Pauses or unpauses a DAG."""
        self._call("PATCH", f"/api/v2/dags/{quote(dag_id)}", {"is_paused": paused})

    def trigger(self, dag_id: str, conf: JsonObject | None = None) -> JsonObject:
        """Makes a manual run."""
        return self._call("POST", f"/api/v2/dags/{quote(dag_id)}/dagRuns", {"logical_date": None, "conf": conf or {}})

    def dag_runs(self, dag_id: str) -> list[JsonObject]:
        """All runs of a DAG, the oldest first."""
        return self._pages(f"/api/v2/dags/{quote(dag_id)}/dagRuns", "dag_runs", order_by="run_after")

    def dag_run(self, dag_id: str, run_id: str) -> JsonObject:
        """One run as it is now."""
        return self._call("GET", self._run(dag_id, run_id))

    def task_instances(self, dag_id: str, run_id: str) -> list[JsonObject]:
        """The task instances of a run, a mapped one for each index, with `state`, `try_number` and `map_index`."""
        return self._pages(f"{self._run(dag_id, run_id)}/taskInstances", "task_instances")

    def clear(
        self, dag_id: str, run_id: str, task_ids: Sequence[str | tuple[str, int]], *, downstream: bool = True
    ) -> list[JsonObject]:
        """Clears task instances of a run, as Clear in the UI does.

        Args:
            dag_id: the DAG.
            run_id: its run.
            task_ids: tasks, or (task, map index) for one instance of a mapped task.
            downstream: whether what comes after them is cleared too.

        Returns:
            The task instances that were cleared.
        """
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [list(each) if isinstance(each, tuple) else each for each in task_ids],
            "include_downstream": downstream,
            "only_failed": False,
            "reset_dag_runs": True,
        }
        cleared: list[JsonObject] = self._call("POST", f"/api/v2/dags/{quote(dag_id)}/clearTaskInstances", body)[
            "task_instances"
        ]
        return cleared

    def clear_run(self, dag_id: str, run_id: str) -> None:
        """Clears a whole run, as Clear Run in the UI does."""
        self._call("POST", f"{self._run(dag_id, run_id)}/clear", {"dry_run": False, "only_failed": False})

    def mark_failed(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Marks a task as failed, as a person does in the UI; one that has not begun does not begin then."""
        self._call("PATCH", f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}", {"new_state": "failed"})

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Any:
        """The value that a task instance pushed."""
        path = f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        return self._call("GET", f"{path}?{urlencode({'map_index': map_index, 'deserialize': 'true'})}")["value"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1, map_index: int = -1) -> str:
        """The log of one attempt of a task instance, line by line."""
        path = f"{self._run(dag_id, run_id)}/taskInstances/{quote(task_id)}/logs/{try_number}"
        content = self._call("GET", f"{path}?{urlencode({'map_index': map_index, 'full_content': 'true'})}")["content"]
        return "\n".join(line if isinstance(line, str) else str(line.get("event", "")) for line in content)

    def asset_events(self, **filters: str | int) -> list[JsonObject]:
        """The events of assets, the oldest first; `filters` like `source_dag_id` narrow them down."""
        return self._pages("/api/v2/assets/events", "asset_events", order_by="timestamp", **filters)

    def _run(self, dag_id: str, run_id: str) -> str:
        return f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"

    def _pages(self, path: str, key: str, **parameters: str | int) -> list[JsonObject]:
        items: list[JsonObject] = []
        while True:
            query = urlencode({**parameters, "limit": _PAGE, "offset": len(items)})
            page = self._call("GET", f"{path}?{query}")[key]
            items += page
            if len(page) < _PAGE:
                return items

    def _call(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data=data, headers=headers, method=method)  # noqa: S310  (always http)
        with _OPENER.open(request, timeout=30) as response:
            answer: JsonObject = json.load(response)
            return answer
