"""What the server is told to do to its callers for good; ``faults`` is for what befalls single calls."""

from dataclasses import dataclass

from local_kinesis.errors import AccessDeniedException
from local_kinesis.stream import ACCOUNT_ID

RESUME = "resume"
EMPTY_PAGES = "empty-pages"


@dataclass(slots=True)
class Behaviour:
    """Set by the command line at the start and by the control endpoint at any time.

    Attributes:
        retention_behaviour: what a read at a trimmed position gets: ``resume`` (the oldest record left, silently) or
            ``empty-pages`` (first ``trimmed_pages`` empty pages, with MillisBehindLatest near the retention). The
            service documents neither; both have been seen.
        trimmed_pages: how many pages ``empty-pages`` means.
        iterator_life_ms: 5 minutes in the service.
        denied: the operations that answer AccessDeniedException.
        page_limit: at most so many records a page, whatever the caller asks for.
        empty_pages: how many empty replies each chain of iterators gets while data is ahead.
        empty_pages_round: which order for empty pages this is, so that a chain is owed each order's pages once.
        failing_puts: how many more records of PutRecords are refused, every other one of a call.
    """

    retention_behaviour: str = RESUME
    trimmed_pages: int = 60
    iterator_life_ms: int = 300_000
    denied: frozenset[str] = frozenset()
    page_limit: int | None = None
    empty_pages: int = 0
    empty_pages_round: int = 0
    failing_puts: int = 0

    def before_call(self, operation: str) -> None:
        """Raises what the caller is to be answered instead of the operation's reply."""
        if operation in self.denied:
            raise AccessDeniedException(
                f"User: arn:aws:iam::{ACCOUNT_ID}:user/local is not authorized to perform: kinesis:{operation} "
                "because no identity-based policy allows it"
            )

    def order_empty_pages(self, count: int) -> None:
        """From now on every chain of iterators, old or new, gets so many empty replies."""
        self.empty_pages = count
        self.empty_pages_round += 1

    def refuses_put(self, index: int) -> bool:
        """Whether this record of a PutRecords call is refused; counts it."""
        if self.failing_puts == 0 or index % 2:
            return False
        self.failing_puts -= 1
        return True
