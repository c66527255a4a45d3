"""Whose dataset this is: one pipeline of one ledger, reading one stream as it was made."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from shardlake.errors import ConflictError
from shardlake.lake.local import LocalHome
from shardlake.lake.owner import check_owner, claim_dataset, require_owner
from shardlake.plan import BatchPlan, Run, Stream

STREAM = Stream("clicks", "arn:aws:kinesis:eu-west-1:123456789012:stream/clicks", 17, 86_400_000, "eu-west-1", None)
PLAN = BatchPlan("b", "p", "live", Run("d", "r"), STREAM, "/lake", "ledger-1", 1, False, ())


@pytest.fixture
def home(tmp_path: Path) -> LocalHome:
    return LocalHome(str(tmp_path / "lake"))


def test_a_new_dataset_has_no_owner(home: LocalHome) -> None:
    assert not check_owner(home, PLAN)
    assert not home.root.exists()


def test_the_first_claim_makes_the_owner(home: LocalHome) -> None:
    claim_dataset(home, PLAN)
    assert check_owner(home, PLAN)
    assert json.loads(home.read("_shardlake/owner.json") or "") == {
        "ledger_id": "ledger-1",
        "pipeline": "p",
        "stream_arn": STREAM.arn,
        "stream_created_at_ms": 17,
    }


def test_the_owner_may_claim_again_and_the_file_stays_as_it_is(home: LocalHome) -> None:
    claim_dataset(home, PLAN)
    before = home.path("_shardlake/owner.json").stat()
    claim_dataset(home, replace(PLAN, batch_id="other"))
    assert home.path("_shardlake/owner.json").stat().st_ino == before.st_ino


def test_an_owner_whose_maker_died_before_its_name_was_on_disk_is_brought_to_disk(
    home: LocalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a claim that is content with an owner's name."""
    claim_dataset(home, PLAN)
    synced: list[str] = []
    monkeypatch.setattr(home, "sync", synced.append)
    claim_dataset(home, PLAN)
    assert synced == ["_shardlake"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(PLAN, pipeline="q"), "pipeline: expected q, found p.*the dataset belongs to another pipeline"),
        (replace(PLAN, stream=replace(STREAM, arn="arn:2")), "stream_arn: .*the pipeline now names another stream"),
        (
            replace(PLAN, stream=replace(STREAM, created_at_ms=18)),
            "stream_created_at_ms: expected 18, found 17.*the stream was deleted and made anew under its name",
        ),
        (replace(PLAN, ledger_id="ledger-2"), "ledger_id: .*the ledger is another one"),
    ],
)
def test_another_is_refused_with_the_likely_cause(home: LocalHome, other: BatchPlan, message: str) -> None:
    claim_dataset(home, PLAN)
    for refuse in (check_owner, require_owner, claim_dataset):
        with pytest.raises(ConflictError, match=message):
            refuse(home, other)


def test_whoever_is_later_in_a_race_is_refused(home: LocalHome, monkeypatch: pytest.MonkeyPatch) -> None:
    create = LocalHome.create

    def claimed_before(self: LocalHome, key: str, text: str) -> bool:
        monkeypatch.setattr(LocalHome, "create", create)
        claim_dataset(self, replace(PLAN, pipeline="quicker"))
        return create(self, key, text)

    monkeypatch.setattr(LocalHome, "create", claimed_before)
    with pytest.raises(ConflictError, match="expected p, found quicker"):
        claim_dataset(home, PLAN)


def test_a_dataset_that_lost_its_owner_is_not_published_to(home: LocalHome) -> None:
    with pytest.raises(ConflictError, match=r"has lost its _shardlake/owner.json.*its disk is not mounted"):
        require_owner(home, PLAN)


def test_a_folder_that_holds_data_of_nobody_is_not_claimed(home: LocalHome) -> None:
    home.path("data/shard_id=x").mkdir(parents=True)
    with pytest.raises(ConflictError, match=r"has files in data/ but no _shardlake/owner.json"):
        claim_dataset(home, PLAN)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"pipeline": "p"}', "null"])
def test_an_owner_file_that_cannot_be_understood_is_a_conflict(home: LocalHome, text: str) -> None:
    home.replace("_shardlake/owner.json", text)
    with pytest.raises(ConflictError, match=r"owner.json cannot be understood .*Restore it, or choose a new dataset"):
        check_owner(home, PLAN)
