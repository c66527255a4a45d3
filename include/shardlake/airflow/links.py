"""The link from a task to its batch's plan and reports, and the page it leads to."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

from shardlake.airflow.batch_page import batch_page, html_page
from shardlake.airflow.connections import aws_session
from shardlake.airflow.tasks import Target, backfill_of
from shardlake.backfill import DAG_ID as BACKFILL
from shardlake.config import config_file, load_pipelines
from shardlake.errors import ShardlakeError
from shardlake.names import batch_directory, batch_id, dataset_of

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from fastapi import FastAPI

PREFIX = "/shardlake"

_NO_BATCH = "<p>No batch: there was nothing to read, it is not planned yet, or this is no run of a Shardlake DAG.</p>"
_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Cache-Control": "no-store"}


class BatchLink(BaseOperatorLink):
    """«Batch» on a task: its plan, its reports and what was verified."""

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the run's batch, below the path of the base URL, on whichever host the UI is seen on."""
        base = urlsplit(conf.get("api", "base_url", fallback="/")).path.rstrip("/")
        return f"{base}{PREFIX}/{quote(ti_key.dag_id, safe='')}/{quote(ti_key.run_id, safe='')}"


def batch_app() -> FastAPI:
    """The page, open to whoever may read the DAG: GET /<dag id>/<run id>."""
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse

    app = FastAPI(title="Shardlake", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/{dag_id}/{run_id:path}", dependencies=[Depends(requires_access_dag(method="GET"))])
    def batch(dag_id: str, run_id: str) -> HTMLResponse:
        try:
            files = batch_files(dag_id, run_id, _form(dag_id, run_id))
        except ShardlakeError as exc:
            return HTMLResponse(html_page("This batch cannot be read", f"<p>{escape(str(exc))}</p>"), 503, _HEADERS)
        if not files:
            return HTMLResponse(html_page("No batch", _NO_BATCH), 404, _HEADERS)
        return HTMLResponse(batch_page(run_id, files), 200, _HEADERS)

    return app


def _form(dag_id: str, run_id: str) -> dict[str, Any]:
    """What a run was triggered with, from Airflow's database."""
    from airflow.models import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session(scoped=False) as session:
        return session.scalar(select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)) or {}


def batch_files(dag_id: str, run_id: str, form: Mapping[str, Any]) -> dict[str, str]:
    """The control files of a run's batch, by name: plan, reports, what was verified.

    Empty where the run has none, or the DAG belongs to no pipeline.

    Args:
        form: what a run of the backfill DAG was triggered with.
    """
    from shardlake.lake.home import open_home

    pipelines = load_pipelines(config_file())
    if dag_id == BACKFILL:
        target = backfill_of({"pipeline": next(iter(pipelines), ""), "backfill": None, **form}, run_id)
    else:
        target = Target(next((name for name, each in pipelines.items() if each.dag_id == dag_id), ""))
    pipeline = pipelines.get(target.pipeline)
    if pipeline is None:
        return {}
    session = aws_session(pipeline) if pipeline.place else None
    home = open_home(dataset_of(pipeline.dataset, target.namespace), pipeline.place, session)
    directory = batch_directory(batch_id(pipeline.name, target.namespace, dag_id, run_id))
    texts = {name: home.read(f"{directory}/{name}") for name in home.names(directory) if name.endswith(".json")}
    return {name: text for name, text in texts.items() if text is not None}
