"""Registers Shardlake's bridge with Airflow: the link from a task to its batch, and the page it leads to."""

from airflow.plugins_manager import AirflowPlugin

from shardlake.airflow.links import PREFIX, BatchLink, batch_app


class ShardlakePlugin(AirflowPlugin):
    """The plugin."""

    name = "shardlake"
    operator_extra_links = [BatchLink()]  # noqa: RUF012 (an AirflowPlugin is declared so)
    fastapi_apps = [{"app": batch_app(), "url_prefix": PREFIX, "name": "Shardlake batches"}]  # noqa: RUF012
