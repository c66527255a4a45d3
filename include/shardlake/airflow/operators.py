"""The operators that need more than a function: one is killed, the other triggers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from shardlake.airflow.links import BatchLink
from shardlake.airflow.tasks import current_batch, current_run, is_behind, steps_of, target_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardlake.engines import Engine


class IngestOperator(BaseOperator):
    """Submits one group of the run's ranges to the pipeline's engine, and shows its log in the task's.

    Args:
        pipeline: the pipeline's name; None: what the run's form names, a backfill.
        group: which group of the batch.
    """

    template_fields: Sequence[str] = ()
    operator_extra_links = (BatchLink(),)

    def __init__(self, *, pipeline: str | None = None, group: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline, self.group = pipeline, group
        self._engine: Engine | None = None

    def execute(self, context: Context) -> None:
        """Run the group's Spark job to its end."""
        from shardlake.engines.spark_submit import SparkSubmit

        target = target_of(self.pipeline)
        with steps_of(target) as steps:
            self._engine = SparkSubmit(steps.pipeline.engine)
            steps.ingest(current_batch(target), self.group, self._engine, self.log.info)

    def on_kill(self) -> None:
        """End Spark, its whole process group."""
        if self._engine:
            self._engine.cancel()


class FollowUpOperator(TriggerDagRunOperator):
    """Starts the next run of this DAG at once where the batch left records behind; is skipped otherwise.

    The new run's id follows from this one's, so that a retry does not start a second one.

    Args:
        pipeline: the pipeline's name; None: what the run's form names, a backfill, which the next run goes on with.
        trigger_dag_id: the DAG that this operator is in.
    """

    operator_extra_links: Any = ()  # the link to the triggered run logs an error for every run that triggers none

    def __init__(self, *, pipeline: str | None = None, trigger_dag_id: str, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, skip_when_already_exists=True, **kwargs)
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:
        """Trigger, or skip."""
        target = target_of(self.pipeline)
        if not is_behind(target):
            raise AirflowSkipException("the batch reached the end of what there is to read")
        if self.pipeline is None:
            self.conf = {**context["params"], "backfill": target.namespace}
        self.trigger_run_id = f"follow_up__{hashlib.sha256(current_run().run_id.encode()).hexdigest()[:16]}"
        super().execute(context)
