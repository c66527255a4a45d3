"""What happens at one stroke in a simulated world: things that come together rarely where each comes by chance."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from simulation.machine import again, indexes, seeds, some_kinds
from simulation.people import People
from simulation.producer import Kind

PUBLISHED = ("link lake-p/data/", "replace lake-p/data/", "s3 PUT lake-p/data/")
PINNED, READ, COMMITTED = ("ledger pin ",), ("GetRecords ",), ("ledger commit ",)
STOPS = (PINNED, PINNED, ("ledger record_listing ",), ("ledger chains ",), READ, PUBLISHED, PUBLISHED, COMMITTED)
"""Before which effects a process may hang."""

more_kinds = st.lists(st.sampled_from(["plain", "plain", "aggregate"]), min_size=3, max_size=6)


class Events(People):  # type: ignore[misc]
    """What befalls runs."""

    @rule(shard=indexes, some=some_kinds)
    def put_and_run(self, shard: int, some: list[Kind]) -> None:
        self.put(shard, some)
        self.whole_run()

    @rule(shard=indexes, some=more_kinds, back=again, seed=seeds)
    def two_at_once(self, shard: int, some: list[Kind], back: int | None, seed: int) -> None:
        self.put(shard, some[:1])
        self.start(None, "run", seed % 60)
        self.put(shard, some[1:])
        self.new(back=back)
        self.go_on_with(self.by_turns(seed))

    @rule(shard=indexes, some=more_kinds, stop=st.sampled_from(STOPS), back=st.sampled_from([None, 0]), times=indexes)
    def overtaken(self, shard: int, some: list[Kind], stop: tuple[str, ...], back: int | None, times: int) -> None:
        """A process hangs before an effect, another one goes through meanwhile, and then it goes on."""
        self.put(shard, some[:2])
        zombie = self.new()
        self.until(zombie, *stop, times=1 + times % 3)
        self.put(shard, some[2:])
        if back is None:
            self.whole_run()
        else:
            self.finish(self.new(back=back))
        self.finish(zombie)

    @rule(shard=indexes, some=more_kinds)
    def planned_late(self, shard: int, some: list[Kind]) -> None:
        """What a run has looked at, another one has read by the time it is pinned."""
        self.overtaken(shard, some, PINNED, None, 0)

    @rule(shard=indexes, some=more_kinds)
    def published_late(self, shard: int, some: list[Kind]) -> None:
        """What a task is about to publish, its retry has published."""
        self.overtaken(shard, some, PUBLISHED, 0, 0)

    @rule(shard=indexes, some=more_kinds, stop=st.sampled_from(STOPS[2:]), again=st.booleans())
    def killed_before(self, shard: int, some: list[Kind], stop: tuple[str, ...], again: bool) -> None:
        """A process is killed before an effect; the next run goes on from there, and the old one, maybe, after that."""
        self.put(shard, some[:1])
        task = self.new()
        self.until(task, *stop)
        if task.before is not None:
            self.world.kill(task)
        self.put(shard, some[1:])
        self.whole_run()
        if again:
            self.finish(self.new(back=1))

    @rule(shard=indexes, some=more_kinds, times=st.integers(2, 4))
    def reading_stalls(self, shard: int, some: list[Kind], times: int) -> None:
        """An iterator expires between two pages."""
        self.put(shard, some)
        self.put(shard, some)
        reader = self.new()
        self.until(reader, *PINNED)
        self.until(reader, *READ, times=times)
        if reader.before is not None:
            self.world.clock.advance(400)
            self.count("expired iterators")
        self.finish(reader)

    @rule(
        shard=indexes,
        some=more_kinds,
        runs=st.integers(0, 2),
        long=st.sampled_from([13, 23, 25, 25]),
        raised=st.booleans(),
    )
    def outage(self, shard: int, some: list[Kind], runs: int, long: float, raised: bool) -> None:
        """Nobody runs the pipeline for so long that records come and go.

        Where what is left is kept for longer then, somebody had noted before that nothing was there.
        """
        self.put(shard, some[:1])
        for _ in range(2 if raised else runs):
            self.whole_run()
        self.wait(1)
        self.put(shard, some[1:2])
        self.wait(25 if raised else long)
        if raised:
            self.keep_for(48)
        self.put(shard, some[2:])
        self.wait(13)
        self.whole_run()

    @rule(
        shard=indexes,
        some=more_kinds,
        stop=st.sampled_from([("ledger batch ",), READ, READ, PUBLISHED]),
        times=st.integers(1, 3),
    )
    def trimmed_under_way(self, shard: int, some: list[Kind], stop: tuple[str, ...], times: int) -> None:
        """A range is pinned, and its beginning is gone before it is read; or between two of its records."""
        self.whole_run()
        self.put(shard, some[:2])
        self.wait(0.6)
        self.put(shard, some[2:])
        behaviour = self.world.service.behaviour
        page_limit, behaviour.page_limit = behaviour.page_limit, 1
        reader = self.new()
        self.until(reader, *PINNED)
        self.go_on_with(lambda: reader, 1)
        self.until(reader, *stop, times=times)
        self.wait(self.world.producer.retention_ms / 3_600_000 - 0.3)
        self.finish(reader)
        behaviour.page_limit = page_limit
        self.whole_run()

    @rule(shard=indexes, some=some_kinds, days=st.integers(1, 3))
    def idle_for_days(self, shard: int, some: list[Kind], days: int) -> None:
        """Nothing comes for longer than the retention, and runs go on as always."""
        self.put(shard, some)
        for _ in range(2 * days):
            self.whole_run()
            self.wait(17)
        self.put(shard, some)
        self.whole_run()
