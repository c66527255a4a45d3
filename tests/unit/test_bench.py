"""The bench's own arithmetic, and what it measures with: medians, ratios, goals, the table, processes, streams."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bench.children.fetch import PAGE_BYTES
from bench.figures import Figure, Goal, not_measured, number_text, ratios
from bench.goals import micro_batch
from bench.peers.writing import ROW_GROUP_ROWS, ShardFile
from bench.results import write_results
from bench.runs import REPOSITORY, BenchError, Taken
from bench.sizes import QUICK
from bench.source import Source
from bench.table import notes_of, table_of
from bench.throughput import Throughput
from rich.console import Console

from local_kinesis.process import LocalKinesis
from shardlake.kinesis import reader

AT_MOST_2, AT_LEAST_2, ABOVE_2 = Goal("at most", 2), Goal("at least", 2), Goal("above", 2)


def figure(*taken: float, goal: Goal | None = None, section: int = 1, how: str = "so") -> Figure:
    return Figure(section, "speed", "records/s", taken, how, goal)


@pytest.mark.parametrize(
    ("goal", "reached"),
    [(AT_MOST_2, (True, True, False)), (AT_LEAST_2, (False, True, True)), (ABOVE_2, (False, False, True))],
)
def test_a_goal_is_reached_on_its_own_side_of_the_bound(goal: Goal, reached: tuple[bool, ...]) -> None:
    assert tuple(goal.reached(value) for value in (1.9, 2.0, 2.1)) == reached


def test_the_median_decides_and_not_the_best_or_the_worst_run() -> None:
    assert figure(9, 1, 1.5, goal=AT_MOST_2).verdict == "reached"
    assert figure(1, 9, 2.5, goal=AT_MOST_2).verdict == "missed"


def test_what_was_not_measured_is_neither_reached_nor_missed() -> None:
    assert not_measured(3, "a peer", "no such package").verdict == "not measured"
    assert figure(goal=AT_MOST_2).verdict == "not measured"
    assert figure(5).verdict == ""


def test_a_ratio_is_of_medians() -> None:
    assert ratios((4, 40, 6), (1, 2, 3)) == (3,)
    assert ratios((4,), ()) == ()


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.123, "0.12"), (12.34, "12.3"), (1234.5, "1,234"), (99.96, "100.0")]
)
def test_numbers_have_as_many_digits_as_tell_something(value: float, text: str) -> None:
    assert number_text(value) == text


def test_the_table_shows_value_spread_goal_verdict_and_where_the_notes_are() -> None:
    figures = [
        figure(1, 3, 2, goal=AT_MOST_2, how="by a clock"),
        figure(5, goal=AT_MOST_2, section=2, how="by another"),
        not_measured(3, "a peer", "no such package"),
        figure(7, section=4, how="by a clock"),
    ]
    out = io.StringIO()
    Console(file=out, width=120).print(table_of(figures, "title"))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.getvalue().splitlines() if "│" in line]
    assert rows == [
        ["1", "speed", "2.00 records/s (1.00 to 3.00)", "≤ 2.00", "reached", "a"],
        ["2", "speed", "5.00 records/s", "≤ 2.00", "missed", "b"],
        ["3", "a peer", "-", "", "not measured", "c"],
        ["4", "speed", "7.00 records/s", "", "", "a"],
    ]
    assert notes_of(figures) == ["a  by a clock", "b  by another", "c  no such package"]


def taken(wall_s: float, cpu_s: float, server_cpu_s: float = 0.0, said: Mapping[str, float] | None = None) -> Taken:
    return Taken(wall_s, cpu_s, server_cpu_s, 0, said or {})


SOURCE = Source(LocalKinesis("http://127.0.0.1:1", 1), "s", 4, 1_000_000, 500)


def test_start_up_is_subtracted_from_time_and_cpu_where_it_does_not_count() -> None:
    whole, start = (taken(12, 20, 5), taken(22, 30, 5)), (taken(2, 8, 1), taken(4, 12, 3), taken(1, 10, 2))
    found = Throughput(SOURCE, whole, start)
    assert found.steady_rates == (100_000, 50_000)
    assert found.rates == (1_000_000 / 12, 1_000_000 / 22)
    assert found.record_us == (10, 20)
    assert found.gb_s == (40, 60)
    assert found.server_cores == (0.3, 0.15)


def test_a_reader_that_says_when_it_began_is_taken_at_its_word() -> None:
    whole = (taken(100, 20, said={"reading_s": 10}), taken(95, 20, said={"reading_s": 8}))
    found = Throughput(SOURCE, whole, (taken(97, 10),))
    assert found.steady_rates == (100_000, 125_000)
    assert found.rates == (10_000, 1_000_000 / 95)


def test_a_stream_that_is_read_within_the_start_up_is_refused() -> None:
    with pytest.raises(BenchError, match=r"start-up takes 5\.0 s, the whole run no longer"):
        Throughput(SOURCE, (taken(6, 1), taken(4, 1)), (taken(5, 1),))


def test_results_say_sizes_values_and_verdicts(tmp_path: Path) -> None:
    path = write_results(QUICK, [figure(1, 3, 2, goal=AT_MOST_2)], tmp_path / "results")
    told = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == "quick.json"
    assert told["sizes"]["shards"] == QUICK.shards
    (found,) = told["figures"]
    assert (found["taken"], found["value"], found["goal"], found["verdict"]) == ([1, 3, 2], 2, "≤ 2.00", "reached")


def test_pages_are_those_of_the_reader() -> None:
    assert PAGE_BYTES == reader.PAGE_BYTES


def test_the_steps_of_a_run_make_up_the_whole_of_it() -> None:
    def task(name: str, start: int, end: int) -> dict[str, str]:
        times = (f"2026-11-21T00:00:{second:02}+00:00" for second in (start, end))
        return dict(zip(("task_id", "start_date", "end_date"), (name, *times), strict=True))

    queued_s = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
    tasks = [
        task("plan", 2, 5),
        task("ingest", 6, 16),
        task("ingest", 7, 18),
        task("commit", 20, 21),
        task("follow_up", 22, 30),
    ]
    steps = micro_batch.steps_of(queued_s, tasks)
    assert steps == {
        "waiting for Airflow to start tasks": 2 + 1 + 2,
        "task plan": 3,
        "task ingest": 10 + 2,
        "task commit": 1,
    }
    assert sum(steps.values()) == 21


BURN = "import time; until = time.process_time() + 0.6\nwhile time.process_time() < until: pass"
FORGET = """
import os, signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", sys.argv[1]]).wait()
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["sh", "-c", f"{sys.executable} -c '{BURN}' & wait"], id="a child"),
        pytest.param(["sh", "-c", f"{sys.executable} -c '{BURN}' & true"], id="one that outlives its parent"),
        pytest.param([sys.executable, "-c", FORGET, BURN], id="one whose parent does not care for it"),
    ],
)
def test_cpu_of_all_that_a_command_starts_is_counted(command: list[str], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    subprocess.run([sys.executable, "-m", "bench.measured", report, *command], cwd=REPOSITORY, check=True)
    told = json.loads(report.read_text())
    assert told["code"] == 0
    assert 0.45 <= told["cpu_s"] < 2
    assert told["python_peak_bytes"] > 5 * 2**20
    assert (told["wall_s"] < 0.6) == ("& true" in command[-1])


def test_peers_write_every_row_in_row_groups(tmp_path: Path) -> None:
    file = ShardFile(str(tmp_path), "s", "shard", ("sequence_number", "data"))
    numbers = [str(number) for number in range(ROW_GROUP_ROWS + 10)]
    for rows in (numbers[:ROW_GROUP_ROWS], numbers[ROW_GROUP_ROWS:]):
        file.add(sequence_number=rows, data=[each.encode() for each in rows])
    file.close()
    found = pq.ParquetFile(tmp_path / "shard.parquet")
    assert [found.metadata.row_group(index).num_rows for index in range(2)] == [ROW_GROUP_ROWS, 10]
    assert found.metadata.row_group(0).column(1).compression == "ZSTD"
    table = found.read()
    assert table.column("sequence_number").to_pylist() == numbers
    assert table.column("data").to_pylist() == [each.encode() for each in numbers]
    assert set(table.column("stream").to_pylist()) == {"s"}
