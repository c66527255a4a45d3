"""Where a demo keeps its data and runs its jobs: on this machine's disk, or as in a data centre."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.folder import DemoFolder


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a demo's pipeline is configured with.

    Attributes:
        entry: keys of the pipeline's entry in the configuration.
        environment: what Airflow's tasks and commands find in their environment beside the common things.
    """

    entry: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)

    def dataset(self, below: str = "") -> Path:
        """A folder with the dataset's files, or with those of a part of it, as they are now."""
        return Path(self.entry["dataset"]) / below


def on_this_machine(folder: DemoFolder) -> Setting:
    """Files in the demo's folder, a SQLite ledger, Spark in one process."""
    conf = {"spark.driver.memory": "512m"}
    return Setting(
        entry={
            "dataset": str(folder.dataset),
            "ledger": f"sqlite:///{folder.ledger}",
            "engine": {"kind": "spark", "master": "local[2]", "conf": conf},
        }
    )
