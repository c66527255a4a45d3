"""A stream by its ARN, and one of another account, read in a role: by whom, as whom, and what is told if it fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from demo.ports import free_ports
from local_kinesis.process import LocalKinesis
from shardlake.batch import Steps
from shardlake.errors import ConfigError, IngestError, ShardlakeError, UnavailableError
from shardlake.kinesis.client import Kinesis
from shardlake.names import LIVE
from shardlake.plan import Role, Run
from shardlake.roles import assumed
from support.account import EXTERNAL_ID, ROLE, Account, account_of, given, refused
from support.command_line import entry_of, write_config
from support.inline_engine import InlineEngine

if TYPE_CHECKING:
    from tests.integration.conftest import World

IN_ROLE = {"role_arn": ROLE, "external_id": EXTERNAL_ID}
POLICY = {"DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"}
"""What README grants on a stream."""


def arn_of(world: World) -> str:
    return f"arn:aws:kinesis:us-east-1:000000000000:stream/{world.stream}"


@pytest.fixture
def account(shared_kinesis: LocalKinesis, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    with account_of(shared_kinesis.endpoint_url) as account:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", account.endpoint_url)
        assumed.cache_clear()
        yield account


@pytest.fixture
def world(make_world: Callable[..., World], account: Account) -> World:
    """A stream of another account, which has records."""
    world = make_world(2, endpoint_url=account.endpoint_url, stream_role=IN_ROLE)
    world.produce(60)
    return world


class TestArn:
    def test_every_call_carries_it_and_no_name(
        self, make_world: Callable[..., World], shared_kinesis: LocalKinesis, account: Account
    ) -> None:
        world = make_world(2, endpoint_url=account.endpoint_url, stream_role=IN_ROLE)
        world.settings["stream"] = arn_of(world)
        world.produce(60)
        world.run()
        world.assert_every_record_is_there_once()
        assert {(call.request.get("StreamARN"), "StreamName" in call.request) for call in account.calls} == {
            (arn_of(world), False)
        }
        assert account.operations() == POLICY

    def test_of_a_stream_is_the_same_stream_as_its_name(self, make_world: Callable[..., World]) -> None:
        world = make_world()
        world.produce(20)
        world.run("by name")
        world.settings["stream"] = arn_of(world)
        world.produce(20)
        world.run("by its ARN")
        del world.settings["stream"]
        world.produce(20)
        world.run("by name again")
        world.assert_every_record_is_there_once()

    def test_of_another_account_is_not_there(self, make_world: Callable[..., World]) -> None:
        world = make_world()
        arn = arn_of(world).replace("000000000000", "111111111111")
        world.settings["stream"] = arn
        with pytest.raises(ConfigError, match=rf"stream {world.stream} is not there, .*{arn}.*Check stream, region"):
            world.plan()
        assert not world.root.exists()

    def test_of_another_partition_is_refused_without_a_call(self) -> None:
        kinesis = Kinesis("arn:aws-cn:kinesis:us-east-1:123456789012:stream/s", "us-east-1", None)
        with pytest.raises(ConfigError, match="cannot be used: Partition: aws-cn from ARN doesn't match .*: aws"):
            kinesis.describe()


class TestRole:
    def test_is_assumed_once_for_all_calls_of_a_process(self, world: World, account: Account) -> None:
        world.run("run-1")
        world.produce(60)
        world.run("run-2")
        world.assert_every_record_is_there_once()
        (asked,) = account.asked
        assert (asked.key_id, asked.region) == ("test", "us-east-1")
        assert asked.request == {"RoleArn": ROLE, "ExternalId": EXTERNAL_ID, "RoleSessionName": "shardlake-p"}
        assert {call.key_id for call in account.calls} == set(account.issued)

    def test_is_assumed_by_the_credentials_of_a_connection_also_in_the_job(
        self, world: World, account: Account
    ) -> None:
        account.caller = "AKIACONNECTION"
        steps = Steps(world.pipeline, world.ledger, boto3.Session(account.caller, "secret"))
        steps.run(Run("dag", "run"), InlineEngine(), lambda line: None)
        world.assert_every_record_is_there_once()
        assert [asked.key_id for asked in account.asked] == [account.caller] * 2  # here, and where the job runs

    def test_is_assumed_in_a_session_of_the_name_told(self, world: World, account: Account) -> None:
        world.settings["stream_role"] = {**IN_ROLE, "session_name": "team@lake"}
        world.plan()
        assert [asked.request["RoleSessionName"] for asked in account.asked] == ["team@lake"]

    def test_is_pinned_with_the_plan_its_credentials_are_not(self, world: World, account: Account) -> None:
        plan, _ = world.run()
        assert plan.stream.role == Role(ROLE, EXTERNAL_ID, "shardlake-p")
        assert account.issued
        written = b"".join(path.read_bytes() for path in world.root.rglob("*") if path.is_file())
        assert ROLE.encode() in written
        assert not [key for key in account.issued if key.encode() in written]

    def test_is_assumed_again_before_its_credentials_expire(
        self, make_world: Callable[..., World], account: Account
    ) -> None:
        account.life_s = 300
        world = make_world(endpoint_url=account.endpoint_url, stream_role=IN_ROLE)
        world.produce(30)
        world.run()
        world.assert_every_record_is_there_once()
        assert len({call.key_id for call in account.calls}) == len(account.calls) > 6

    def test_is_taken_by_every_command_with_these_calls_and_no_other(
        self, world: World, account: Account, tmp_path: Path
    ) -> None:
        settings = {"endpoint_url": account.endpoint_url, "stream_role": IN_ROLE}
        shardlake = write_config(tmp_path / "p.yaml", p=entry_of(world, **settings))
        told: dict[str, set[str]] = {}

        def tell(*line: str) -> None:
            result = shardlake(*line)
            assert result.exit_code == 0, result.output
            told[line[0]] = account.operations()

        tell("plan", "p", "--dry-run")
        tell("run", "p")
        world.assert_rows_are_those_acknowledged()
        tell("status", "p")
        tell("audit", "p")
        tell("backfill", "p")
        next((world.root / "lake" / "data").rglob("*.parquet")).unlink()
        tell("repair", "p", "--reason", "x", "--yes")
        world.assert_rows_are_those_acknowledged()
        world.produce(10)
        tell("plan", "p", "--dry-run")
        for command in ("ranges", "files", "backfills", "journal"):
            tell(command, "p")
        assert set().union(*told.values()) == POLICY
        assert [command for command, made in told.items() if not made] == ["ranges", "files", "backfills", "journal"]

    @pytest.mark.parametrize(
        ("keys", "with_"),
        [
            ({"role_arn": ROLE}, "no external id"),
            ({"role_arn": ROLE, "external_id": "lake:43"}, "the external id lake:43"),
            ({"role_arn": f"{ROLE}s", "external_id": EXTERNAL_ID}, f"the external id {EXTERNAL_ID}"),
        ],
        ids=["no external id", "another external id", "another role"],
    )
    def test_that_is_refused_is_told_before_anything_is_written(
        self, world: World, account: Account, keys: dict[str, str], with_: str
    ) -> None:
        world.settings["stream_role"] = keys
        with pytest.raises(ConfigError) as caught:
            world.plan()
        assert str(caught.value) == (
            f"no access: role {keys['role_arn']} is not assumed, with {with_}: AccessDenied: so told. Check role_arn"
            " and external_id, whom the role's trust policy names, and that the caller is granted sts:AssumeRole on it"
        )
        assert not world.root.exists()
        assert world.ledger.chains("p", LIVE) == {}
        assert (len(account.asked), account.calls) == (1, [])

    @pytest.mark.parametrize(
        ("status", "code", "error", "said"),
        [
            (403, "InvalidClientTokenId", ConfigError, "Check the credentials that it is assumed with: the default"),
            (403, "SignatureDoesNotMatch", ConfigError, "Check the credentials that it is assumed with: the default"),
            (403, "ExpiredToken", IngestError, "The AWS credentials have expired: run the step again with new"),
            (403, "RegionDisabledException", ConfigError, "RegionDisabledException: so told"),
            (400, "ValidationError", ConfigError, "ValidationError: so told"),
        ],
    )
    def test_that_cannot_be_assumed_is_told_by_its_cause(
        self, world: World, account: Account, status: int, code: str, error: type[ShardlakeError], said: str
    ) -> None:
        account.answers = [(status, refused(code))]
        with pytest.raises(error, match=f"role {ROLE} is not assumed, with the external id lake:42: .*{said}"):
            world.plan()
        assert len(account.asked) == 1

    @pytest.mark.parametrize(("status", "code"), [(400, "Throttling"), (500, "InternalFailure"), (503, "Unavailable")])
    def test_is_asked_for_again_as_long_as_the_budget_lasts(
        self, world: World, account: Account, monkeypatch: pytest.MonkeyPatch, status: int, code: str
    ) -> None:
        monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
        account.answers = [(status, refused(code))] * 7
        world.run()
        assert len(account.asked) == 8
        world.assert_every_record_is_there_once()

    @pytest.mark.parametrize("reply", ["", given("ASIABROKEN", 60)[:-150]], ids=["empty", "cut"])
    def test_whose_reply_breaks_off_may_be_asked_for_again_and_no_secret_is_told(
        self, account: Account, caplog: pytest.LogCaptureFixture, reply: str
    ) -> None:
        session = assumed(boto3.Session(account.caller, "secret"), Role(ROLE, EXTERNAL_ID, "name"), "eu-west-1")
        account.answers = [(200, reply)]
        with pytest.raises(UnavailableError, match=f"STS, asked for role {ROLE}, .*: its reply breaks off") as caught:
            session.get_credentials().get_frozen_credentials()
        told = "".join(traceback.format_exception(caught.value)) + caplog.text
        assert "during mandatory refresh" in told
        assert "ASIABROKEN" not in told
        assert [session.get_credentials().get_frozen_credentials().access_key] == account.issued
        assert [asked.region for asked in account.asked] == ["eu-west-1"] * 2

    def test_that_sts_does_not_answer_for_is_told(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{free_ports(1)[0]}")
        with pytest.raises(UnavailableError, match=f"STS, asked for role {ROLE}, .*: Could not connect to"):
            world.plan()

    def test_needs_somebody_to_assume_it(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        nobody = boto3.Session()
        monkeypatch.setattr(nobody, "get_credentials", lambda: None)
        with pytest.raises(ConfigError, match=f"no AWS credentials for stream {world.stream}"):
            Steps(world.pipeline, world.ledger, nobody).plan(Run("dag", "run"))
