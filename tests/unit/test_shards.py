"""The shard tree: which shards may be read, over many shapes of tree."""

from __future__ import annotations

import pytest

from shardlake.shards import Shard, readable


def tree(shape: str) -> dict[str, Shard]:
    """A tree from its text: `B<A` is B with the parent A, `D<B+C` a merge, each of them one word."""
    shards = {}
    for word in shape.split():
        shard_id, _, parents = word.partition("<")
        shards[shard_id] = Shard(shard_id, tuple(parents.split("+")) if parents else (), "0", "1", "1", None)
    return shards


@pytest.mark.parametrize(
    ("shape", "finished", "expected"),
    [
        pytest.param("", "", "", id="no shards"),
        pytest.param("A B C", "", "A B C", id="roots are read side by side"),
        pytest.param("A B C", "B", "A C", id="a finished shard is not read again"),
        pytest.param("A B<A C<A", "", "A", id="split: the parent first"),
        pytest.param("A B<A C<A", "A", "B C", id="split: then its children"),
        pytest.param("A B<A C<A", "A B", "C", id="split: a finished child does not hold back the other"),
        pytest.param("A B C<A+B", "", "A B", id="merge: the parents first"),
        pytest.param("A B C<A+B", "A", "B", id="merge: one parent is not enough"),
        pytest.param("A B C<A+B", "A B", "C", id="merge: then the child"),
        pytest.param("A B<A C<B D<C", "A", "B", id="generations: one after another"),
        pytest.param("A B<A C<B D<C", "A B C", "D", id="generations: the youngest last"),
        pytest.param("A B<A C<A D<B+C", "A B", "C", id="split and merged again: one half is not enough"),
        pytest.param("A B<A C<A D<B+C", "A B C", "D", id="split and merged again: then the youngest"),
        pytest.param("A B<A C<A D<B E<B F<C+E", "A B", "C D E", id="a merge across generations waits for the uncle"),
        pytest.param("A B<A C<A D<B E<B F<C+E", "A B C", "D E", id="a merge across generations waits for the elder"),
        pytest.param("A B<A C<A D<B E<B F<C+E", "A B C E", "D F", id="a merge across generations has both"),
        pytest.param("B<A C<A", "", "B C", id="a parent that was never seen holds nothing back"),
        pytest.param("B C<A+B", "", "B", id="merge: one parent never seen, the other unread"),
        pytest.param("B C<A+B", "B", "C", id="merge: one parent never seen, the other read"),
        pytest.param("C<A+B", "", "C", id="merge: both parents never seen"),
        pytest.param("A C<B", "", "A C", id="a missing link in between: the grandchild is not held back"),
        pytest.param("A B<A X Y<X", "A", "B X", id="two trees go at their own pace"),
        pytest.param("A B<A", "A B", "", id="all are finished"),
    ],
)
def test_a_shard_is_readable_once_all_its_known_parents_are_finished(shape: str, finished: str, expected: str) -> None:
    found = readable(tree(shape), set(finished.split()))
    assert " ".join(shard.shard_id for shard in found) == expected


def test_readable_shards_come_in_the_order_of_their_ids() -> None:
    assert [shard.shard_id for shard in readable(tree("C A B"), set())] == ["A", "B", "C"]


def test_a_whole_tree_is_read_in_generations() -> None:
    shards = tree("A B C<A D<A E<B+D F<C G<C H<E I<E J<G+H")
    finished: set[str] = set()
    rounds = []
    while now := [shard.shard_id for shard in readable(shards, finished)]:
        rounds.append(" ".join(now))
        finished.update(now)
    assert rounds == ["A B", "C D", "E F G", "H I", "J"]


@pytest.mark.parametrize(("missing", "expired"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_shard_counts_as_expired_when_two_listings_in_a_row_left_it_out(missing: int, expired: bool) -> None:
    assert Shard("A", (), "0", "1", "1", None, missing).expired is expired


def test_a_shard_is_closed_when_it_has_an_ending_sequence_number() -> None:
    assert Shard("A", (), "0", "1", "1", "2").closed
    assert not Shard("A", (), "0", "1", "1", None).closed
