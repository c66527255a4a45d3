"""Reading a range by enhanced fan-out, against an HTTP/2 server: the same records as by polling, whatever happens.

What the service does not document is tried in several ways; see docs/adr/0011.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from local_kinesis.process import LocalKinesis
from shardlake.backfill import Request
from shardlake.batch import Steps
from shardlake.errors import ConfigError, DataLossError, UnavailableError
from shardlake.kinesis.budget import Budget
from shardlake.kinesis.client import Kinesis
from shardlake.kinesis.fan_out import fan_out
from shardlake.kinesis.reader import read_range
from shardlake.ledger.memory import MemoryLedger
from shardlake.plan import Run
from shardlake.ranges import SHARD_END, SequenceNumber, SequenceRange, Start, Through
from support.connect_proxy import connect_proxy
from support.fan_out_server import FanOutServer, Fate, Subscription, fan_out_server

if TYPE_CHECKING:
    from tests.integration.conftest import World

SHARD = "shardId-000000000000"
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def shared_server(shared_kinesis: LocalKinesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FanOutServer]:
    with fan_out_server(shared_kinesis.endpoint_url, tmp_path_factory.mktemp("fan-out")) as server:
        yield server


@pytest.fixture
def server(shared_server: FanOutServer, monkeypatch: pytest.MonkeyPatch) -> FanOutServer:
    """The module's server, which has heard nothing yet; what has to be waited for is waited for no longer."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(shared_server.ca_file))
    monkeypatch.setattr("shardlake.kinesis.fan_out.BETWEEN_S", 0.0)
    monkeypatch.setattr("shardlake.kinesis.consumers.POLL_S", 0.0)
    shared_server.reset()
    return shared_server


@pytest.fixture
def make(server: FanOutServer, make_world: Callable[..., World]) -> Callable[..., World]:
    """Makes streams that are read by enhanced fan-out."""

    def make(shards: int = 1, **settings: object) -> World:
        fan_out = {"consumer": {"enhanced_fan_out": "lake"}, "endpoint_url": server.endpoint_url}
        return make_world(shards, **{**fan_out, **settings})

    return make


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


def records(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def texts(numbers: list[SequenceNumber]) -> list[str]:
    return [number.text for number in numbers]


def at(number: SequenceNumber, through: Through) -> SequenceRange:
    return SequenceRange(SHARD, Start("AT", number), through, number)


def arn(world: World) -> str:
    return f"{world.kinesis.describe()[0].arn}/consumer/lake:1"


def read(world: World, range_: SequenceRange) -> list[str]:
    """The numbers that reading a range gives."""
    pages = list(read_range(world.kinesis, range_, DAY_MS, consumer_arn=arn(world)))
    assert all(len(page) for page in pages)
    return [number for page in pages for number in page.sequence_numbers]


def begun_at(server: FanOutServer) -> list[str]:
    return [subscription.at for subscription in server.subscriptions]


class TestExactRanges:
    @pytest.mark.parametrize("event_records", [1, 3, 4])
    def test_through_may_lie_anywhere_in_an_event(self, world: World, server: FanOutServer, event_records: int) -> None:
        numbers = world.put(*records(12))
        server.event_records = event_records
        for last in (1, 2, 5, 11):
            assert read(world, at(numbers[1], numbers[last])) == texts(numbers[1 : last + 1])
        assert begun_at(server) == [numbers[1].text] * 4

    def test_events_hold_what_was_put(self, world: World) -> None:
        numbers = world.put(b"a", b"", b"\x00\xff")
        (page,) = read_range(world.kinesis, at(numbers[0], numbers[2]), DAY_MS, consumer_arn=arn(world))
        assert (page.data, page.partition_keys) == ([b"a", b"", b"\x00\xff"], ["k"] * 3)
        assert abs(page.arrivals_ms[0] - page.service_time_ms) <= 2_000

    def test_empty_events_are_followed(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(5))
        server.fates = [Fate(empty=25)]
        assert read(world, at(numbers[0], numbers[4])) == texts(numbers)
        assert len(server.subscriptions) == 1

    def test_a_closed_shard_is_read_to_its_end(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(10))
        world.split(0)
        server.event_records = 4
        assert read(world, at(numbers[4], SHARD_END)) == texts(numbers[4:])
        assert len(server.subscriptions) == 1

    def test_a_reader_that_stops_early_closes_its_connection(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(5))
        server.event_records = 2
        pages = read_range(world.kinesis, at(numbers[0], numbers[4].plus(1)), DAY_MS, consumer_arn=arn(world))
        assert next(pages).sequence_numbers == texts(numbers[:2])
        (subscription,) = server.subscriptions
        assert not subscription.closed.wait(0.1)
        del pages
        assert subscription.closed.wait(5)

    def test_a_range_that_is_read_leaves_no_subscription_behind(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(5))
        read(world, at(numbers[0], numbers[4]))
        assert server.subscriptions[0].closed.wait(5)

    @pytest.mark.slow
    def test_a_slow_reader_holds_back_the_sender(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*[bytes(2**20 - 10)] * 4)
        for _ in range(5):
            numbers += world.put(*[bytes(2**20 - 10)] * 4)
        server.event_records = 2
        pages = read_range(world.kinesis, at(numbers[0], numbers[-1]), DAY_MS, consumer_arn=arn(world))
        next(pages)
        given = 0
        while given != (given := len(server.subscriptions[0].given)):
            time.sleep(0.3)
        assert given < len(numbers)
        assert 2 + sum(map(len, pages)) == len(numbers)
        assert len(server.subscriptions) == 1

    def test_new_records_are_progress_and_a_record_given_again_is_none(
        self, world: World, server: FanOutServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = world.put(*records(4))
        renewals: list[int] = []
        monkeypatch.setattr(Budget, "renew", lambda budget: renewals.append(len(server.subscriptions)))
        server.event_records = 1
        server.fates = [Fate(events=2)]
        pages = fan_out(world.kinesis, arn(world), SHARD, numbers[0], lambda number: iter(()))
        assert [next(pages).sequence_numbers for _ in range(4)] == [[number.text] for number in numbers]
        assert renewals == [1, 1, 2, 2]


class TestRenewal:
    def test_each_subscription_begins_at_the_last_record_read_which_is_dropped(
        self, world: World, server: FanOutServer
    ) -> None:
        numbers = world.put(*records(12))
        server.event_records = 2
        server.fates = [Fate(events=2), Fate(events=3), Fate(events=1)]
        assert read(world, at(numbers[0], numbers[11])) == texts(numbers)
        assert begun_at(server) == texts([numbers[0], numbers[3], numbers[8], numbers[9]])

    def test_records_between_two_subscriptions_are_not_missed(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(2))
        put: list[SequenceNumber] = []

        def more(subscription: Subscription) -> None:
            if len(server.subscriptions) == 2:
                put.extend(world.put(*records(3)))

        server.before = more
        server.fates = [Fate(events=1)]
        pages = read_range(world.kinesis, at(numbers[0], SHARD_END), DAY_MS, consumer_arn=arn(world))
        assert next(pages).sequence_numbers == texts(numbers)
        assert next(pages).sequence_numbers == texts(put)

    @pytest.mark.parametrize(
        ("before", "kept"), [(4, True), (5, False), (9, False)], ids=["the last is kept", "the last is gone", "more is"]
    )
    def test_a_trim_in_between_is_told(self, world: World, server: FanOutServer, before: int, kept: bool) -> None:
        numbers = world.put(*records(10))

        def trim(subscription: Subscription) -> None:
            if len(server.subscriptions) == 2:
                world.trim(before=numbers[before])

        server.before, server.event_records = trim, 5
        server.fates = [Fate(events=1)]
        if kept:
            assert read(world, at(numbers[0], numbers[9])) == texts(numbers)
        else:
            with pytest.raises(DataLossError, match=f"expected {numbers[4]}, found {numbers[before]} as the oldest"):
                read(world, at(numbers[0], numbers[9]))

    @pytest.mark.parametrize(
        "ending",
        [
            "expire",
            "reset",
            "goaway",
            "lose",
            "damage",
            "talk nonsense",
            "InternalFailureException",
            "KMSThrottlingException",
        ],
    )
    def test_however_a_subscription_ends_the_next_goes_on(
        self, world: World, server: FanOutServer, ending: str
    ) -> None:
        numbers = world.put(*records(9))
        server.event_records = 3
        server.fates = [Fate(events=1, ending=ending), Fate(events=1, ending=ending)]
        assert read(world, at(numbers[0], numbers[8])) == texts(numbers)
        assert begun_at(server) == texts([numbers[0], numbers[2], numbers[4]])

    def test_a_server_that_falls_silent_is_left(
        self, world: World, server: FanOutServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shardlake.kinesis.http2.SILENCE_S", 0.3)
        numbers = world.put(*records(4))
        server.event_records = 2
        server.fates = [Fate(events=1, ending="fall silent")]
        assert read(world, at(numbers[0], numbers[3])) == texts(numbers)
        assert begun_at(server) == texts([numbers[0], numbers[1]])
        assert server.subscriptions[0].closed.wait(5)


class TestPollingTheRest:
    @pytest.mark.parametrize(
        ("fates", "subscriptions"),
        [
            ([Fate(events=0, ending="reset")] * 2, 2),
            ([Fate(events=0)] * 2, 2),
            ([Fate(empty=3, events=0)] * 2, 2),
            ([Fate(refused="ResourceInUseException")] * 2, 2),
            ([Fate(refused="KMSThrottlingException")] * 2, 2),
            ([Fate(refused="ResourceNotFoundException")] * 2, 2),
            ([Fate(refused="InvalidArgumentException")] * 2, 2),
            ([Fate(events=1), Fate(events=0), Fate(events=0)], 3),
            ([Fate(events=1, ending="ResourceInUseException")], 1),
            ([Fate(events=1, ending="pretend the end")], 1),
        ],
        ids=[
            *(
                "reset",
                "nothing",
                "nothing but empty events",
                "refused",
                "throttled",
                "no such consumer",
                "no such position",
            ),
            *("nothing new", "taken over", "an end that is none"),
        ],
    )
    @pytest.mark.parametrize("through", ["a number", "the end"])
    def test_where_fan_out_gets_no_further(
        self, world: World, server: FanOutServer, fates: list[Fate], subscriptions: int, through: str
    ) -> None:
        numbers = world.put(*records(9))
        server.event_records, server.fates = 1, [*fates]
        end: Through = numbers[8]
        if through == "the end":
            world.split(0)
            end = SHARD_END
        assert read(world, at(numbers[0], end)) == texts(numbers)
        assert [each.closed.wait(5) for each in server.subscriptions] == [True] * subscriptions

    def test_failures_with_records_in_between_are_no_reason(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(8))
        server.event_records = 2
        server.fates = [
            *(Fate(refused="ResourceInUseException"), Fate(events=1, ending="reset"), Fate(events=1)),
            *(Fate(events=0), Fate(events=2, ending="reset"), Fate(refused="ResourceInUseException")),
        ]
        assert read(world, at(numbers[0], numbers[7])) == texts(numbers)
        assert len(server.subscriptions) == 7

    def test_a_refused_reader_waits_until_it_may_take_over(
        self, world: World, server: FanOutServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits: list[float] = []
        monkeypatch.setattr("shardlake.kinesis.fan_out.time.sleep", waits.append)
        monkeypatch.setattr("shardlake.kinesis.fan_out.BETWEEN_S", 5.0)
        numbers = world.put(*records(3))
        server.event_records = 2
        server.fates = [Fate(refused="ResourceInUseException"), Fate(events=1)]
        assert read(world, at(numbers[0], numbers[2])) == texts(numbers)
        assert waits == [5.0]  # none before the first, nor to renew one that gave records

    def test_polling_goes_on_behind_the_last_record(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(9))
        server.event_records = 3
        server.fates = [Fate(events=2, ending="ResourceInUseException")]
        pages = read_range(world.kinesis, at(numbers[0], numbers[8]), DAY_MS, consumer_arn=arn(world))
        assert [page.sequence_numbers for page in pages] == [
            texts(numbers[:3]),
            texts(numbers[3:6]),
            texts(numbers[6:]),
        ]

    def test_empty_events_without_end_are_left(
        self, world: World, server: FanOutServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shardlake.kinesis.fan_out.PATIENCE_S", 0.2)
        numbers = world.put(*records(4))
        server.fates = [Fate(empty=20_000)]
        assert read(world, at(numbers[0], numbers[3])) == texts(numbers)
        (subscription,) = server.subscriptions
        assert subscription.closed.wait(5)
        assert subscription.given == []

    def test_a_beginning_that_is_gone_is_told_by_polling(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(6))
        world.trim(before=numbers[2])
        with pytest.raises(DataLossError, match=f"expected {numbers[0]}, found {numbers[2]} as the oldest"):
            read(world, at(numbers[0], numbers[5]))
        assert len(server.subscriptions) == 1

    def test_it_is_said_in_the_log(self, world: World, server: FanOutServer, caplog: pytest.LogCaptureFixture) -> None:
        numbers = world.put(*records(2))
        server.event_records = 1
        server.fates = [Fate(events=1, ending="ResourceInUseException")]
        with caplog.at_level(logging.INFO, "shardlake.kinesis.fan_out"):
            read(world, at(numbers[0], numbers[1]))
        ended, polled = caplog.messages
        assert ended.startswith(f"the subscription to {SHARD} from {numbers[0]} has ended: SubscribeToShard on stream")
        assert polled == f"{SHARD} is polled from {numbers[0]} on"


class TestWhatAPersonHasToPutRight:
    def test_no_access(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(2))
        server.fates = [Fate(refused="AccessDeniedException")]
        with pytest.raises(ConfigError, match="no access: SubscribeToShard .* AccessDeniedException"):
            read(world, at(numbers[0], numbers[1]))

    def test_a_server_without_http2(
        self, world: World, shared_kinesis: LocalKinesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = world.put(*records(2))
        with fan_out_server(shared_kinesis.endpoint_url, tmp_path, speaks=("http/1.1",)) as server:
            monkeypatch.setenv("AWS_CA_BUNDLE", str(server.ca_file))
            world.settings["endpoint_url"] = server.endpoint_url
            with pytest.raises(ConfigError, match=r"needs HTTP/2, which is not to be had at .*: found HTTP/1\.1"):
                read(world, at(numbers[0], numbers[1]))

    @pytest.mark.parametrize("package", ["httpx2", "h2"])
    def test_a_missing_package(self, world: World, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
        numbers = world.put(*records(2))
        for name in [package, f"{package}.exceptions"]:
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ConfigError, match=rf"and {package}\S* is not installed\. Install httpx2\[http2\]"):
            read(world, at(numbers[0], numbers[1]))


class TestTheWay:
    """What boto3 knows of credentials, trust and proxies holds for HTTP/2, too. The server checks every signature."""

    def test_a_sessions_token_goes_along(self, world: World, server: FanOutServer) -> None:
        numbers = world.put(*records(2))
        session = boto3.Session("test", "test", "a-token")
        kinesis = Kinesis(world.stream, "us-east-1", server.endpoint_url, session)
        list(read_range(kinesis, at(numbers[0], numbers[1]), DAY_MS, consumer_arn=arn(world)))
        (subscription,) = server.subscriptions
        assert subscription.headers["x-amz-security-token"] == "a-token"
        assert subscription.given == texts(numbers)

    @pytest.mark.parametrize("variable", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", None])
    def test_the_server_is_trusted_as_botocore_does(
        self, world: World, server: FanOutServer, monkeypatch: pytest.MonkeyPatch, variable: str | None
    ) -> None:
        (number,) = world.put(b"a")
        kinesis, consumer = world.kinesis, arn(world)
        monkeypatch.delenv("AWS_CA_BUNDLE")
        if variable:
            monkeypatch.setenv(variable, str(server.ca_file))
            assert next(kinesis.subscribe(consumer, SHARD, number)).sequence_numbers == [number.text]
        else:
            with pytest.raises(UnavailableError, match="HTTP/2 connection to .* failed .*CERTIFICATE_VERIFY_FAILED"):
                next(kinesis.subscribe(consumer, SHARD, number))

    def test_the_proxy_is_botocores(self, world: World, server: FanOutServer, monkeypatch: pytest.MonkeyPatch) -> None:
        (number,) = world.put(b"a")
        kinesis, consumer = world.kinesis, arn(world)
        with connect_proxy() as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:secret@"))
            for name in ("NO_PROXY", "no_proxy", "https_proxy"):
                monkeypatch.delenv(name, raising=False)
            assert next(kinesis.subscribe(consumer, SHARD, number)).sequence_numbers == [number.text]
            host = server.endpoint_url.removeprefix("https://")
            assert proxy.asked == [f"CONNECT {host} Basic bWU6c2VjcmV0"]
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            assert next(kinesis.subscribe(consumer, SHARD, number)).sequence_numbers == [number.text]
            assert len(proxy.asked) == 1


class TestBatches:
    @pytest.mark.slow
    def test_files_are_those_of_polling_byte_for_byte(self, make: Callable[..., World], server: FanOutServer) -> None:
        world = make(2, max_range_bytes=20_000)
        polled = replace(world, root=world.root.with_name("polled"), settings={}, ledger=MemoryLedger())
        server.event_records = 100
        server.fates = [Fate(events=2), Fate(events=1, ending="reset"), Fate(events=1, ending="ResourceInUseException")]
        for run in range(2):
            world.produce(700)
            world.split(run)
            world.produce(300)
            for each in (world, polled):
                each.acknowledged = world.acknowledged
                each.run_until_caught_up(f"run-{run}")
        assert len(server.subscriptions) > 6
        world.assert_every_record_is_there_once()
        assert list(world.files()) == list(polled.files()) != []
        assert world.files() == polled.files()

    def test_the_consumer_is_registered_once_and_pinned(self, world: World, server: FanOutServer) -> None:
        world.produce(10)
        plan, done = world.run()
        assert done is not None
        stream_arn = world.kinesis.describe()[0].arn
        (consumer,) = world.kinesis.consumers(stream_arn).values()
        assert (plan.consumer_arn, consumer.status) == (consumer.arn, "ACTIVE")
        assert world.kinesis.consumer_tags(consumer.arn) == {"shardlake-pipeline": "p"}
        assert [s.request["ConsumerARN"] for s in server.subscriptions] == [consumer.arn]
        world.produce(10)
        assert world.plan("run-2").consumer_arn == consumer.arn
        assert server.forwarded.count("RegisterStreamConsumer") == 1

    def test_a_batch_without_ranges_registers_nothing(self, world: World, server: FanOutServer) -> None:
        assert world.plan().consumer_arn is None
        assert "RegisterStreamConsumer" not in server.forwarded

    def test_a_consumer_that_is_gone_again_is_not_missed(self, world: World, server: FanOutServer) -> None:
        """A batch that is cleared after the consumer was deregistered."""
        world.produce(10)
        plan = world.plan()
        assert plan.consumer_arn
        world.kinesis.deregister_consumer(plan.consumer_arn)
        server.fates = [Fate(refused="ResourceNotFoundException")] * 2
        world.run()
        world.assert_every_record_is_there_once()

    def test_backfill_polls(self, world: World, server: FanOutServer) -> None:
        world.produce(10)
        world.run()
        server.reset()
        steps = Steps(world.pipeline, world.ledger, namespace="b")
        steps.open_backfill(Request())
        plan = steps.plan(Run("dag", "b"))
        assert len(list(plan.ranges)) == 1
        assert plan.consumer_arn is None
