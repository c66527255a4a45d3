"""`make soak`: a soak as long as one likes, with its figures.

python -m soak --minutes 60
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from soak.soak import MOST_GROWTH, soak


def main() -> None:
    """Run a soak, print its figures, and fail where something has grown."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="shardlake-soak-")
    print(f"dataset, ledger and logs, kept where it fails: {folder}", flush=True)
    figures = soak(arguments.minutes * 60, Path(folder), arguments.seed)
    shutil.rmtree(folder)
    print(figures)
    for usage in figures.usages:
        usage.check_flat(MOST_GROWTH)


if __name__ == "__main__":
    main()
