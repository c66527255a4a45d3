"""The KPL's aggregates: unpacked exactly, and taken for what they are only where all of them says so."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable

import pytest
from aws_kinesis_agg.aggregator import AggRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlake.errors import ConflictError
from shardlake.kinesis import user_records
from shardlake.kinesis.aggregate import Aggregate, MalformedError, is_aggregate, lies_within, unpack
from shardlake.kinesis.page import Page
from shardlake.kinesis.user_records import OUTSIDE, SetAside, Unpacker, UserRecords, unpacker
from shardlake.lake.rows import rows_of
from shardlake.plan import Aggregates, BatchPlan, HashRange, Run, Stream
from support.aggregates import MAGIC, User, aggregate_of, number, protobuf, sealed, text

ALL = HashRange("s", "0", str(2**128 - 1))
LOWER = HashRange("s", "0", str(2**127 - 1))

keys = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
hash_keys = st.none() | st.integers(0, 2**128 - 1).map(str)
user_records_ = st.lists(st.tuples(keys, st.binary(max_size=50), hash_keys), min_size=1, max_size=60)


def md5_key(key: str) -> int:
    return int(hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(), 16)


class TestIsAggregate:
    def test_magic_number_and_md5_and_something_between(self) -> None:
        assert is_aggregate(aggregate_of(b"x"))
        assert is_aggregate(sealed(b"\0"))

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"", id="empty"),
            pytest.param(MAGIC, id="magic alone"),
            pytest.param(sealed(b""), id="nothing but an MD5 behind it, which is right"),
            pytest.param(MAGIC + b"\0" * 30, id="another MD5"),
            pytest.param(aggregate_of(b"x")[:-1], id="cut short"),
            pytest.param(aggregate_of(b"x") + b"x", id="with more behind it"),
            pytest.param(b"\xf2" + aggregate_of(b"x")[1:], id="another magic"),
            pytest.param(b"x" + aggregate_of(b"x"), id="not at the beginning"),
        ],
    )
    def test_all_else_is_an_ordinary_record(self, data: bytes) -> None:
        """Kills: no check of the length (`sealed(b"")`), no check of the MD5, MD5 over the magic number too."""
        assert not is_aggregate(data)

    def test_the_md5_is_of_the_protobuf_alone(self) -> None:
        """Kills: MD5 over magic number and protobuf."""
        body = protobuf([b"k"], [User(0, b"x")])
        assert not is_aggregate(MAGIC + body + hashlib.md5(MAGIC + body, usedforsecurity=False).digest())


class TestUnpack:
    def test_gives_the_user_records_in_their_order(self) -> None:
        body = protobuf([b"a", "ö".encode()], [User(1, b"1"), User(0, b""), User(1, b"\xff")])
        assert unpack(sealed(body)) == Aggregate(["ö", "a", "ö"], [None] * 3, [b"1", b"", b"\xff"])

    def test_a_record_that_names_no_explicit_hash_key_has_none(self) -> None:
        """Kills: reading the index without asking whether it is there (it reads as 0, as in aws-kinesis-agg)."""
        body = protobuf([b"a"], [User(0, b"1"), User(0, b"2", hash_key=0), User(0, b"3", hash_key=1)], [b"7", b"0"])
        assert unpack(sealed(body)).explicit_hash_keys == [None, "7", "0"]

    def test_ignores_tags_and_fields_that_nobody_knows(self) -> None:
        tags = text(4, text(1, b"key") + text(2, b"value")) + text(4, text(1, b"alone"))
        body = protobuf([b"a"], [User(0, b"1", tags=tags + number(9, 1))]) + text(15, b"later")
        assert unpack(sealed(body)) == Aggregate(["a"], [None], [b"1"])

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b"\xff", "not the protobuf of an aggregate"),
            (protobuf([b"k"], [User(0, b"x")])[:-1], "not the protobuf of an aggregate"),
            (protobuf([b"k"], [User(0, None)]), "a required field of the aggregate is missing"),
            (protobuf([b"k"], [User(None, b"x")]), "a required field of the aggregate is missing"),
            (protobuf([b"k"], [User(0, b"x", tags=text(4, text(2, b"v")))]), "a required field of the aggregate"),
            (protobuf([b"k"], [User(0, b"good"), User(1, b"x")]), "an index that lies outside"),
            (protobuf([], [User(0, b"x")]), "an index that lies outside"),
            (protobuf([b"k"], [User(2**64 - 1, b"x")]), "an index that lies outside"),
            (protobuf([b"k"], [User(0, b"x", hash_key=0)]), "an index that lies outside"),
            (protobuf([b"k"], [User(0, b"x", hash_key=1)], [b"1"]), "an index that lies outside"),
            (protobuf([b"\xff\xfe"], [User(0, b"x")]), "a key that is not UTF-8"),
            (protobuf([b"k"], [User(0, b"x")], [b"\xff"]), "a key that is not UTF-8"),
            (protobuf([b"k" * 257], [User(0, b"x")]), "a partition key of more than 256 characters"),
            *(
                (protobuf([b"k"], [User(0, b"x")], [bad]), "an explicit hash key that is not a number of 128 bits")
                for bad in (b"", b"x", b"-1", b"+1", b"01", b" 1", b"1_0", "\u0661".encode(), str(2**128).encode())
            ),
            (protobuf([b"k"], []), "an aggregate without user records"),
        ],
    )
    def test_what_is_not_as_the_format_says_is_malformed(self, body: bytes, reason: str) -> None:
        """Kills: no `IsInitialized`, no check of an index where its table is empty, `int()` as the check of a hash key,
        keys taken as the library gives them (bytes where they are not UTF-8), an empty aggregate that vanishes."""
        assert is_aggregate(sealed(body))
        with pytest.raises(MalformedError, match=f"^{reason}"):
            unpack(sealed(body))

    def test_a_partition_key_of_256_characters_is_fine_whatever_its_bytes(self) -> None:
        assert unpack(aggregate_of(b"x", key=("ö" * 256).encode())).partition_keys == ["ö" * 256]

    @settings(max_examples=300, deadline=None)
    @given(user_records_)
    def test_what_the_encoder_of_aws_packed(self, records: list[tuple[str, bytes, str | None]]) -> None:
        """Against aws-kinesis-agg. Its decoder is no oracle for explicit hash keys; its encoder leaves them out."""
        packer = AggRecord()
        for key, data, hash_key in records:
            assert packer.add_user_record(key, data, hash_key)
        partition_key, _, packed = packer.get_contents()
        assert is_aggregate(packed)
        found = unpack(packed)
        assert list(zip(found.partition_keys, found.data, found.explicit_hash_keys, strict=True)) == records
        assert lies_within(found, ALL)

    @settings(max_examples=300, deadline=None)
    @given(user_records_, st.data())
    def test_any_bytes_with_a_right_md5_are_unpacked_or_malformed(
        self, records: list[tuple[str, bytes, str | None]], data: st.DataObject
    ) -> None:
        packer = AggRecord()
        for record in records:
            packer.add_user_record(*record)
        body = bytearray(packer.get_contents()[2][4:-16])
        for _ in range(data.draw(st.integers(1, 4))):
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
        del body[data.draw(st.integers(1, len(body))) :]
        try:
            found = unpack(sealed(bytes(body)))
        except MalformedError:
            return
        page = Page(["1"], ["k"], [0], [sealed(bytes(body))], None, 0, 0)
        assert sum(map(len, Unpacker("keep", None, list[SetAside]().append).user_records([page]))) == len(found.data)


class TestHashRange:
    @pytest.mark.parametrize(("hash_key", "within"), [(9, False), (10, True), (15, True), (20, True), (21, False)])
    def test_both_ends_belong_to_the_shard(self, hash_key: int, within: bool) -> None:
        """Kills: `<` for `<=` at either end; texts compared in place of numbers."""
        aggregate = Aggregate(["a", "a"], ["15", str(hash_key)], [b"", b""])
        assert lies_within(aggregate, HashRange("s", "10", "20")) is within
        assert lies_within(Aggregate(["a"], ["9"], [b""]), HashRange("s", "10", "20")) is False

    @given(keys)
    def test_without_an_explicit_hash_key_the_partition_keys_md5_counts(self, key: str) -> None:
        """Kills: little endian; the MD5 of something else than UTF-8; one user record looked at, not all."""
        aggregate = Aggregate([key, key], [str(md5_key(key)), None], [b"", b""])
        exact = HashRange("s", str(md5_key(key)), str(md5_key(key)))
        assert lies_within(aggregate, exact)
        assert not lies_within(aggregate, HashRange("s", str(md5_key(key) + 1), str(2**128)))

    def test_an_explicit_hash_key_comes_before_the_partition_keys(self) -> None:
        """Kills: the partition key's MD5 used always."""
        assert not lies_within(Aggregate(["k"], ["5"], [b""]), HashRange("s", "6", str(2**128 - 1)))
        assert lies_within(Aggregate(["k"], ["5"], [b""]), HashRange("s", "0", "5"))


def page_of(*data: bytes) -> Page:
    rows = range(len(data))
    return Page([str(100 + row) for row in rows], [f"outer-{row}" for row in rows], list(rows), list(data), "i", 1, 0)


def unpacked(
    page: Page, mode: Aggregates | None, hash_range: HashRange | None = None
) -> tuple[list[dict[str, object]], list[SetAside], Unpacker]:
    """The rows of a page, what was set aside, and the counts."""
    aside: list[SetAside] = []
    unpacking = Unpacker(mode, hash_range, aside.append)
    pieces = [rows_of(piece, "clicks") for piece in unpacking.user_records([page])]
    return [row for piece in pieces for row in piece.to_pylist()], aside, unpacking


def told(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    names = ("sequence_number", "sub_sequence_number", "partition_key", "explicit_hash_key", "data")
    return [tuple(row[name] for name in names) for row in rows]


INSIDE_KEY, OUTSIDE_KEY = (
    next(key for key in map(str, range(99)) if (md5_key(key) < 2**127) is inside) for inside in (True, False)
)
MIXED = sealed(protobuf([INSIDE_KEY.encode(), OUTSIDE_KEY.encode()], [User(0, b"in"), User(1, b"out")]))


class TestUnpacker:
    def test_ordinary_records_and_aggregates_stay_in_order(self) -> None:
        body = protobuf([b"a", b"b"], [User(1, b"1"), User(0, b"2", hash_key=0)], [b"42"])
        page = page_of(b"x", sealed(body), MAGIC + b"no aggregate", aggregate_of(b"3"), b"y")
        rows, aside, unpacking = unpacked(page, "keep")
        assert told(rows) == [
            ("100", 0, "outer-0", None, b"x"),
            ("101", 0, "b", None, b"1"),
            ("101", 1, "a", "42", b"2"),
            ("102", 0, "outer-2", None, MAGIC + b"no aggregate"),
            ("103", 0, "k", None, b"3"),
            ("104", 0, "outer-4", None, b"y"),
        ]
        assert [row["approximate_arrival_timestamp"].microsecond for row in rows] == [0, 1000, 1000, 2000, 3000, 4000]  # type: ignore[attr-defined]
        assert (aside, unpacking.records, unpacking.quarantined, unpacking.dropped) == ([], 5, 0, 0)

    def test_a_malformed_aggregate_is_set_aside_whole(self) -> None:
        """Kills: the user records before the wrong one kept."""
        bad = sealed(protobuf([b"k"], [User(0, b"good"), User(1, b"x")]))
        for mode in ("keep", "drop", "quarantine"):
            rows, aside, unpacking = unpacked(page_of(b"x", bad, b"y"), mode, ALL)
            assert told(rows) == [("100", 0, "outer-0", None, b"x"), ("102", 0, "outer-2", None, b"y")]
            reason = "an index that lies outside of its table of keys"
            assert aside == [SetAside("101", "outer-1", 1, bad, reason)]
            assert (unpacking.records, unpacking.quarantined, unpacking.dropped) == (3, 1, 0)

    def test_keep_keeps_what_another_shard_should_have(self) -> None:
        rows, aside, unpacking = unpacked(page_of(MIXED), "keep", LOWER)
        assert ([row["data"] for row in rows], aside, unpacking.dropped) == ([b"in", b"out"], [], 0)

    def test_drop_drops_it_whole_and_counts(self) -> None:
        """Kills: only the user record outside dropped."""
        rows, aside, unpacking = unpacked(
            page_of(b"x", MIXED, aggregate_of(b"y", key=INSIDE_KEY.encode())), "drop", LOWER
        )
        assert ([row["data"] for row in rows], aside) == ([b"x", b"y"], [])
        assert (unpacking.records, unpacking.quarantined, unpacking.dropped) == (3, 0, 1)

    def test_quarantine_sets_it_aside_whole(self) -> None:
        rows, aside, unpacking = unpacked(page_of(MIXED, b"x"), "quarantine", LOWER)
        assert ([row["data"] for row in rows], aside) == ([b"x"], [SetAside("100", "outer-0", 0, MIXED, OUTSIDE)])
        assert (unpacking.records, unpacking.quarantined, unpacking.dropped) == (2, 1, 0)

    def test_ordinary_records_are_not_looked_at_by_that_rule(self) -> None:
        """Kills: the rule applied to a record's own partition key; the KCL does not either."""
        for mode in ("drop", "quarantine"):
            rows, aside, _ = unpacked(page_of(b"x"), mode, HashRange("s", "0", "0"))
            assert ([row["data"] for row in rows], aside) == ([b"x"], [])

    def test_a_plan_from_before_leaves_records_as_they_are(self) -> None:
        rows, aside, unpacking = unpacked(page_of(MIXED, sealed(b"\xff")), None)
        assert ([row["data"] for row in rows], aside, unpacking.records) == ([MIXED, sealed(b"\xff")], [], 2)

    def test_many_user_records_come_in_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills: a page handed on whole, whatever it becomes."""
        monkeypatch.setattr(user_records, "PIECE_ROWS", 10)
        page = page_of(*[aggregate_of(*[b"%d" % n for n in range(4)])] * 9, b"last")
        pieces = list(Unpacker("keep", None, list[SetAside]().append).user_records([page]))
        assert [len(piece) for piece in pieces] == [12, 12, 12, 1]
        assert [number for piece in pieces for number in piece.sequence_numbers] == [
            *(str(100 + row) for row in range(9) for _ in range(4)),
            "109",
        ]

    def test_one_large_aggregate_comes_in_pieces_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills: an aggregate handed on whole: its keys, which it has once, are there once for each user record."""
        monkeypatch.setattr(user_records, "PIECE_ROWS", 10)
        page = page_of(b"first", aggregate_of(*[b"%d" % n for n in range(25)]))
        pieces = list(Unpacker("keep", None, list[SetAside]().append).user_records([page]))
        assert [len(piece) for piece in pieces] == [11, 10, 5]
        assert [each for piece in pieces for each in piece.data] == [b"first", *(b"%d" % n for n in range(25))]
        assert [each for piece in pieces for each in piece.sub_sequence_numbers or ()] == [0, *range(25)]

    def test_a_mode_that_needs_the_hash_keys_is_not_without_them(self) -> None:
        """Kills: `drop` that keeps where the plan does not know."""
        stream = Stream("s", "arn", 1, 2, "us-east-1", None)
        plan = BatchPlan("b", "p", "live", Run("d", "r"), stream, "/l", "l", 1, False, (), aggregates="drop")
        with pytest.raises(ConflictError, match="the plan does not say the hash keys of shard-1"):
            unpacker(plan, "shard-1", list[SetAside]().append)


@pytest.mark.slow
@pytest.mark.parametrize("to_rows", [len, lambda records: rows_of(records, "clicks")], ids=["unpacked", "to Arrow"])
def test_unpacks_300_000_user_records_a_second(to_rows: Callable[[UserRecords], object]) -> None:
    source = random.Random(1)
    users = [User(row, source.randbytes(200)) for row in range(50)]
    data = sealed(protobuf([b"key-%d" % row for row in range(50)], users))
    page, best = page_of(*[data] * 200), 0.0
    for _ in range(5):
        begin = time.perf_counter()
        for records in Unpacker("keep", None, list[SetAside]().append).user_records([page]):
            to_rows(records)
        best = max(best, 10_000 / (time.perf_counter() - begin))
    print(f"{best:,.0f} user records/s")
    assert best > 150_000  # half of it: the machine may be busy
