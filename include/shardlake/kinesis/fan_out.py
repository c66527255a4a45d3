"""Reading a shard by enhanced fan-out: one subscription after another, and polling for all that is in doubt.

A subscription is believed as long as it begins with the record that it was asked for and says that the shard goes on.
What is lost and where a shard ends is for polling to say. So nothing hangs on how the service ends a subscription, or
tells that another reader with the same consumer has taken it over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing

from shardlake.errors import DataLossError, IngestError
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.failures import InUseError, InvalidPositionError, ShardGoneError
from shardlake.kinesis.page import Page
from shardlake.ranges import SequenceNumber

BETWEEN_S = 5.0
"""Within so many seconds of one subscription the service refuses another by the same consumer; after that the later one
takes its place (SubscribeToShard, API reference)."""

MAX_FRUITLESS = 2
"""Subscriptions in a row without a new record, after which the rest is polled."""

PATIENCE_S = 60.0
"""How long a subscription may give nothing but empty events. Records are there: they were seen when planning."""

log = logging.getLogger(__name__)


class _DoubtError(IngestError):
    """A subscription says what polling has to confirm."""


def fan_out(
    kinesis: Kinesis,
    consumer_arn: str,
    shard_id: str,
    anchor: SequenceNumber,
    poll: Callable[[SequenceNumber], Iterator[Page]],
) -> Iterator[Page]:
    """Pages with records from the anchor on, to the shard's end or for as long as one asks.

    Each subscription begins AT the last record of the one before, which it has to give again: so nothing can have been
    trimmed in between unseen.

    Args:
        poll: the same by polling, from the number that it is given.

    Raises:
        ConfigError: no access, no HTTP/2, no package for it: a person has to put it right, polling would hide it.
        DataLossError: polling does not find the last record again.
    """
    last: SequenceNumber | None = None
    fruitless = 0
    while fruitless < MAX_FRUITLESS:
        if fruitless:
            time.sleep(BETWEEN_S)
        fruitless, begin = fruitless + 1, last or anchor
        try:
            with closing(kinesis.subscribe(consumer_arn, shard_id, begin)) as pages:
                for page in _beyond_doubt(pages, begin):
                    new = page.rows(1) if page.first == last else page
                    if len(new):
                        fruitless, last = 0, new.last
                        kinesis.budget.renew()
                        yield new
        except (IngestError, InvalidPositionError, ShardGoneError) as exc:
            log.warning("the subscription to %s from %s has ended: %s", shard_id, begin, exc)
            taken_over = isinstance(exc, InUseError) and not fruitless
            if taken_over or isinstance(exc, _DoubtError):
                break
    log.info("%s is polled from %s on", shard_id, last or anchor)
    yield from _behind(poll(last or anchor), last)


def _beyond_doubt(pages: Iterator[Page], begin: SequenceNumber) -> Iterator[Page]:
    """The pages of a subscription that have records.

    Raises:
        _DoubtError: the first record is another than the one asked for, no more records come, or the shard ends.
    """
    begun, until_s = False, time.monotonic() + PATIENCE_S
    for page in pages:
        if page.at_end:
            raise _DoubtError("it says that the shard ends")
        if len(page):
            if not begun and page.first != begin:
                raise _DoubtError(f"it begins with {page.first}")
            yield page
            begun, until_s = True, time.monotonic() + PATIENCE_S
        elif time.monotonic() > until_s:
            raise _DoubtError(f"it gives nothing but empty events for {PATIENCE_S:.0f} s")


def _behind(pages: Iterator[Page], last: SequenceNumber | None) -> Iterator[Page]:
    """The pages without the record that they begin with, if it was read before."""
    for page in pages:
        if last and page.number(0) > last:
            raise DataLossError(
                "records behind the last one read are no longer retained",
                expected=last,
                found=f"{page.first} as the oldest record left",
                todo="Set on_data_loss: skip to record the loss and go on",
            )
        page, last = (page.rows(1) if page.first == last else page), None
        if len(page):
            yield page
