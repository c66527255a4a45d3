"""The command line: `python -m demo` runs the demo, `… cluster` the one on a cluster.

`… up` runs the demo and leaves it running afterwards, `… down` ends that.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console

from demo.background import Background
from demo.cluster_story import tell_on_cluster
from demo.folder import DemoFolder, FolderError
from demo.interruption import unwind_on_signals
from demo.java import NoJavaError
from demo.object_store import NoObjectStoreError
from demo.postgres import NoPostgresError
from demo.processes import ProcessError
from demo.setting import on_this_machine
from demo.story import Story
from demo.watch import DemoError

RUNS_ON_EACH_SIDE = 3
"""Of the reshard, in the demo on this machine."""


def main(arguments: list[str]) -> int:
    """Runs a command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("run", "cluster", "up", "down"), default="run")
    command = parser.parse_args(arguments).command
    unwind_on_signals()
    folder, console = DemoFolder(), Console(stderr=False)
    try:
        # Also what a demo that was killed has left.
        Background(folder.processes).end()
        if command != "down":
            folder.make_anew()
            if command == "cluster":
                _run_on_cluster(folder, console)
            else:
                _run(folder, console, leave=command == "up")
    except (DemoError, FolderError, NoJavaError, NoObjectStoreError, NoPostgresError, ProcessError) as error:
        console.print(f"The demo has failed: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    return 0


def _run(folder: DemoFolder, console: Console, *, leave: bool) -> None:
    with Background(folder.processes) as background:
        story = Story(folder, background, console, on_this_machine(folder), time.monotonic())
        airflow = story.ingest(RUNS_ON_EACH_SIDE)
        story.check()
        if leave:
            background.release()
            console.print(
                f"Still running: {airflow.url}, user {airflow.user}, password {airflow.password}", soft_wrap=True
            )
            console.print("`make down` ends it.")


def _run_on_cluster(folder: DemoFolder, console: Console) -> None:
    with Background(folder.processes) as background:
        tell_on_cluster(folder, background, console)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
