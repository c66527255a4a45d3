"""An engine: where a group of ranges is read and written. It knows neither ledger nor Airflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One submission: ranges of a pinned plan.

    Attributes:
        name: what the engine's own UI shows.
        plan_text: the plan as the ledger has it.
        digest: what the plan's text must have as its SHA-256.
        ranges: which ranges of the plan, by their position in it.
        report_key: where in the dataset the job says what became of each range.
        credentials: environment variables with AWS credentials, see `aws`; empty for the default chain. They go into
            the environment of the job's driver, and from there to its tasks: never into arguments, settings or logs.
    """

    name: str
    plan_text: str
    digest: str
    ranges: Sequence[int]
    report_key: str
    credentials: Mapping[str, str] = field(repr=False)


class Engine(Protocol):
    """What the ingest step asks of an engine; `engines.spark_submit` is the one there is."""

    def run(self, job: IngestJob, log: Callable[[str], None]) -> None:
        """Run a job to its end, giving its log line by line.

        Raises:
            IngestError: it did not end well; the report, if there is one, says more.
        """

    def cancel(self) -> None:
        """End the job that runs, whole, from another thread or a signal handler."""
