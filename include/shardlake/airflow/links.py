"""The link from a task to its batch's plan and reports, and the page it leads to."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from shardlake.config import config_file, load_pipeline
from shardlake.errors import ShardlakeError
from shardlake.names import LIVE, batch_directory, batch_id

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey
    from fastapi import FastAPI

PREFIX = "/shardlake"


class BatchLink(BaseOperatorLink):
    """«Batch» on a task: its plan, its reports and what was verified."""

    name = "Batch"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page of the run's batch."""
        return f"{PREFIX}/{quote(ti_key.dag_id, safe='')}/{quote(ti_key.run_id, safe='')}"


def batch_app() -> FastAPI:
    """The page, open to whoever may read the DAG: GET /<dag id>/<run id>."""
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import HTMLResponse

    app = FastAPI(title="Shardlake", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/{dag_id}/{run_id}", dependencies=[Depends(requires_access_dag(method="GET"))])
    def batch(dag_id: str, run_id: str) -> HTMLResponse:
        try:
            files = batch_files(dag_id, run_id)
        except ShardlakeError as exc:
            raise HTTPException(404, str(exc)) from exc
        if not files:
            raise HTTPException(404, "This run has no batch: there was nothing to read, or it is not planned yet.")
        sections = (f"<h2>{html.escape(name)}</h2><pre>{html.escape(text)}</pre>" for name, text in files.items())
        title = f"Batch of {html.escape(run_id)}"
        return HTMLResponse(f"<!doctype html><title>{title}</title><h1>{title}</h1>{''.join(sections)}")

    return app


def batch_files(dag_id: str, run_id: str) -> dict[str, str]:
    """The control files of a run's batch, by name: plan, reports, what was verified. Empty where it has none.

    Raises:
        ConfigError: the DAG belongs to no pipeline.
    """
    from shardlake.lake.home import LocalHome

    pipeline = load_pipeline(config_file(), dag_id.removeprefix("kinesis_ingest__"))
    home = LocalHome(pipeline.dataset)
    directory = batch_directory(batch_id(pipeline.name, LIVE, dag_id, run_id))
    texts = {name: home.read(f"{directory}/{name}") for name in home.names(directory) if name.endswith(".json")}
    return {name: text for name, text in texts.items() if text is not None}
