"""Whose credentials a dataset on S3 is read and written with, and which key it is encrypted with; on moto."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest

from demo.object_store import BUCKET
from shardlake.errors import ConfigError
from shardlake.lake.s3 import S3Home
from shardlake.plan import Role, Storage
from shardlake.roles import assumed
from support.faulty_proxy import FaultyProxy, faulty_proxy
from support.lakes import Bucket, BucketLake

pytestmark = pytest.mark.slow

KEY = "data/shard_id=shardId-0/1-2.parquet"
ROLE = "arn:aws:iam::123456789012:role/lake-writer"
KMS_KEY = "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000"
BASE = "AKIABASE"


@pytest.fixture
def proxy(moto_store: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyProxy]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with faulty_proxy(moto_store.endpoint_url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", proxy.endpoint_url)
        yield proxy


@pytest.fixture
def lake(moto_store: Bucket) -> BucketLake:
    return moto_store.lake(str(uuid.uuid4()))


@pytest.fixture
def session() -> boto3.Session:
    return boto3.Session(BASE, "base-secret")


def publish(home: S3Home) -> None:
    with home.temporary("") as temporary:
        temporary.write_bytes(b"one")
        assert home.publish(temporary, KEY)


def asked(proxy: FaultyProxy) -> list[dict[str, str]]:
    """What STS was asked, without what is of no account."""
    posted = [parse_qs(request.removeprefix("POST / ")) for request in proxy.heard if "Action=" in request]
    return [{key: value for key, (value,) in query.items() if key != "Version"} for query in posted]


class TestSession:
    def test_signs_every_call(self, proxy: FaultyProxy, lake: BucketLake, session: boto3.Session) -> None:
        home = S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url), session)
        publish(home)
        home.open(KEY)
        assert set(proxy.key_ids) == {BASE}

    def test_of_the_default_chain_is_what_the_environment_says(
        self, proxy: FaultyProxy, lake: BucketLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIADEFAULT")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "default-secret")
        S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url)).names("data")
        assert proxy.key_ids == ["AKIADEFAULT"]


class TestRole:
    def test_is_assumed_once_and_signs_every_call(
        self, proxy: FaultyProxy, lake: BucketLake, session: boto3.Session
    ) -> None:
        storage = Storage("us-east-1", proxy.endpoint_url, role_arn=ROLE, external_id="a:b")
        home = S3Home(lake.dataset, storage, session)
        publish(home)
        home.open(KEY)
        expected = {"Action": "AssumeRole", "RoleArn": ROLE, "RoleSessionName": "shardlake", "ExternalId": "a:b"}
        assert asked(proxy) == [expected]
        assert proxy.key_ids[0] == BASE
        assert {key_id[:4] for key_id in proxy.key_ids[1:]} == {"ASIA"}

    def test_has_no_external_id_unless_told(self, proxy: FaultyProxy, lake: BucketLake, session: boto3.Session) -> None:
        S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url, role_arn=ROLE), session).names("data")
        assert asked(proxy) == [{"Action": "AssumeRole", "RoleArn": ROLE, "RoleSessionName": "shardlake"}]

    def test_is_assumed_again_before_its_credentials_expire(
        self, proxy: FaultyProxy, session: boto3.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        credentials: Any = assumed(session, Role(ROLE, None, "name"), "us-east-1").get_credentials()
        assert asked(proxy) == []
        first = credentials.get_frozen_credentials()
        assert credentials.get_frozen_credentials() == first

        def after_50_minutes() -> datetime:
            return datetime.now(UTC) + timedelta(minutes=50)

        monkeypatch.setattr("botocore.credentials._local_now", after_50_minutes)
        monkeypatch.setattr(credentials, "_time_fetcher", after_50_minutes)
        second = credentials.get_frozen_credentials()
        assert second.access_key != first.access_key
        assert len(asked(proxy)) == 2

    def test_that_may_not_be_assumed_is_told(
        self, proxy: FaultyProxy, lake: BucketLake, session: boto3.Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proxy.spoil("AssumeRole", "403")
        home = S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url, role_arn=f"{ROLE}2"), session)
        said = rf"no access: role {ROLE}2 is not assumed, with no external id: AccessDenied: so told\. Check role_arn"
        with pytest.raises(ConfigError, match=said) as caught:
            home.names("data")
        assert "base-secret" not in f"{caught.value!r} {caught.value.__cause__!r}"

    def test_needs_somebody_to_assume_it(self, lake: BucketLake, monkeypatch: pytest.MonkeyPatch) -> None:
        nobody = boto3.Session()
        monkeypatch.setattr(nobody, "get_credentials", lambda: None)
        home = S3Home(lake.dataset, Storage("us-east-1", role_arn=ROLE), nobody)
        with pytest.raises(ConfigError, match="no AWS credentials for dataset"):
            home.names("data")


class TestEncryption:
    @pytest.mark.parametrize("in_parts", [False, True])
    def test_is_with_the_key_that_is_named(
        self,
        proxy: FaultyProxy,
        lake: BucketLake,
        session: boto3.Session,
        monkeypatch: pytest.MonkeyPatch,
        in_parts: bool,
    ) -> None:
        monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 0 if in_parts else 10)
        home = S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url, kms_key_id=KMS_KEY), session)
        publish(home)
        home.create("_shardlake/owner.json", "{}")
        home.replace("_shardlake/plan.json", "{}")
        home.check_writable()
        for key in (KEY, "_shardlake/owner.json", "_shardlake/plan.json"):
            head = lake.bucket.client.head_object(Bucket=BUCKET, Key=f"{lake.prefix}/{key}")
            assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", KMS_KEY)

    def test_is_the_buckets_own_unless_told(self, proxy: FaultyProxy, lake: BucketLake, session: boto3.Session) -> None:
        publish(S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url), session))
        head = lake.bucket.client.head_object(Bucket=BUCKET, Key=f"{lake.prefix}/{KEY}")
        assert "SSEKMSKeyId" not in head
