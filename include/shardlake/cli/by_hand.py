"""What a person does by hand to a range: asked first, and written to the ledger's journal with who, when and why."""

from __future__ import annotations

import getpass
import socket
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from shardlake.batch import Steps
    from shardlake.ledger import Action, JournalEntry
    from shardlake.ranges import SequenceRange

reason_option = click.option("--reason", metavar="TEXT", help="Why, for the journal; asked for if it is not given.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirmed(question: str, reason: str | None, yes: bool) -> str:
    """The reason, once the person agrees.

    Raises:
        click.Abort: they do not.
    """
    if not yes:
        click.confirm(question, abort=True, err=True)
    return reason or click.prompt("Why? (for the journal)", err=True)


def entry_of(steps: Steps, action: Action, range_: SequenceRange, reason: str) -> JournalEntry:
    """The journal's entry on what this user does now."""
    from shardlake.ledger import JournalEntry

    who = f"{getpass.getuser()}@{socket.gethostname()}"
    return JournalEntry(
        time.time_ns() // 1_000_000, who[:200], action, steps.pipeline.name, steps.namespace, range_, reason[:2000]
    )
