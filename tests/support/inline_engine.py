"""An engine in this process: what `jobs/ingest.py` does, without Spark."""

from __future__ import annotations

from collections.abc import Callable

from shardlake.aws import session_of
from shardlake.engines import IngestJob
from shardlake.errors import IngestError
from shardlake.ingesting import ingest_ranges
from shardlake.lake.home import open_home
from shardlake.plan import load_plan
from shardlake.reports import error_of_report, report_to_text


class InlineEngine:
    """Publishes the ranges of a job one after another and writes its report."""

    def run(self, job: IngestJob, log: Callable[[str], None]) -> None:
        """Run a job to its end.

        Raises:
            IngestError: a range failed; the report says which and why.
        """
        plan = load_plan(job.plan_text, job.digest)
        ranges = list(plan.ranges)
        session = session_of(job.credentials)
        reports = ingest_ranges(plan, [ranges[row] for row in job.ranges], session)
        for report in reports:
            log(f"{report.range}: {report.message or f'{report.rows} rows'}")
        text = report_to_text(reports)
        open_home(plan.dataset, plan.storage, session).replace(job.report_key, text)
        if error_of_report(text):
            raise IngestError("the inline engine ended with a failed range", todo="Its log is above")

    def cancel(self) -> None:
        """Nothing runs beside this process."""
