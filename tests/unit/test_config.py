"""The configuration file: what it may say, and what is told to the one who wrote it when it is wrong."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shardlake.config import AtTimestamp, Pipeline, SparkEngine, _pipeline, config_file, load_pipeline, load_pipelines
from shardlake.errors import ConfigError
from shardlake.pipeline import ConsumerKeys
from shardlake.plan import Role, Storage
from shardlake.role_keys import StreamRoleKeys
from shardlake.schedule import parse_duration, parse_schedule
from shardlake.start_keys import AfterSequenceNumber, AtSequenceNumber
from shardlake.storage import StorageKeys

ENTRY: dict[str, Any] = {
    "stream": "clicks",
    "region": "eu-west-1",
    "dataset": "/lake/clicks",
    "ledger": "sqlite:////lake/ledger.db",
}
LEDGERS = "sqlite:///<file>, postgresql+psycopg://<user>@<host>/<database>, or airflow://<connection id>"
SECRET = "hunter2"

Load = Callable[..., Pipeline]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pipelines.yaml"


@pytest.fixture
def load(file: Path) -> Load:
    """Loads pipeline `p` with these keys beside the required ones; None leaves a key out."""

    def load(environment: dict[str, str] | None = None, **more: Any) -> Pipeline:
        entry = {key: value for key, value in {**ENTRY, **more}.items() if value is not None}
        file.write_text(yaml.safe_dump({"pipelines": {"p": entry}}), encoding="utf-8")
        return load_pipelines(file, environment or {})["p"]

    return load


@pytest.fixture
def refusal(load: Load, file: Path) -> Callable[..., str]:
    """What is said of pipeline `p` with these keys, without the file and the pipeline, which every message names."""

    def refusal(environment: dict[str, str] | None = None, **more: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            load(environment, **more)
        assert caught.value.__cause__ is None
        return str(caught.value).replace(f"{file}: pipeline 'p'", "<p>")

    return refusal


def refusal_of_text(file: Path, text: str | bytes) -> str:
    """What is said of a file with this text, without the file's name, with which the message begins."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_pipelines(file, {})
    assert str(caught.value).startswith(f"{file}: ")
    return str(caught.value).removeprefix(f"{file}: ")


class TestPipeline:
    def test_the_least_that_can_be_said(self, load: Load) -> None:
        assert load() == Pipeline(
            name="p",
            stream="clicks",
            region="eu-west-1",
            endpoint_url=None,
            start="trim_horizon",
            shard_starts={},
            schedule=None,
            dataset="/lake/clicks",
            ledger="sqlite:////lake/ledger.db",
            storage=StorageKeys(),
            aws_conn_id=None,
            max_window="1h",
            max_range_bytes="1GiB",
            max_group_ranges=256,
            retry_budget="10m",
            on_data_loss="fail",
            aggregates="keep",
            engine=SparkEngine(kind="spark", master="local[2]", conf={}),
        )

    def test_the_most_that_can_be_said(self, load: Load) -> None:
        pipeline = load(
            stream="arn:aws:kinesis:eu-west-1:123456789012:stream/clicks",
            endpoint_url="http://localhost:4567",
            start={"at_timestamp": "2026-01-31T01:00:00+01:00"},
            schedule="15m",
            ledger="postgresql+psycopg://me@host/ledger",
            aws_conn_id="aws_default",
            max_window="6h",
            max_range_bytes="512MiB",
            max_group_ranges=10,
            retry_budget="90s",
            on_data_loss="skip",
            aggregates="quarantine",
            engine={
                "kind": "spark",
                "master": "spark://host:7077",
                "conf": {"spark.executor.cores": 2},
                "class_archive": "/var/cache/shardlake/spark.jsa",
            },
        )
        assert isinstance(pipeline.start, AtTimestamp)
        assert pipeline.start.at_ms == 1_769_817_600_000
        assert (pipeline.schedule, pipeline.max_window) == (timedelta(minutes=15), timedelta(hours=6))
        assert (pipeline.max_range_bytes, pipeline.aggregates) == (512 * 2**20, "quarantine")
        assert pipeline.retry_budget == timedelta(seconds=90)
        assert pipeline.engine == SparkEngine(
            master="spark://host:7077",
            conf={"spark.executor.cores": "2"},
            class_archive="/var/cache/shardlake/spark.jsa",
        )
        assert pipeline.ledger_url == "postgresql+psycopg://me@host/ledger"
        assert pipeline.dag_id == "kinesis_ingest__p"

    def test_a_shard_may_begin_elsewhere(self, load: Load) -> None:
        starts = {
            "shardId-000000000000": "latest",
            "shardId-000000000001": {"at_timestamp": "2026-01-31T01:00:00+01:00"},
            "shardId-000000000002": {"at_sequence_number": "0495"},
            "shardId-000000000003": {"after_sequence_number": "495"},
        }
        assert load(shard_starts=starts).shard_starts == {
            "shardId-000000000000": "latest",
            "shardId-000000000001": AtTimestamp(at_timestamp=datetime(2026, 1, 31, tzinfo=UTC)),
            "shardId-000000000002": AtSequenceNumber(at_sequence_number="0495"),
            "shardId-000000000003": AfterSequenceNumber(after_sequence_number="495"),
        }

    def test_never_changes(self, load: Load) -> None:
        with pytest.raises(ValueError, match="Instance is frozen"):
            load().stream = "other"  # type: ignore[misc]

    def test_an_entry_goes_before_the_defaults(self, file: Path) -> None:
        file.write_text(
            yaml.safe_dump(
                {
                    "defaults": {**ENTRY, "schedule": "1h", "on_data_loss": "skip"},
                    "pipelines": {"a": {"schedule": None, "dataset": "/a"}, "b": {"dataset": "/b"}},
                }
            )
        )
        pipelines = load_pipelines(file, {})
        assert list(pipelines) == ["a", "b"]
        assert [(p.schedule, p.on_data_loss) for p in pipelines.values()] == [
            (None, "skip"),
            (timedelta(hours=1), "skip"),
        ]

    @pytest.mark.parametrize(
        ("key", "value", "found"),
        [
            ("stream", "a/b", "'a/b'"),
            ("stream", "a" * 129, "'" + "a" * 129 + "'"),
            ("stream", "clicks\n", r"'clicks\n'"),
            ("stream", "arn:aws:kinesis:eu-west-1:12345:stream/s", "'arn:aws:kinesis:eu-west-1:12345:stream/s'"),
            ("stream", 7, "'7'"),
            ("region", "Ireland", "'Ireland'"),
            ("region", "eu-west-\u0661", "'eu-west-\u0661'"),
            ("endpoint_url", "localhost:4567", "'localhost:4567'"),
            ("endpoint_url", "ftp://localhost", "'ftp://localhost'"),
            ("endpoint_url", "http://localhost:0", "'http://localhost:0'"),
            ("endpoint_url", "http://localhost:65536", "'http://localhost:65536'"),
            ("endpoint_url", "http://localhost/path", "'http://localhost/path'"),
            ("endpoint_url", "http://me:hunter2@localhost", "'http://me:***@localhost'"),
            ("endpoint_url", "http://[::1", "'http://[::1'"),
            ("start", "earliest", "'earliest'"),
            ("start", {"at_timestamp": "2026-01-31T00:00:00"}, "\"{'at_timestamp': '2026-01-31T00:00:00'}\""),
            ("start", {"at_timestamp": "yesterday"}, "\"{'at_timestamp': 'yesterday'}\""),
            ("start", {"at_timestamp": 1_769_817_600}, "\"{'at_timestamp': 1769817600}\""),
            ("start", {"at_timestamp": "1969-12-31T23:59:59Z"}, "\"{'at_timestamp': '1969-12-31T23:59:59Z'}\""),
            ("start", {"at": "2026-01-31T00:00:00Z"}, "\"{'at': '2026-01-31T00:00:00Z'}\""),
            ("start", {"at_sequence_number": "495"}, "\"{'at_sequence_number': '495'}\""),
            ("start", {"after_sequence_number": "495"}, "\"{'after_sequence_number': '495'}\""),
            ("shard_starts", "latest", "'latest'"),
            ("shard_starts", {"shardId-000000000000": "now"}, "'shardId-000000000000: now'"),
            ("shard_starts", {"a": "latest", "b": None}, "'b: None'"),
            ("shard_starts", {"a/b": "latest"}, "'a/b: latest'"),
            ("shard_starts", {3: "latest"}, "'3: latest'"),
            ("shard_starts", {"a": {"after_sequence_number": 495}}, "\"a: {'after_sequence_number': 495}\""),
            ("shard_starts", {"a": {"after_sequence_number": ""}}, "\"a: {'after_sequence_number': ''}\""),
            ("shard_starts", {"a": {"at_sequence_number": "0"}}, "\"a: {'at_sequence_number': '0'}\""),
            ("shard_starts", {"a": {"at_sequence_number": "4" * 57}}, f"\"a: {{'at_sequence_number': '{'4' * 57}'}}\""),
            ("shard_starts", {"a": {"at_sequence_number": "4x"}}, "\"a: {'at_sequence_number': '4x'}\""),
            (
                "shard_starts",
                {"a": {"at_timestamp": "2026-01-31T00:00:00"}},
                "\"a: {'at_timestamp': '2026-01-31T00:00:00'}\"",
            ),
            (
                "shard_starts",
                {"a": {"after_sequence_number": "495", "at_sequence_number": "495"}},
                "\"a: {'after_sequence_number': '495', 'at_sequence_number': '495'}\"",
            ),
            ("schedule", 15, "'15'"),
            ("schedule", True, "'True'"),
            ("schedule", "99 * * * *", "'99 * * * *'"),
            ("schedule", "@sometimes", "'@sometimes'"),
            ("schedule", "0s", "'0s'"),
            ("dataset", "lake", "'lake'"),
            ("dataset", "/", "'/'"),
            ("dataset", "/lake/../etc", "'/lake/../etc'"),
            ("dataset", "gs://bucket/lake", "'gs://bucket/lake'"),
            ("dataset", "S3://bucket/lake", "'S3://bucket/lake'"),
            ("storage", "eu-west-1", "'eu-west-1'"),
            ("stream_role", "arn:aws:iam::123456789012:role/x", "'arn:aws:iam::123456789012:role/x'"),
            ("stream_role", {"external_id": "a:b"}, "\"{'external_id': 'a:b'}\""),
            ("stream_role", {"session_name": "a-b"}, "\"{'session_name': 'a-b'}\""),
            ("dataset", "/a\0b", r"'/a\x00b'"),
            ("aws_conn_id", "", "''"),
            ("max_window", "-5m", "'-5m'"),
            ("max_window", "366d", "'366d'"),
            ("max_window", "9" * 400 + "d", "'" + "9" * 200 + "'"),
            ("max_window", 3600, "'3600'"),
            ("max_range_bytes", -5, "'-5'"),
            ("max_range_bytes", 0, "'0'"),
            ("max_range_bytes", True, "'True'"),
            ("max_range_bytes", 2**40 + 1, "'1099511627777'"),
            ("max_range_bytes", 10**30, "'" + str(10**30) + "'"),
            ("max_range_bytes", float("inf"), "'inf'"),
            ("max_range_bytes", "many", "'many'"),
            ("max_group_ranges", 0, "'0'"),
            ("max_group_ranges", True, "'True'"),
            ("max_group_ranges", 2.5, "'2.5'"),
            ("max_group_ranges", 10**30, "'" + str(10**30) + "'"),
            ("retry_budget", "0s", "'0s'"),
            ("retry_budget", 600, "'600'"),
            ("on_data_loss", False, "'False'"),
            ("aggregates", "Keep", "'Keep'"),
            ("aggregates", False, "'False'"),
            ("consumer", "lake", "'lake'"),
            ("engine", "spark", "'spark'"),
        ],
    )
    def test_a_wrong_value_is_told_with_what_is_allowed(
        self, refusal: Callable[..., str], key: str, value: Any, found: str
    ) -> None:
        allowed = Pipeline.model_fields[key].description
        assert refusal(**{key: value}) == f"<p>, key {key}: found {found}; allowed: {allowed}"

    @pytest.mark.parametrize("key", ENTRY)
    def test_a_missing_key(self, refusal: Callable[..., str], key: str) -> None:
        assert refusal(**{key: None}) == f"<p>, key {key}: missing; allowed: {Pipeline.model_fields[key].description}"

    def test_an_unknown_key(self, refusal: Callable[..., str]) -> None:
        assert refusal(shedule="15m") == (
            "<p>, key shedule: unknown; allowed: stream, region, endpoint_url, stream_role, start, shard_starts,"
            " schedule, dataset, storage, ledger, aws_conn_id, max_window, max_range_bytes, max_group_ranges,"
            " read_fraction, retry_budget, on_data_loss, aggregates, consumer, engine"
        )

    def test_every_wrong_key_is_told_on_a_line_of_its_own(self, refusal: Callable[..., str]) -> None:
        assert refusal(region="x", typo=1, on_data_loss="x").splitlines() == [
            "<p>, key region: found 'x'; allowed: a region's code, like eu-west-1; the ARN's, if any",
            "<p>, key on_data_loss: found 'x'; allowed: fail or skip",
            refusal(typo=1),
        ]

    def test_an_arn_of_another_region(self, refusal: Callable[..., str]) -> None:
        stream = "arn:aws:kinesis:us-east-1:123456789012:stream/clicks"
        assert refusal(stream=stream) == "<p>: key region is eu-west-1, but the stream's ARN is in us-east-1"

    @pytest.mark.parametrize(
        ("partition", "region"), [("aws", "eu-west-1"), ("aws-cn", "cn-north-1"), ("aws-us-gov", "us-gov-west-1")]
    )
    def test_an_arn_of_any_partition(self, load: Load, partition: str, region: str) -> None:
        stream = f"arn:{partition}:kinesis:{region}:123456789012:stream/clicks"
        assert load(stream=stream, region=region).stream == stream

    def test_a_key_that_is_no_word(self, file: Path) -> None:
        assert (
            refusal_of_text(file, "pipelines: {p: {1: x}}") == "pipeline 'p': a key: expected a word, found 1, a number"
        )

    def test_a_name_of_its_own(self, refusal: Callable[..., str]) -> None:
        assert refusal(name="q") == "<p>, key name: not a key of its own; the entry's key is the name"


class TestRole:
    ARN = "arn:aws-us-gov:iam::123456789012:role/path/clicks-reader"

    def test_there_is_none_unless_told(self, load: Load) -> None:
        assert load().role is None
        assert load(stream_role={}).role is None

    def test_is_assumed_in_a_session_that_is_named_after_the_pipeline(self, load: Load) -> None:
        assert load(stream_role={"role_arn": self.ARN}).role == Role(self.ARN, None, "shardlake-p")

    def test_is_assumed_as_told(self, load: Load) -> None:
        keys = {"role_arn": self.ARN, "external_id": "a:b/c", "session_name": "team=a+b,c@d.e_f-g"}
        assert load(stream_role=keys).role == Role(*keys.values())

    def test_a_sessions_name_is_as_long_as_sts_takes(self) -> None:
        pipeline = Pipeline(**{**ENTRY, "name": "p" * 64, "stream_role": {"role_arn": self.ARN}})
        assert pipeline.role == Role(self.ARN, None, "shardlake-" + "p" * 54)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("role_arn", "clicks-reader"),
            ("role_arn", "arn:aws:iam::123456789012:user/x"),
            ("role_arn", "arn:aws:sts::123456789012:assumed-role/x/y"),
            ("external_id", "a"),
            ("external_id", "a b"),
            ("session_name", "a"),
            ("session_name", "a:b"),
            ("session_name", "a\n"),
            ("session_name", "a" * 65),
        ],
    )
    def test_a_wrong_value(self, refusal: Callable[..., str], key: str, value: str) -> None:
        said = refusal(stream_role={"role_arn": self.ARN, key: value})
        allowed = StreamRoleKeys.model_fields[key].description
        assert said == f"<p>, key stream_role.{key}: found {value!r}; allowed: {allowed}"

    def test_an_unknown_key(self, refusal: Callable[..., str]) -> None:
        said = refusal(stream_role={"arn": self.ARN})
        assert said == "<p>, key stream_role.arn: unknown; allowed: role_arn, external_id, session_name"


class TestEngine:
    def test_an_unknown_key(self, refusal: Callable[..., str]) -> None:
        said = refusal(engine={"mastr": "yarn"})
        assert said == "<p>, key engine.mastr: unknown; allowed: kind, master, conf, class_archive"

    @pytest.mark.parametrize(
        "master", ["local", "local[*]", "local[2,3]", "spark://a:1,b:2", "yarn", "k8s://https://h:1"]
    )
    def test_masters(self, load: Load, master: str) -> None:
        assert load(engine={"master": master}).engine.master == master

    @pytest.mark.parametrize(
        "master", ["local[]", "local[**]", "mesos://host", "spark://", "yarn --conf x", "local[2]\n"]
    )
    def test_other_masters_are_refused(self, refusal: Callable[..., str], master: str) -> None:
        allowed = "local[<cores>], spark://<host>:<port>, yarn or k8s://<url>"
        assert refusal(engine={"master": master}) == f"<p>, key engine.master: found {master!r}; allowed: {allowed}"

    @pytest.mark.parametrize("archive", ["/spark.jsa", "/home/me/.cache/shardlake/spark-4.1.jsa", None])
    def test_class_archives(self, load: Load, archive: str | None) -> None:
        assert load(engine={"class_archive": archive}).engine.class_archive == archive

    @pytest.mark.parametrize(
        "archive",
        ["", "/", "spark.jsa", "~/spark.jsa", "/a/", "/a/../b", "/a/./b", "/a b", "/base.jsa:/top.jsa", '/a"b', "/a\n"],
    )
    def test_class_archives_that_java_would_take_for_more_are_refused(
        self, refusal: Callable[..., str], archive: str
    ) -> None:
        allowed = "a file's absolute path of letters, digits and _.+@=-, or null"
        said = refusal(engine={"class_archive": archive})
        assert said == f"<p>, key engine.class_archive: found {archive!r}; allowed: {allowed}"

    def test_settings_are_written_as_spark_writes_them(self, load: Load) -> None:
        conf = {"spark.a": True, "spark.b": 2, "spark.c": "x y", "spark.d": 0.5, "spark.oauthTokenFile": "/f"}
        assert load(engine={"conf": conf}).engine.conf == {
            "spark.a": "true",
            "spark.b": "2",
            "spark.c": "x y",
            "spark.d": "0.5",
            "spark.oauthTokenFile": "/f",
        }

    @pytest.mark.parametrize(
        "setting",
        ["master", "spark.a=b", "spark.a b", "spark.hadoop.fs.s3a.secret.key", "spark.x.password", "spark.access.key"],
    )
    def test_a_setting_that_is_none_or_a_secret_is_refused_and_not_shown(
        self, refusal: Callable[..., str], setting: str
    ) -> None:
        assert refusal(engine={"conf": {setting: SECRET}}) == (
            f"<p>, key engine.conf: setting {setting} is none; allowed: settings spark.<name>: <value>; secrets belong"
            " in the cluster's spark-defaults.conf"
        )

    @pytest.mark.parametrize("value", [["x"], {"x": 1}, "two\nlines", "nul\0"])
    def test_a_setting_without_a_text(self, refusal: Callable[..., str], value: object) -> None:
        assert refusal(engine={"conf": {"spark.a": value}}).startswith("<p>, key engine.conf: setting spark.a is none;")


class TestSecrets:
    """A secret stands in the environment only, and is never shown."""

    @pytest.mark.parametrize(
        ("ledger", "found"),
        [
            (f"postgresql+psycopg://me:{SECRET}@host/db", "postgresql+psycopg://me:***@host/db"),
            (f"postgresql+psycopg://me:{SECRET} x@host/db", "postgresql+psycopg://me:***@host/db"),
            (f"postgresql+psycopg://me:${{P}}{SECRET}@host/db", "postgresql+psycopg://me:***@host/db"),
            (f"postgresql+psycopg://host/db?password={SECRET}", "postgresql+psycopg://host/db?password=***"),
        ],
    )
    def test_a_password_in_the_file_is_refused(self, refusal: Callable[..., str], ledger: str, found: str) -> None:
        assert refusal({"P": "x"}, ledger=ledger) == (
            f"<p>, key ledger: a password stands in the file: found {found}. Put the URL in the environment and write"
            " ledger: ${SHARDLAKE_LEDGER}"
        )

    @pytest.mark.parametrize("ledger", ["${URL}", "postgresql+psycopg://me:${P}@host/db"])
    def test_a_password_of_the_environment_is_taken(self, load: Load, ledger: str) -> None:
        url = f"postgresql+psycopg://me:{SECRET}@host/db"
        assert load({"URL": url, "P": SECRET}, ledger=ledger).ledger_url == url

    def test_no_secret_is_in_a_pipelines_representation(self, load: Load) -> None:
        pipeline = load({"URL": f"postgresql+psycopg://me:{SECRET}@host/db"}, ledger="${URL}")
        assert SECRET not in f"{pipeline!r} {pipeline} {pipeline.model_dump()} {pipeline.model_dump_json()}"

    @pytest.mark.parametrize(
        ("ledger", "found"),
        [
            (f"mysql://me:${{P}}@host/{SECRET}", "mysql://…"),
            ("${P}", "no URL"),
            (SECRET, "no URL"),
            ([SECRET], "no URL"),
            ({"url": SECRET}, "no URL"),
        ],
    )
    def test_a_wrong_ledger_is_not_quoted(self, refusal: Callable[..., str], ledger: object, found: str) -> None:
        assert refusal({"P": SECRET}, ledger=ledger) == f"<p>, key ledger: found {found}; allowed: {LEDGERS}"

    @pytest.mark.parametrize("key", ["stream", "region", "endpoint_url", "start", "dataset", "max_window", "engine"])
    def test_what_the_environment_says_is_not_quoted(self, refusal: Callable[..., str], key: str) -> None:
        said = refusal({"P": f"{SECRET}!/"}, **{key: "${P}"})
        assert said.startswith(f"<p>, key {key}: found '${{P}}'; allowed: ")
        assert SECRET not in said

    def test_a_broken_file_is_not_quoted(self, file: Path) -> None:
        text = f'pipelines:\n  p:\n    ledger: "postgresql+psycopg://me:{SECRET}@host/db\n'
        assert refusal_of_text(file, text) == "not valid YAML, line 4: found unexpected end of stream"

    def test_validation_errors_do_not_hold_the_input(self) -> None:
        with pytest.raises(ValueError, match="ledger") as caught:
            Pipeline(**{**ENTRY, "name": "p", "ledger": f"mysql://me:{SECRET}@host"})
        assert SECRET not in str(caught.value)


class TestEnvironment:
    def test_is_filled_in_wherever_a_text_stands(self, load: Load) -> None:
        pipeline = load({"A": "clicks", "_B2": "x"}, stream="${A}-${_B2}", engine={"conf": {"spark.a": "${A}"}})
        assert (pipeline.stream, pipeline.engine.conf) == ("clicks-x", {"spark.a": "clicks"})

    def test_is_filled_in_once(self, load: Load) -> None:
        assert load({"A": "${B}", "B": "x"}, aws_conn_id="${A}").aws_conn_id == "${B}"

    def test_a_dollar_alone_is_a_dollar(self, load: Load) -> None:
        assert load(aws_conn_id="$A$").aws_conn_id == "$A$"

    def test_an_unset_variable(self, refusal: Callable[..., str]) -> None:
        assert refusal(ledger="${SHARDLAKE_LEDGER}") == (
            "<p>, key ledger: the environment variable SHARDLAKE_LEDGER is not set. Set it: export SHARDLAKE_LEDGER=…"
        )

    @pytest.mark.parametrize("text", ["${", "${A", "${1}", "${A-b}", "${}", "${A}${"])
    def test_a_variable_without_a_name(self, refusal: Callable[..., str], text: str) -> None:
        assert refusal({"A": "x"}, stream=text) == (
            f"<p>, key stream: ${{ without the name of an environment variable and }}: found {text}"
        )


class TestNames:
    @pytest.mark.parametrize("name", ["p", "P_1-x", "7", "a" * 64])
    def test_are_letters_digits_and_two_signs(self, file: Path, name: str) -> None:
        file.write_text(yaml.safe_dump({"pipelines": {name: ENTRY}}))
        assert load_pipelines(file, {})[name].name == name

    @pytest.mark.parametrize("name", ["", "../p", "a/b", "a b", "-a", "_a", "a\n", "a.b", "é", "a" * 65, "a\0", "${A}"])
    def test_that_are_hostile_are_refused(self, file: Path, name: str) -> None:
        text = yaml.safe_dump({"pipelines": {name: ENTRY}})
        assert refusal_of_text(file, text) == (
            f"pipeline {name[:80]!r}: its name: expected up to 64 letters, digits, - and _, first a letter or digit"
        )
        with pytest.raises(ValueError, match="name"):
            Pipeline(name=name, **ENTRY)

    @pytest.mark.parametrize(("name", "kind"), [("1", "a number"), ("yes", "true or false"), ("null", "nothing")])
    def test_that_yaml_takes_for_something_else(self, file: Path, name: str, kind: str) -> None:
        said = refusal_of_text(file, f"pipelines: {{{name}: {{}}}}")
        assert said.endswith(
            f"its name: expected up to 64 letters, digits, - and _, first a letter or digit, found {kind}"
        )

    def test_a_pipeline_that_is_not_there(self, file: Path, load: Load) -> None:
        load()
        with pytest.raises(
            ConfigError, match=re.escape("there is no pipeline '../q': found p. Name one of these, or add")
        ):
            load_pipeline(file, "../q")
        file.write_text("pipelines:")
        with pytest.raises(ConfigError, match="there is no pipeline 'p': found no pipeline at all"):
            load_pipeline(file, "p")


class TestDatasets:
    @pytest.mark.parametrize(("one", "other"), [("/lake/a", "/lake/a/"), ("/lake", "/lake/a"), ("/lake/a/b", "/lake")])
    def test_two_pipelines_do_not_share_one(self, file: Path, one: str, other: str) -> None:
        entries = {"a": {**ENTRY, "dataset": one}, "b": {**ENTRY, "dataset": other}}
        said = refusal_of_text(file, yaml.safe_dump({"pipelines": entries}))
        assert re.match(
            "pipelines '[ab]' and '[ab]' share a dataset, key dataset: expected a folder of its own for", said
        )

    def test_neighbours_are_fine(self, file: Path) -> None:
        entries = {"a": {**ENTRY, "dataset": "/lake/a"}, "b": {**ENTRY, "dataset": "/lake/ab"}}
        file.write_text(yaml.safe_dump({"pipelines": entries}))
        assert len(load_pipelines(file, {})) == 2

    @pytest.mark.parametrize(
        ("one", "other", "shared"),
        [
            ("s3://lake/a", "s3://lake/a", True),
            ("s3://lake/a", "s3://lake/a/b", True),
            ("s3://lake/a/b/c", "s3://lake", True),
            ("s3://lake/a", "s3://lake/ab", False),
            ("s3://lake/a", "s3://lake2/a", False),
            ("s3://lake/a", "/lake/a", False),
        ],
    )
    def test_on_s3_are_in_the_same_bucket_one_prefix_in_the_other(
        self, file: Path, one: str, other: str, shared: bool
    ) -> None:
        text = yaml.safe_dump({"pipelines": {"a": {**ENTRY, "dataset": one}, "b": {**ENTRY, "dataset": other}}})
        if shared:
            said = refusal_of_text(file, text)
            assert re.match("pipelines '[ab]' and '[ab]' share a dataset, key dataset: expected a folder of", said)
            assert {one, other} == set(said.rpartition("found ")[2].split(" and "))
        else:
            file.write_text(text)
            assert len(load_pipelines(file, {})) == 2


class TestS3:
    @pytest.mark.parametrize(
        "dataset",
        [
            "s3://lake",
            "s3://my.lake-1/a/b",
            "s3://lake/a b/ü/per%20cent/x=1,~'()!*",
            "s3://" + "a" * 63 + "/" + "p" * 512,
        ],
    )
    def test_a_bucket_and_a_prefix(self, load: Load, dataset: str) -> None:
        assert load(dataset=dataset).dataset == dataset

    @pytest.mark.parametrize(
        "dataset",
        [
            *("s3://", "s3:///a", "s3://ab/x", "s3://" + "a" * 64, "s3://Lake/a", "s3://la_ke/a", "s3://-lake/a"),
            *("s3://lake-/a", "s3://la..ke/a", "s3://192.168.0.1/a", "s3://xn--lake/a", "s3://lake--x-s3/a"),
            *("s3://me@lake/a", "s3://me:hunter3@lake/a", "s3://lake:80/a", "s3://lake?x", "s3://l\u0430ke/a"),
            *("s3://lake/", "s3://lake/a/", "s3://lake//a", "s3://lake/a//b", "s3://lake/../a", "s3://lake/a/.."),
            *("s3://lake/./a", "s3://lake/a?x=1", "s3://lake/a#x", "s3://lake/a\\b", "s3://lake/a\nb", "s3://lake/\0"),
            *("s3://lake/a/ ", "s3://lake/ a", "s3://lake/" + "p" * 513, "s3://lake/" + "ü" * 257),
            "s3://lake/\udc80",
        ],
    )
    def test_what_is_none_is_refused(self, refusal: Callable[..., str], dataset: str) -> None:
        allowed = Pipeline.model_fields["dataset"].description
        found = repr(dataset.replace(":hunter3", ":***"))
        assert refusal(dataset=dataset).startswith(f"<p>, key dataset: found {found[:190]}")
        assert refusal(dataset=dataset).endswith(f"; allowed: {allowed}")

    def test_is_reached_by_default_in_the_pipelines_region(self, load: Load) -> None:
        assert load(dataset="s3://lake/a").place == Storage("eu-west-1", None, None, None, None)
        assert load().place is None

    def test_is_reached_as_storage_says(self, load: Load) -> None:
        storage = {
            "region": "us-east-1",
            "endpoint_url": "http://127.0.0.1:8333",
            "role_arn": "arn:aws-cn:iam::123456789012:role/path/writer",
            "external_id": "a:b",
            "kms_key_id": "alias/lake",
        }
        pipeline = load(dataset="s3://lake/a", storage=storage)
        assert pipeline.place == Storage(*storage.values())
        assert load(dataset="s3://lake/a", storage={}).place == Storage("eu-west-1")

    def test_storage_of_a_folder_is_refused(self, refusal: Callable[..., str], load: Load) -> None:
        said = refusal(storage={"region": "us-east-1"})
        assert said == "<p>: key storage is set, but the dataset is a folder"
        assert load(storage={}).place is None

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("region", "Ireland"),
            ("endpoint_url", "http://me:hunter3@localhost"),
            ("endpoint_url", "localhost"),
            ("role_arn", "lake-writer"),
            ("role_arn", "arn:aws:iam::1:role/x"),
            ("role_arn", "arn:aws:iam::123456789012:user/x"),
            ("external_id", "a"),
            ("external_id", "a b"),
            ("kms_key_id", ""),
            ("kms_key_id", "a\nb"),
        ],
    )
    def test_a_wrong_value_of_storage(self, refusal: Callable[..., str], key: str, value: str) -> None:
        said = refusal(dataset="s3://lake/a", storage={"role_arn": "arn:aws:iam::123456789012:role/x", key: value})
        found = repr(value.replace(":hunter3", ":***"))
        assert said == f"<p>, key storage.{key}: found {found}; allowed: {StorageKeys.model_fields[key].description}"

    def test_an_unknown_key_of_storage(self, refusal: Callable[..., str]) -> None:
        said = refusal(dataset="s3://lake/a", storage={"acl": "private"})
        assert said == (
            "<p>, key storage.acl: unknown; allowed: role_arn, external_id, region, endpoint_url, kms_key_id"
        )

    def test_an_external_id_without_a_role(self, refusal: Callable[..., str]) -> None:
        assert refusal(dataset="s3://lake/a", storage={"external_id": "a:b"}).startswith("<p>, key storage: found ")

    @pytest.mark.parametrize(
        ("dataset", "uri"),
        [
            ("/lake/a", "file:///lake/a/data"),
            ("s3://lake/a=1", "s3://lake/a=1/data"),
            ("s3://lake/a b/ü", "s3://lake/a%20b/%C3%BC/data"),
        ],
    )
    def test_the_uri_of_its_files(self, load: Load, dataset: str, uri: str) -> None:
        assert load(dataset=dataset).data_uri == uri


TOP_LEVEL = "the top level: expected the keys pipelines and, optionally, defaults, found "


class TestFile:
    def test_is_the_one_named_else_the_environments_else_the_one_beside_the_package(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SHARDLAKE_CONFIG", "/env.yaml")
        assert config_file("/named.yaml") == Path("/named.yaml")
        assert config_file() == Path("/env.yaml")
        monkeypatch.setenv("SHARDLAKE_CONFIG", "")
        assert config_file() == Path(__file__).parents[2] / "include/pipelines.yaml"

    def test_the_one_beside_the_package_can_be_read(self) -> None:
        assert load_pipelines(Path(__file__).parents[2] / "include/pipelines.yaml", {}) == {}

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", TOP_LEVEL + "nothing"),
            ("- p", TOP_LEVEL + "a list"),
            ("p: 1", TOP_LEVEL + "p"),
            ("pipelines: {}\nx: 1", TOP_LEVEL + "pipelines, x"),
            ("pipelines: []", "pipelines: expected a mapping, found a list"),
            ("pipelines: 0", "pipelines: expected a mapping, found a number"),
            ("defaults: no\npipelines: {}", "defaults: expected a mapping, found true or false"),
            ("pipelines: {p: }", "pipeline 'p': expected a mapping of keys, found nothing"),
            ("pipelines: {p: 2026-01-31}", "pipeline 'p': expected a mapping of keys, found a date"),
            ("pipelines: {p", "not valid YAML, line 1: expected ',' or '}', but got '<stream end>'"),
            ("pipelines: {p: {stream: a, stream: b}}", "not valid YAML, line 1: key 'stream' stands twice"),
            ("a: 1\nb: {c: 1}\na: 2", "not valid YAML, line 3: key 'a' stands twice"),
            ("a: &x 1\nb: *x", "not valid YAML, line 2: anchors and aliases are not allowed; what entries share goes"
                " under defaults:"),
            ("a: !!python/object/apply:os.system [id]", "not valid YAML, line 1: could not determine a constructor"
                " for the tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
            ("a: 2026-13-45", "not valid YAML, a date or number cannot be read (month must be in 1..12)"),
            ("[" * 9_999, "not valid YAML, it is nested too deeply"),
            ("a: \0", "not valid YAML, character 4 is not allowed: special characters are not allowed"),
            (b"a: \xff", "not UTF-8, at byte 3"),
        ],
    )  # fmt: skip
    def test_what_is_not_a_configuration_is_told(self, file: Path, text: str | bytes, said: str) -> None:
        assert refusal_of_text(file, text) == said

    def test_a_file_that_cannot_be_read(self, file: Path, tmp_path: Path) -> None:
        todo = r"\. Name a file with --config or SHARDLAKE_CONFIG"
        with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\)" + todo):
            load_pipelines(file)
        with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)" + todo):
            load_pipelines(tmp_path)

    @given(text=st.text(max_size=60) | st.text("{}[]:,-&*!|>'\"# \n\tab0\\$", max_size=40))
    def test_no_text_ends_in_anything_but_a_configuration_or_one_error(
        self, tmp_path_factory: pytest.TempPathFactory, text: str
    ) -> None:
        file = tmp_path_factory.getbasetemp() / "any.yaml"
        file.write_bytes(f"pipelines: {text}".encode("utf-8", "surrogatepass"))
        with contextlib.suppress(ConfigError):
            load_pipelines(file, {})

    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.datetimes(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
            max_leaves=5,
        ),
        key=st.sampled_from([*Pipeline.model_fields.keys() - {"name"}]),
    )
    def test_no_value_ends_in_anything_but_a_pipeline_or_one_error(self, value: object, key: str) -> None:
        with contextlib.suppress(ConfigError):
            _pipeline(Path("f"), "p", {**ENTRY, key: value}, {}, {})


class TestSchedule:
    @pytest.mark.parametrize(
        ("text", "duration"),
        [
            ("90s", timedelta(seconds=90)),
            ("15m", timedelta(minutes=15)),
            ("6 h", timedelta(hours=6)),
            ("365d", timedelta(365)),
        ],
    )
    def test_durations(self, text: str, duration: timedelta) -> None:
        assert parse_duration(text) == parse_schedule(text) == duration

    @pytest.mark.parametrize(
        "value", ["", "0s", "-1h", "1", "1w", "1.5h", "PT15M", "366d", "1h30m", "\u0661h", 15, None]
    )
    def test_what_is_no_duration(self, value: object) -> None:
        with pytest.raises(ValueError, match="not a duration"):
            parse_duration(value)

    @pytest.mark.parametrize(
        "text",
        [
            "* * * * *",
            "*/5 0-6,12 1 JAN,jul-sep mon-FRI",
            "0 0 * * 7",
            "0 0 * * * 30",
            "59 23 31 12 0",
            "@hourly",
            "@continuous",
        ],
    )
    def test_cron_expressions_and_presets(self, text: str) -> None:
        assert parse_schedule(text) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "* * * *",
            "* * * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * 0 *",
            "* * * * 8",
            "*/0 * * * *",
            "mon * * * *",
            "a b c d e",
            "1,,2 * * * *",
            "-1 * * * *",
            "1- * * * *",
            "@reboot",
            "@HOURLY",
            "hourly",
        ],
    )
    def test_what_is_no_schedule(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a duration"):
            parse_schedule(text)


class TestAtTimestamp:
    @given(st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
    def test_is_whole_milliseconds(self, at: datetime) -> None:
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)
        assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=AtTimestamp(at_timestamp=at).at_ms) == at

    def test_knows_offsets(self) -> None:
        at = datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))
        assert AtTimestamp(at_timestamp=at).at_ms == 3_600_000


class TestConsumer:
    def test_enhanced_fan_out_names_a_consumer(self, load: Load) -> None:
        assert load().consumer == ConsumerKeys(enhanced_fan_out=None)
        assert load(consumer={}) == load(consumer={"enhanced_fan_out": None}) == load()
        named = load(consumer={"enhanced_fan_out": "a.B_c-1"}, endpoint_url="https://kinesis.internal")
        assert named.consumer.enhanced_fan_out == "a.B_c-1"

    @pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "a" * 129, 1, True])
    def test_a_wrong_name(self, refusal: Callable[..., str], name: object) -> None:
        allowed = ConsumerKeys.model_fields["enhanced_fan_out"].description
        said = refusal(consumer={"enhanced_fan_out": name})
        assert said == f"<p>, key consumer.enhanced_fan_out: found {str(name)!r}; allowed: {allowed}"

    def test_an_unknown_key(self, refusal: Callable[..., str]) -> None:
        assert refusal(consumer={"fan_out": "a"}) == "<p>, key consumer.fan_out: unknown; allowed: enhanced_fan_out"

    def test_an_endpoint_without_tls(self, refusal: Callable[..., str], load: Load) -> None:
        said = refusal(consumer={"enhanced_fan_out": "a"}, endpoint_url="http://localhost:4567")
        assert said == "<p>: key consumer asks for HTTP/2, which is spoken over TLS, but endpoint_url is http://…"
        assert load(consumer={}, endpoint_url="http://localhost:4567").endpoint_url == "http://localhost:4567"
