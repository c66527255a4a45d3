"""Whatever is cleared in Airflow, and whenever: files and ledger are as without it. The matrix is printed at the end.

A row of the matrix is a pipeline of its own (`support.retries.Life`): a first run is committed; a second one publishes
its files and is kept from its commit, from outside; then the same retry is made of the second run before its commit,
of the second run after it, and of the first run. In the last row the stream has lost all records before the retries.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.table import Table

from support.retries import AFTER, AFTER_NEXT, BEFORE, MOMENTS, RANGES, RETRIES, Life, Retried, Retry

if TYPE_CHECKING:
    from tests.e2e.conftest import Deployment

pytestmark = pytest.mark.slow

HOUR_S = 3600
RETENTION_S = 24 * HOUR_S
SPARK = {"master": "local[1]"}
ROWS_AT_ONCE = 3


@dataclass
class Matrix:
    """The rows of the matrix as they went, and the cells that were asserted."""

    deployment: Deployment
    lives: dict[Retry, Life]
    progress: dict[Retry, Future[None]]
    asserted: dict[tuple[Retry, str], str] = field(default_factory=dict)

    def retried(self, retry: Retry, moment: str) -> Retried:
        """One cell as it went; raises what kept it from being tried."""
        life = self.lives[retry]
        if moment not in life.retried:
            self.progress[retry].result()
        found: Retried = life.retried[moment]
        return found

    def text(self) -> str:
        """The matrix for the terminal; a cell counts only if its test went through to the end."""
        table = Table(title="Retries from Airflow's UI", show_lines=True)
        for heading in ("cleared", *MOMENTS):
            table.add_column(heading)
        for retry in RETRIES:
            table.add_row(retry.name, *(self.asserted.get((retry, moment), "NOT SHOWN") for moment in MOMENTS))
        out = io.StringIO()
        Console(file=out, width=120).print(table)
        return out.getvalue()


@pytest.fixture(scope="module")
def matrix(deployment: Deployment, print_at_end: Callable[[str], None]) -> Iterator[Matrix]:
    """All rows, some at a time; the one that waits for its records to be trimmed goes on when the others are done."""
    for retry in RETRIES:
        deployment.add(retry.pipeline, max_group_ranges=retry.ranges_a_job, engine=SPARK)
    # No DAG is added or scheduled later, and parsing takes half a core from what is tried here.
    airflow = deployment.start_airflow(AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL="3600")
    lives = {retry: Life(deployment, airflow.api, retry) for retry in RETRIES}

    def begin(life: Life) -> None:
        life.begin()
        if not life.retry.trimmed:
            life.go_on()

    with ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
        progress = {
            retry: pool.submit(begin, life)
            for retry, life in sorted(lives.items(), key=lambda item: not item[0].trimmed)
        }
    deployment.kinesis.control({"advance_clock_s": RETENTION_S + HOUR_S})
    with ThreadPoolExecutor(ROWS_AT_ONCE) as pool:
        ready = [retry for retry in RETRIES if retry.trimmed and not progress[retry].exception()]
        progress |= {retry: pool.submit(lives[retry].go_on) for retry in ready}
    matrix = Matrix(deployment, lives, progress)
    yield matrix
    print_at_end(matrix.text())


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("retry", RETRIES, ids=lambda retry: retry.name)
def test_a_retry_changes_nothing_but_try_numbers(matrix: Matrix, retry: Retry, moment: str) -> None:
    retried = matrix.retried(retry, moment)
    before, after = retried.before, retried.after

    # It was the moment that it is said to be.
    assert len(before.planned) == (2 if moment == BEFORE else 0)
    assert before.run_state == ("failed" if moment == BEFORE else "success")
    assert len(before.files) == len(before.ledger[RANGES])
    assert before.read_calls > 0

    # Green, and what was cleared has run once more, nothing else.
    again = retry.runs_again(before.tries)
    assert after.run_state == "success"
    assert after.states == {
        instance: "skipped" if instance[0] == "follow_up" else "success" for instance in before.states
    }
    assert after.tries == {instance: tries + (instance in again) for instance, tries in before.tries.items()}
    assert retried.cleared in (None, again)

    # Files and ledger are as without it, to the row and the inode; nothing lies about.
    assert after.files == before.files
    assert after.ledger == retried.without
    assert after.planned == []
    assert after.leftovers == []
    matrix.deployment.assert_every_record_is_there_once(retry.pipeline)
    assert len(after.events) == 1
    assert before.events in (set(), after.events)

    # Nothing was read. What is committed does not even start Spark.
    assert after.read_calls == before.read_calls
    if moment == BEFORE:
        assert retried.sparks == len(retried.logs)
    else:
        assert retried.sparks == 0
        for index, log in retried.logs.items():
            assert f"every range of group {index} is committed already: nothing to read" in log

    tries = sorted({f"{before.tries[each]}→{after.tries[each]}" for each in again}, reverse=True)
    matrix.asserted[retry, moment] = (
        f"unchanged, green\n{len(again)} of {len(after.tries)} again, try {', '.join(tries)}\n"
        f"{after.read_calls - before.read_calls} reads, {retried.sparks} Spark, {retried.seconds:.0f} s"
    )


class TestTheRowWithoutRecords:
    """What makes the last row: the stream has nothing left of what the runs took."""

    def test_the_stream_has_no_record_left(self, matrix: Matrix) -> None:
        (retry,) = [retry for retry in RETRIES if retry.trimmed]
        client = matrix.deployment.kinesis.client()
        for shard in client.list_shards(StreamName=retry.pipeline)["Shards"]:
            iterator = client.get_shard_iterator(
                StreamName=retry.pipeline, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )
            assert client.get_records(ShardIterator=iterator["ShardIterator"])["Records"] == []

    @pytest.mark.parametrize("moment", [BEFORE, AFTER, AFTER_NEXT])
    def test_its_retries_ask_the_service_nothing_at_all(self, matrix: Matrix, moment: str) -> None:
        (retry,) = [retry for retry in RETRIES if retry.trimmed]
        retried = matrix.retried(retry, moment)
        assert retried.after.kinesis_calls == retried.before.kinesis_calls
