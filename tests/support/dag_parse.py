"""What parsing a DAG file costs and loads, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PARSE = """
import json, runpy, sys, time
import airflow.dag_processing.processor
begun = time.process_time()
names = runpy.run_path(sys.argv[1])
cost = time.process_time() - begun
print(json.dumps({"cpu_s": cost, "loaded": sorted(sys.modules), "names": sorted(names)}))
"""


@dataclass(frozen=True)
class Parse:
    """One parse.

    Attributes:
        cpu_s: CPU time of the file's own parse; what the DAG processor has loaded before it forks is not counted.
        loaded: Names of the modules loaded after it.
        names: The file's global names.
    """

    cpu_s: float
    loaded: list[str]
    names: list[str]

    @property
    def heavy(self) -> list[str]:
        """What no parse may load: a start of Spark, a read of Parquet, a client, a step of a batch."""
        return sorted({"pyspark", "pyarrow", "boto3", "shardlake.batch", "shardlake.ledger"} & set(self.loaded))


def parse(dag_file: Path) -> Parse:
    """Parse *dag_file* as the DAG processor does: in a process that has Airflow's own modules loaded."""
    command = [sys.executable, "-c", _PARSE, str(dag_file)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    return Parse(**json.loads(told))
