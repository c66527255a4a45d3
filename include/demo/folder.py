"""The demo's folder, `.demo/`: where everything lies, and wiping it without ever wiping anything else."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

_MARK = "made-by-the-shardlake-demo"


class FolderError(Exception):
    """The folder is not the demo's."""


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Where the demo keeps what.

    Attributes:
        root: the folder, an absolute path.
    """

    root: Path = REPOSITORY / ".demo"

    @property
    def dataset(self) -> Path:
        """The Parquet files."""
        return self.root / "lake" / "flights"

    @property
    def ledger(self) -> Path:
        """The ledger's SQLite file."""
        return self.root / "ledger.db"

    @property
    def config(self) -> Path:
        """The configuration of the one pipeline."""
        return self.root / "pipelines.yaml"

    @property
    def airflow(self) -> Path:
        """Airflow's home."""
        return self.root / "airflow"

    @property
    def processes(self) -> Path:
        """The record of what runs in the background."""
        return self.root / "processes.json"

    def make_anew(self) -> None:
        """Makes the folder, empty but for its mark.

        Raises:
            FolderError: something is there that no demo has made.
        """
        if self.root.is_symlink() or (self.root.exists() and not (self.root / _MARK).is_file()):
            raise FolderError(f"{self.root} was not made by the demo, which would wipe it: move it away")
        if self.root.exists():
            shutil.rmtree(self.root)
        self.root.mkdir(parents=True)
        (self.root / _MARK).write_text("`make demo` wipes this folder.\n", encoding="utf-8")
