"""Readers that share what they may hold: nobody holds more, and who waits or ends holds nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore

import pytest

from shardlake.errors import UnavailableError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.hands import Hands


def is_free(pages: Semaphore) -> bool:
    if not pages.acquire(blocking=False):
        return False
    pages.release()
    return True


def test_one_reader_waits_until_another_lets_go() -> None:
    pages, taken = Semaphore(1), Event()
    one, other = Hands(pages), Hands(pages)
    one.take()

    def take() -> None:
        other.take()
        taken.set()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(take)
        assert not taken.wait(0.1)
        one.let_go()
        waiting.result(10)
    assert not is_free(pages)


def test_letting_go_twice_makes_no_room_for_two() -> None:
    """Kills: a permit too many, which would let memory grow page by page."""
    pages = Semaphore(1)
    hands = Hands(pages)
    hands.let_go()
    hands.take()
    hands.let_go()
    hands.let_go()
    assert is_free(pages)
    Hands(pages).take()
    assert not is_free(pages)


@pytest.mark.parametrize("held", [True, False])
def test_who_waits_for_trouble_to_pass_holds_nothing(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: throttled readers that keep those from reading that are not."""
    pages, seen = Semaphore(1), []
    hands = Hands(pages)
    monkeypatch.setattr("shardlake.kinesis.budget.time.sleep", lambda _: seen.append(is_free(pages)))
    if held:
        hands.take()
    Budget(10, hands).wait(1, UnavailableError("nothing"))
    assert seen == [True]
    assert is_free(pages) == (not held)


def test_hands_without_a_limit_never_wait() -> None:
    hands = Hands()
    for _ in range(3):
        hands.take()
    with hands.empty():
        hands.let_go()
