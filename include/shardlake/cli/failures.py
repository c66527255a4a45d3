"""How a command fails: one readable message on stderr, and an exit code that tells what kind of failure it was."""

from __future__ import annotations

import re
import traceback
from typing import IO, Any

import click

from shardlake.errors import ShardlakeError
from shardlake.redact import redact

INTERRUPTED = 130
"""The shell's exit code for Ctrl-C."""


_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal obeys, but for line feeds and tabs; and what a shell gave that is not UTF-8."""


class Failure(click.ClickException):
    """Ends a command.

    Args:
        message: what is told.
        exit_code: see `ShardlakeError.exit_code`.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(redact(message))
        self.exit_code = exit_code  # type: ignore[misc]  # click sets its own on instances, too

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on stderr."""
        click.echo(f"Error: {self.message}", err=True, file=file)


class TellingGroup(click.Group):
    """Commands whose errors are told to people; with `--debug` the traceback comes first."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse arguments that are no text, before anything looks at them."""
        for argument in args:
            if _NOT_TEXT.search(argument):
                what = "an argument holds a control character, or is not UTF-8"
                raise click.UsageError(f"{what}: {argument[:80]!r}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as exc:
            todo = "What is committed stays; run the command again to go on"
            raise Failure(f"interrupted. {todo}", INTERRUPTED) from exc
        except Exception as exc:
            if ctx.params.get("debug"):
                click.echo(redact(traceback.format_exc()), err=True)
            raise _failure(exc) from exc


def _failure(exc: Exception) -> Failure:
    if isinstance(exc, ShardlakeError):
        return Failure(str(exc), exc.exit_code)
    said = " ".join(str(exc).split())[:500]
    return Failure(f"{type(exc).__name__}: {said}. To see where, run again with: shardlake --debug …", 1)
