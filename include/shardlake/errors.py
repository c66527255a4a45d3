"""Every error that Shardlake raises on purpose, in one tree.

    ShardlakeError
    ├── ConfigError        the configuration, an argument or an access right is wrong   terminal    exit code 2
    ├── DataLossError      records that were to be read are no longer retained          terminal    exit code 3
    ├── ConflictError      ledger, dataset or stream is not what the protocol expects   terminal    exit code 4
    └── IngestError        a step did not get done                                      retryable   exit code 1
        └── UnavailableError   a service did not answer in time                         retryable   exit code 1

Terminal means that trying again without a change cannot help. Every message says what happened and, where it is known,
what was expected, what was found and what to do.
"""


class ShardlakeError(Exception):
    """The root of the tree.

    Args:
        what: what happened, one sentence without a full stop.
        expected: what should have been there.
        found: what was there instead.
        todo: what the reader can do about it, a sentence.
    """

    exit_code = 1
    terminal = False

    def __init__(self, what: str, *, expected: object = None, found: object = None, todo: str = "") -> None:
        self.what, self.expected, self.found, self.todo = what, expected, found, todo
        comparison = ", ".join(
            f"{label} {value}" for label, value in (("expected", expected), ("found", found)) if value is not None
        )
        sentences = [f"{what}: {comparison}" if comparison else what, todo]
        super().__init__(". ".join(s.rstrip(".") for s in sentences if s))


class ConfigError(ShardlakeError):
    """The configuration, an argument or an access right is wrong: a person has to change it."""

    exit_code = 2
    terminal = True


class DataLossError(ShardlakeError):
    """Records that were to be read are no longer retained by the stream."""

    exit_code = 3
    terminal = True


class ConflictError(ShardlakeError):
    """Ledger, dataset and stream contradict each other or the batch at hand."""

    exit_code = 4
    terminal = True


class IngestError(ShardlakeError):
    """A step did not get done; the same step can be run again."""


class UnavailableError(IngestError):
    """A service did not answer as it should within the budget."""


def error_named(name: str, message: str) -> ShardlakeError:
    """The error of this module's class of a name; of any other name, one that may be tried again."""
    known = (ConfigError, DataLossError, ConflictError, UnavailableError)
    return {each.__name__: each for each in known}.get(name, IngestError)(message)


def most_severe(errors: list[ShardlakeError]) -> ShardlakeError:
    """The error to report for several: a terminal one before a retryable one, then the first."""
    return min(errors, key=lambda error: not error.terminal)
