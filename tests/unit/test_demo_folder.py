"""The demo's folder: wiped when a demo made it, and never otherwise."""

from pathlib import Path

import pytest

from demo.folder import DemoFolder, FolderError


def test_a_folder_of_a_former_demo_is_wiped(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / ".demo")
    folder.make_anew()
    folder.ledger.write_text("old")

    folder.make_anew()

    assert not folder.ledger.exists()
    assert folder.root.is_dir()


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / ".demo" / "thesis.txt"
    theirs.parent.mkdir()
    theirs.write_text("ten years of work")

    with pytest.raises(FolderError, match=r"\.demo was not made by the demo, which would wipe it: move it away"):
        DemoFolder(tmp_path / ".demo").make_anew()

    assert theirs.read_text() == "ten years of work"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    real = DemoFolder(tmp_path / "real")
    real.make_anew()
    (tmp_path / ".demo").symlink_to(real.root)

    with pytest.raises(FolderError, match="was not made by the demo"):
        DemoFolder(tmp_path / ".demo").make_anew()
