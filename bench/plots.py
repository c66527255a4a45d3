"""Pictures of a results file, `python plots.py results/full.json`: a PNG beside it for everything that has an `at`.

Runs in the peers' environment, which has matplotlib; so it imports nothing of this package.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

PICTURES = {
    2: ("throughput", "shards", "records/s", "linear"),
    7: ("memory", "size of a range, MiB", "a worker's peak, MiB", "linear"),
    8: ("planner", "shards", "time of a plan, s", "log"),
}
"""By goal: the file's name, what the axes are, and the second one's scale (on two logarithmic ones, linear growth is a
straight line of slope 1)."""


def main(results: Path) -> None:
    """Draw all pictures that the results have figures for."""
    told = json.loads(results.read_text(encoding="utf-8"))
    for goal, (name, across, up, scale) in PICTURES.items():
        lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for figure in told["figures"]:
            if figure["section"] == goal and figure["at"] is not None and figure["value"] is not None:
                lines[figure["what"]].append(figure)
        if lines:
            title = f"{name}: Shardlake {told['shardlake']} on {told['machine']['cores']} cores ({results.stem})"
            _draw(lines, title, across, up, scale, results.with_name(f"{results.stem}-{name}.png"))


def _draw(lines: dict[str, list[dict[str, Any]]], title: str, across: str, up: str, scale: str, path: Path) -> None:
    picture, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for what, figures in lines.items():
        axes.plot([each["at"] for each in figures], [each["value"] for each in figures], marker="o", label=what)
    axes.set_xscale("log")
    if scale == "log":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    ticks = sorted({each["at"] for figures in lines.values() for each in figures})
    axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    axes.minorticks_off()
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.title.set_fontsize(10)
    axes.grid(alpha=0.3)
    axes.legend()
    picture.savefig(path, dpi=120)
    plt.close(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
