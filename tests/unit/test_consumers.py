"""The consumer of enhanced fan-out: waited for, registered where it is missing, found again by its tag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from shardlake.errors import ConfigError, ConflictError, UnavailableError
from shardlake.kinesis.client import Consumer, Kinesis
from shardlake.kinesis.consumers import active_consumer, own_consumer
from shardlake.kinesis.failures import InUseError

STREAM_ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/clicks"
LIMIT = UnavailableError("RegisterStreamConsumer on stream clicks: LimitExceededException: ", todo="Run the step again")


@dataclass
class Service:
    """A service that answers with one status of the consumer after the other; None: it is not there."""

    statuses: list[str | None]
    tags: Mapping[str, str] = field(default_factory=dict)
    refusal: Exception | None = None
    registered: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    stream_name: str = "clicks"

    def consumers(self, stream_arn: str) -> dict[str, Consumer]:
        assert stream_arn == STREAM_ARN
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        others = {"another": Consumer(f"{STREAM_ARN}/consumer/another:1", "ACTIVE")}
        return others | ({"lake": Consumer(f"{STREAM_ARN}/consumer/lake:2", status)} if status else {})

    def register_consumer(self, stream_arn: str, name: str, tags: Mapping[str, str]) -> None:
        self.registered.append((stream_arn, name, tags))
        if self.refusal:
            raise self.refusal

    def consumer_tags(self, consumer_arn: str) -> dict[str, str]:
        assert consumer_arn == f"{STREAM_ARN}/consumer/lake:2"
        return dict(self.tags)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which take no time here and count as time all the same."""
    waits: list[float] = []

    def wait(pause_s: float) -> None:
        waits.append(pause_s)
        assert sum(waits) < 1_000, "this waits for ever"

    monkeypatch.setattr("shardlake.kinesis.consumers.time.sleep", wait)
    monkeypatch.setattr("shardlake.kinesis.consumers.time.monotonic", lambda: sum(waits))
    return waits


def active(service: Service) -> str:
    return active_consumer(cast(Kinesis, service), STREAM_ARN, "lake", "p")


class TestActiveConsumer:
    @pytest.mark.parametrize(
        ("statuses", "registrations"),
        [
            (["ACTIVE"], 0),
            (["CREATING", "CREATING", "ACTIVE"], 0),
            ([None, "CREATING", "ACTIVE"], 1),
            (["DELETING", "DELETING", None, "CREATING", "ACTIVE"], 1),
        ],
        ids=["is there", "is being made", "is missing", "is being removed"],
    )
    def test_is_waited_for_and_registered_where_it_is_missing(
        self, statuses: list[str | None], registrations: int, waits: list[float]
    ) -> None:
        service, looks = Service([*statuses]), len(statuses)
        assert active(service) == f"{STREAM_ARN}/consumer/lake:2"
        assert service.registered == [(STREAM_ARN, "lake", {"shardlake-pipeline": "p"})] * registrations
        assert waits == [2.0] * (looks - 1)

    def test_another_run_may_be_quicker(self) -> None:
        service = Service([None, "CREATING", "ACTIVE"], refusal=InUseError("it exists"))
        assert active(service) == f"{STREAM_ARN}/consumer/lake:2"

    def test_a_stream_with_as_many_as_it_may_have(self) -> None:
        service = Service([None], refusal=LIMIT)
        with pytest.raises(
            UnavailableError, match=r"^consumer lake of stream clicks cannot be registered: .*LimitExceeded.* how many"
        ):
            active(service)
        assert len(service.registered) == 1

    @pytest.mark.parametrize(("status", "found"), [("CREATING", "CREATING"), ("DELETING", "DELETING"), (None, "none")])
    def test_waiting_has_an_end(self, status: str | None, found: str, waits: list[float]) -> None:
        said = f"consumer lake of stream clicks is not ready after 120 s: found {found}"
        with pytest.raises(UnavailableError, match=said):
            active(Service([status]))
        assert 120 < sum(waits) <= 124


class TestOwnConsumer:
    def test_carries_the_pipelines_tag(self) -> None:
        service = Service(["ACTIVE"], {"shardlake-pipeline": "p", "team": "lake"})
        assert own_consumer(cast(Kinesis, service), STREAM_ARN, "lake", "p").arn == f"{STREAM_ARN}/consumer/lake:2"

    @pytest.mark.parametrize(
        ("tags", "found"), [({}, "no such tag"), ({"team": "p"}, "no such tag"), ({"shardlake-pipeline": "q"}, "q")]
    )
    def test_another_is_refused(self, tags: dict[str, str], found: str) -> None:
        with pytest.raises(ConflictError, match=f"not registered for pipeline p: .* to say p, found {found}"):
            own_consumer(cast(Kinesis, Service(["ACTIVE"], tags)), STREAM_ARN, "lake", "p")

    def test_one_that_is_not_there(self) -> None:
        with pytest.raises(ConfigError, match="^stream clicks has no consumer lake$"):
            own_consumer(cast(Kinesis, Service([None])), STREAM_ARN, "lake", "p")
