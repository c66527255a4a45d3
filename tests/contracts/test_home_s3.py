"""A dataset on S3, on a real server behind a proxy that loses replies, answers errors and hears what is asked."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.object_store import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY
from shardlake.errors import ConfigError, ShardlakeError, UnavailableError
from shardlake.kinesis.page import Page
from shardlake.kinesis.user_records import as_they_are
from shardlake.lake.footer import checksum_of_file, read_footer
from shardlake.lake.home import open_home
from shardlake.lake.rows import rows_of
from shardlake.lake.s3 import S3Home
from shardlake.lake.s3_client import ATTEMPTS
from shardlake.lake.s3_upload import CONFLICT_ATTEMPTS, MAX_PARTS, PART_BYTES, cuts
from shardlake.plan import Storage
from support.faulty_proxy import FaultyProxy, faulty_proxy
from support.lakes import Bucket, BucketLake

pytestmark = pytest.mark.slow

KEY = "data/shard_id=shardId-0/1-2.parquet"
SESSION = boto3.Session(ACCESS_KEY_ID, SECRET_ACCESS_KEY)
MIB = 2**20
INCLUDE = Path(__file__).parents[2] / "include"


@pytest.fixture(scope="module")
def shared_proxy(object_store: Bucket) -> Iterator[FaultyProxy]:
    with faulty_proxy(object_store.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FaultyProxy:
    """A proxy that does no harm yet; nobody waits before trying again."""
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    # A client gives up trying again after many failures in a row; tests share one.
    monkeypatch.setattr("botocore.retries.quota.RetryQuota.acquire", lambda *_: True)
    monkeypatch.setattr("shardlake.lake.s3_upload.CONFLICT_WAIT_S", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared_proxy.reset()
    return shared_proxy


@pytest.fixture
def lake(object_store: Bucket) -> BucketLake:
    """An empty dataset, past the proxy."""
    return object_store.lake(str(uuid.uuid4()))


@pytest.fixture
def home(proxy: FaultyProxy, lake: BucketLake) -> S3Home:
    return S3Home(lake.dataset, Storage("us-east-1", proxy.endpoint_url), SESSION)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts as small as S3 takes them, for files larger than one."""
    monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 5 * MIB)
    monkeypatch.setattr("shardlake.lake.s3_upload.PART_BYTES", 5 * MIB)


@pytest.fixture
def all_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file but an empty one goes up in parts, of which it has one."""
    monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 0)


def publish(home: S3Home, content: bytes, key: str = KEY) -> bool:
    with home.temporary("") as temporary:
        temporary.write_bytes(content)
        return home.publish(temporary, key)


def assert_nothing_is_left(lake: BucketLake, *keys: str) -> None:
    assert (lake.keys(""), lake.uploads()) == (list(keys), [])


PUT, PART, COMPLETE = r"^PUT .*parquet$", r"^PUT .*partNumber=", r"^POST .*uploadId="
CREATE, ABORT = r"^POST .*\?uploads", r"^DELETE .*uploadId="


class TestLostReply:
    """The server has done it, and nobody heard: botocore tries again."""

    def test_of_a_put_finds_the_name_taken_by_the_same_file(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy
    ) -> None:
        proxy.spoil(PUT, "lose the reply")
        assert not publish(home, b"one")
        assert proxy.count(PUT) == 2
        assert lake.read(KEY) == b"one"
        assert_nothing_is_left(lake, KEY)

    def test_of_a_completion_finds_the_name_taken_by_the_same_file(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, all_in_parts: None
    ) -> None:
        proxy.spoil(COMPLETE, "lose the reply")
        assert not publish(home, b"one")
        assert proxy.count(COMPLETE) == 2
        assert lake.read(KEY) == b"one"
        assert_nothing_is_left(lake, KEY)

    def test_of_a_completion_that_is_told_there_is_no_such_upload_any_more(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, all_in_parts: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What S3 may answer to the second completion; SeaweedFS and moto answer otherwise.
        def completed(**request: Any) -> None:
            real(**request)
            raise home._client.exceptions.NoSuchUpload(
                {"Error": {"Code": "NoSuchUpload"}}, "CompleteMultipartUpload"
            ) from None

        real = home._client.complete_multipart_upload
        monkeypatch.setattr(home._client, "complete_multipart_upload", completed)
        assert not publish(home, b"one")
        assert lake.read(KEY) == b"one"

    def test_of_a_part_sends_it_again(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, all_in_parts: None
    ) -> None:
        proxy.spoil(PART, "lose the reply")
        assert publish(home, b"one")
        assert proxy.count(PART) == 2
        assert lake.read(KEY) == b"one"

    def test_of_a_control_file_that_is_created_counts_as_created(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy
    ) -> None:
        proxy.spoil(r"^PUT ", "lose the reply")
        assert home.create("_shardlake/owner.json", "one")
        assert not home.create("_shardlake/owner.json", "two")

    def test_of_an_overwrite_in_parts_is_no_harm(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, all_in_parts: None
    ) -> None:
        publish(home, b"one")
        proxy.spoil(COMPLETE, "lose the reply")
        with home.temporary("") as temporary:
            temporary.write_bytes(b"two")
            home.overwrite(temporary, KEY)
        assert lake.read(KEY) == b"two"
        assert_nothing_is_left(lake, KEY)

    def test_of_the_end_of_an_upload_is_no_error(self, home: S3Home, lake: BucketLake, proxy: FaultyProxy) -> None:
        proxy.spoil(ABORT, "lose the reply")
        home.check_writable()
        assert_nothing_is_left(lake)


class TestParts:
    @pytest.mark.parametrize(
        ("size", "parts"),
        [
            (5 * MIB, 0),  # the threshold itself goes up as one
            (5 * MIB + 1, 2),
            (10 * MIB, 2),
            (10 * MIB + 7, 3),
        ],
    )
    def test_of_a_large_file_are_put_together_as_they_were(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, small_parts: None, size: int, parts: int
    ) -> None:
        content = os.urandom(size)
        assert publish(home, content)
        assert lake.read(KEY) == content
        assert home.size(KEY) == size
        assert (proxy.count(PART), proxy.count(COMPLETE), proxy.count(PUT)) == (parts, int(parts > 0), int(parts == 0))
        with home.open(KEY) as file:
            file.seek(size - 6 * MIB if size > 6 * MIB else 0)
            assert file.read(MIB) == content[-6 * MIB :][:MIB]
        assert_nothing_is_left(lake, KEY)

    @pytest.mark.parametrize(
        ("size", "count", "last"),
        [
            (PART_BYTES, 1, PART_BYTES),
            (PART_BYTES + 1, 2, 1),
            (PART_BYTES * MAX_PARTS, MAX_PARTS, PART_BYTES),
            (PART_BYTES * MAX_PARTS + 1, MAX_PARTS, PART_BYTES + 1 - (MAX_PARTS - 1)),
            (2**40, MAX_PARTS, 2**40 - (MAX_PARTS - 1) * -(-(2**40) // MAX_PARTS)),
            (2**40 + 2**30, MAX_PARTS, 2**40 + 2**30 - (MAX_PARTS - 1) * -(-(2**40 + 2**30) // MAX_PARTS)),
        ],
    )
    def test_are_at_most_ten_thousand_and_alike_but_the_last(self, size: int, count: int, last: int) -> None:
        parts = list(cuts(size))
        assert len(parts) == count
        assert len({length for _, length in parts[:-1]}) <= 1
        assert parts[-1][1] == last
        assert sum(length for _, length in parts) == size
        assert [begin for begin, _ in parts] == [sum(n for _, n in parts[:1]) * row for row in range(count)]

    @pytest.mark.parametrize("fault", [PART, PUT])
    def test_that_were_spoilt_on_their_way_are_refused(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 0 if fault == PART else MIB)
        proxy.spoil(fault, "spoil the request", times=ATTEMPTS)
        with pytest.raises(ShardlakeError, match=r"Run the step again|no access"):
            publish(home, b"one")
        assert_nothing_is_left(lake)

    def test_of_a_name_that_is_taken_meanwhile_are_not_put_together(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, all_in_parts: None
    ) -> None:
        def quicker(request: str) -> None:
            if "partNumber=" in request:
                lake.write(KEY, b"quicker")

        proxy.between = quicker
        assert not publish(home, b"one")
        assert lake.read(KEY) == b"quicker"
        assert_nothing_is_left(lake, KEY)

    def test_of_two_at_once_one_file_is_published(self, home: S3Home, lake: BucketLake, all_in_parts: None) -> None:
        contents = [b"%d" % n * 1000 for n in range(8)]
        together = threading.Barrier(len(contents))

        def attempt(content: bytes) -> bool:
            together.wait(10)
            return publish(home, content)

        with ThreadPoolExecutor(len(contents)) as pool:
            taken = list(pool.map(attempt, contents))
        assert taken.count(True) == 1
        assert lake.read(KEY) == contents[taken.index(True)]
        assert_nothing_is_left(lake, KEY)


class TestFailing:
    @pytest.mark.parametrize("fault", ["503", "500", "lose the request"])
    @pytest.mark.parametrize("operation", [PUT, CREATE, PART, COMPLETE])
    def test_is_tried_again_and_then_told(
        self,
        home: S3Home,
        lake: BucketLake,
        proxy: FaultyProxy,
        monkeypatch: pytest.MonkeyPatch,
        operation: str,
        fault: Any,
    ) -> None:
        monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", MIB if operation == PUT else 0)
        proxy.spoil(operation, fault, times=ATTEMPTS - 1)
        assert publish(home, b"one")
        lake.delete(KEY)
        proxy.reset()
        proxy.spoil(operation, fault, times=ATTEMPTS)
        said = {"503": "SlowDown: so told", "500": "InternalError: so told"}.get(fault, "does not answer as it should")
        with pytest.raises(UnavailableError, match=f"dataset {lake.dataset}: .*{said}"):
            publish(home, b"one")
        assert proxy.count(operation) == ATTEMPTS
        assert_nothing_is_left(lake)

    def test_in_a_middle_part_publishes_nothing_and_leaves_no_upload(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, small_parts: None
    ) -> None:
        proxy.spoil("partNumber=2", "503", times=ATTEMPTS)
        with pytest.raises(UnavailableError):
            publish(home, bytes(11 * MIB))
        assert (proxy.count("partNumber=1"), proxy.count("partNumber=3"), proxy.count(ABORT)) == (1, 0, 1)
        assert_nothing_is_left(lake)

    def test_when_the_end_of_the_upload_fails_too_tells_what_was_first(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, all_in_parts: None
    ) -> None:
        proxy.spoil(PART, "503", times=ATTEMPTS)
        proxy.spoil(ABORT, "500", times=ATTEMPTS)
        with pytest.raises(UnavailableError, match="UploadPart: SlowDown"):
            publish(home, b"one")
        assert (lake.keys(""), lake.uploads()) == ([], [KEY])

    @pytest.mark.parametrize("in_parts", [False, True])
    def test_with_409_is_another_write_of_the_name_at_the_same_time_and_tried_again(
        self,
        home: S3Home,
        lake: BucketLake,
        proxy: FaultyProxy,
        monkeypatch: pytest.MonkeyPatch,
        in_parts: bool,
    ) -> None:
        monkeypatch.setattr("shardlake.lake.s3_upload.MULTIPART_BYTES", 0 if in_parts else MIB)
        operation = COMPLETE if in_parts else PUT
        proxy.spoil(operation, "409", times=CONFLICT_ATTEMPTS - 1)
        assert publish(home, b"one")
        assert lake.read(KEY) == b"one"
        assert (proxy.count(operation), proxy.count(CREATE)) == (CONFLICT_ATTEMPTS, CONFLICT_ATTEMPTS * in_parts)
        lake.delete(KEY)
        proxy.spoil(operation, "409", times=CONFLICT_ATTEMPTS)
        with pytest.raises(UnavailableError, match="ConditionalRequestConflict"):
            publish(home, b"one")
        assert_nothing_is_left(lake)

    def test_to_read_a_body_to_its_end_is_tried_again_and_then_told(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy
    ) -> None:
        lake.write(KEY, bytes(MIB))
        get = r"^GET .*parquet$"
        proxy.spoil(get, "cut the reply")
        with home.open(KEY) as file:
            proxy.spoil(get, "cut the reply", times=3)
            assert file.read() == bytes(MIB)
            proxy.spoil(get, "cut the reply", times=4)
            file.seek(0)
            with pytest.raises(UnavailableError, match="does not answer as it should"):
                file.read()

    def test_while_parquet_is_read_is_not_taken_for_damage(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy
    ) -> None:
        written = pa.BufferOutputStream()
        rows = as_they_are(Page(["1"] * 3, ["k"] * 3, [0] * 3, [os.urandom(100_000)] * 3, None, 0, 0))
        pq.write_table(pa.Table.from_batches([rows_of(rows, "s")]), written, compression="none", use_dictionary=False)
        lake.write(KEY, written.getvalue().to_pybytes())
        get = r"^GET .*parquet$"
        proxy.spoil(get, "503", times=ATTEMPTS)
        with pytest.raises(UnavailableError, match="SlowDown"):
            read_footer(home, KEY)

        def after_the_opening(request: str) -> None:
            proxy.spoil(get, "503", times=ATTEMPTS)

        proxy.reset()
        proxy.between = after_the_opening
        with pytest.raises(UnavailableError, match="SlowDown"):
            checksum_of_file(home, KEY)

    def test_of_a_file_that_is_replaced_while_it_is_read_mixes_nothing(self, home: S3Home, lake: BucketLake) -> None:
        lake.write(KEY, bytes(MIB))
        with home.open(KEY) as file:
            lake.write(KEY, b"x" * MIB)
            with pytest.raises(UnavailableError, match="PreconditionFailed"):
                file.read(100)


class TestAbandoned:
    def begin(self, lake: BucketLake, key: str) -> None:
        lake.bucket.client.create_multipart_upload(Bucket=BUCKET, Key=f"{lake.prefix}/{key}")

    def test_uploads_are_kept_for_a_day_and_those_of_published_files_for_an_hour(
        self, home: S3Home, lake: BucketLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake.write(KEY, b"published")
        for key in (KEY, f"{KEY}x", "backfill/b/data/1"):
            self.begin(lake, key)
        neighbour = BucketLake(lake.bucket, f"{lake.prefix}2")
        self.begin(neighbour, KEY)
        home.remove_abandoned()
        assert lake.uploads() == sorted([KEY, f"{KEY}x", "backfill/b/data/1"])
        monkeypatch.setattr("shardlake.lake.s3.PUBLISHED_ABANDONED", timedelta(seconds=-5))
        home.remove_abandoned()
        assert lake.uploads() == sorted([f"{KEY}x", "backfill/b/data/1"])
        monkeypatch.setattr("shardlake.lake.s3.ABANDONED", timedelta(seconds=-5))
        home.remove_abandoned()
        assert (lake.uploads(), neighbour.uploads()) == ([], [KEY])
        assert lake.read(KEY) == b"published"

    def test_uploads_of_killed_processes_are_ended(
        self, home: S3Home, lake: BucketLake, proxy: FaultyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code = (
            "import sys; from pathlib import Path; from shardlake.lake import s3_upload;"
            "from shardlake.lake.s3 import S3Home; from shardlake.plan import Storage;"
            "s3_upload.MULTIPART_BYTES = 0; dataset, endpoint, file, key = sys.argv[1:];"
            "S3Home(dataset, Storage('us-east-1', endpoint)).publish(Path(file), key)"
        )
        (tmp_path / "file").write_bytes(b"one")
        arrived, held = threading.Event(), threading.Event()

        def hold(request: str) -> None:
            if "partNumber=" in request:
                arrived.set()
                held.wait(30)

        proxy.between = hold
        credentials = {"AWS_ACCESS_KEY_ID": ACCESS_KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY}
        process = subprocess.Popen(
            [sys.executable, "-c", code, lake.dataset, proxy.endpoint_url, str(tmp_path / "file"), KEY],
            env={**os.environ, **credentials, "PYTHONPATH": str(INCLUDE)},
        )
        try:
            assert arrived.wait(60)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            held.set()
        proxy.reset()
        assert (lake.keys(""), lake.uploads()) == ([], [KEY])
        assert publish(home, b"by another")
        monkeypatch.setattr("shardlake.lake.s3.PUBLISHED_ABANDONED", timedelta(seconds=-5))
        home.remove_abandoned()
        assert_nothing_is_left(lake, KEY)

    def test_temporary_files_of_killed_processes_are_removed_after_a_day(self, home: S3Home, tmp_path: Path) -> None:
        others = tmp_path / "others.parquet"
        for name, age_s in (("shardlake-old.parquet", 90_000), ("shardlake-young.parquet", 0), (others.name, 90_000)):
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (time.time() - age_s,) * 2)
        publish(home, b"one")
        assert sorted(path.name for path in tmp_path.iterdir()) == [others.name, "shardlake-young.parquet"]


@functools.cache
def session_of(key: str, secret: str) -> boto3.Session:
    """A session, and so a client, for all tests with these credentials."""
    return boto3.Session(key, secret)


class TestRefused:
    """What a person has to change: nothing of it is tried again."""

    CALLS: tuple[Callable[[S3Home], object], ...] = (
        lambda home: home.check_writable(),
        lambda home: home.read("_shardlake/owner.json"),
        lambda home: home.create("_shardlake/owner.json", "{}"),
        lambda home: home.names("data"),
        lambda home: home.exists(KEY),
        lambda home: home.size(KEY),
        lambda home: home.open(KEY),
        lambda home: publish(home, b"one"),
        lambda home: home.remove_abandoned(),
    )

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize(
        ("key", "secret", "bucket", "said"),
        [
            ("test", "hunter2", BUCKET, r"no access: .*SignatureDoesNotMatch.*Grant s3:ListBucket"),
            ("AKIAOTHER", "hunter2", BUCKET, r"no access: .*InvalidAccessKeyId.*Grant s3:ListBucket"),
            ("test", "test", "no-such-bucket", r"NoSuchBucket.*Make the bucket, or check dataset"),
        ],
    )
    def test_credentials_and_buckets(
        self, proxy: FaultyProxy, key: str, secret: str, bucket: str, said: str, call: Callable[[S3Home], object]
    ) -> None:
        home = S3Home(f"s3://{bucket}/x", Storage("us-east-1", proxy.endpoint_url), session_of(key, secret))
        with pytest.raises(ConfigError, match=said) as caught:
            call(home)
        assert str(caught.value).count(f"s3://{bucket}/x") == 1
        assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r}"
        assert proxy.count(".") == 1

    def test_no_credentials(self, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("HOME", str(tmp_path))
        home = S3Home("s3://lake/x", Storage("us-east-1", proxy.endpoint_url), boto3.Session())
        with pytest.raises(ConfigError, match=r"no AWS credentials for dataset s3://lake/x.*name aws_conn_id"):
            home.check_writable()

    @pytest.mark.parametrize(
        ("code", "status", "error", "said"),
        [
            ("AccessDenied", 403, ConfigError, "Grant s3:ListBucket"),
            ("KMS.DisabledException", 400, ConfigError, "Check storage.kms_key_id"),
            ("KMS.ThrottlingException", 400, UnavailableError, "Run the step again"),
            ("AuthorizationHeaderMalformed", 400, ConfigError, "Grant"),
            ("PermanentRedirect", 301, ConfigError, "Grant"),
            ("NotImplemented", 501, ConfigError, "Grant"),
            ("ExpiredToken", 400, UnavailableError, "expired: run the step again with new ones"),
            ("RequestTimeout", 400, UnavailableError, "Run the step again"),
            ("BadDigest", 400, UnavailableError, "Run the step again"),
            ("SlowDown", 503, UnavailableError, "Run the step again"),
        ],
    )
    def test_what_s3_may_say(
        self,
        home: S3Home,
        monkeypatch: pytest.MonkeyPatch,
        code: str,
        status: int,
        error: type[ShardlakeError],
        said: str,
    ) -> None:
        def refuse(**_: object) -> None:
            reply = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise home._client.exceptions.ClientError(reply, "PutObject")

        monkeypatch.setattr(home._client, "put_object", refuse)
        with pytest.raises(error, match=rf"PutObject: {code}: why\. .*{said}") as caught:
            publish(home, b"one")
        assert type(caught.value) is error

    def test_an_endpoint_that_is_none(self) -> None:
        home = S3Home("s3://lake/x", Storage("us-east-1", "http://a b"), SESSION)
        with pytest.raises(ConfigError, match="dataset s3://lake/x: S3 cannot be asked: Invalid endpoint"):
            home.check_writable()

    def test_nobody_there(self, monkeypatch: pytest.MonkeyPatch, proxy: FaultyProxy) -> None:
        home = S3Home("s3://lake/x", Storage("us-east-1", "http://127.0.0.1:1"), SESSION)
        with pytest.raises(UnavailableError, match="EndpointConnectionError.*Check storage.region"):
            home.check_writable()


def test_a_bounded_listing_costs_one_call_however_many_files_there_are(
    home: S3Home, lake: BucketLake, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardlake.lake.s3.BOUNDED_PAGE_KEYS", 3)
    for n in range(20):
        lake.write(f"data/s/{n:02}-{n + 1:02}", b"")
    proxy.reset()
    assert home.names("data/s", after="07", before="08") == ["07-08"]
    assert proxy.count("list-type=2") == 1


def test_opening_asks_nothing_of_the_place(proxy: FaultyProxy) -> None:
    open_home("s3://lake/x", Storage("us-east-1", proxy.endpoint_url), SESSION).sync("data")
    assert proxy.heard == []


def test_a_footer_is_read_with_one_call(home: S3Home, lake: BucketLake, proxy: FaultyProxy) -> None:
    written = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": os.urandom(200_000)}), written)
    lake.write(KEY, written.getvalue().to_pybytes())
    proxy.reset()
    with home.open(KEY) as file, nullcontext(pq.read_metadata(file)) as metadata:
        assert metadata.num_rows == 200_000
    assert proxy.count(".") == 1
