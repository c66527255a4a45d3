"""The page of a batch, from its control files: what became of each range first, the files as they are below."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from shardlake.errors import ShardlakeError
from shardlake.plan import BatchPlan, range_to_json

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 92rem; padding: 0 1rem }
h1 { font-size: 1.3rem; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
th, td { border-bottom: 1px solid #8886; padding: .35rem .6rem; text-align: left; vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code, pre { font-size: .82rem; overflow-wrap: anywhere; white-space: pre-wrap }
.bad { color: #c22; font-weight: 600 }
dl { display: grid; gap: .2rem 1rem; grid-template-columns: max-content 1fr }
dd { margin: 0; overflow-wrap: anywhere }
details { margin: .5rem 0 }
"""


_RAW = ("records", "quarantined", "dropped")
"""Fields of a job's report: the stream's raw records, and those of them that are not in data/."""

_NO_BATCH = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""What comes of files that are not those of a batch."""


def batch_page(run_id: str, files: Mapping[str, str]) -> str:
    """The page, HTML.

    Args:
        run_id: the run that the batch belongs to.
        files: the batch's control files by name, as text: plan.json, report-<group>.json, verified.json.
    """
    try:
        summary = _summary(BatchPlan.from_text(files["plan.json"]), files)
    except (ShardlakeError, *_NO_BATCH) as exc:
        summary = f"<p class=bad>These files are not a batch of this version: {_text(exc)}</p>"
    raw = (
        f"<details><summary>{_text(name)}</summary><pre>{_text(text)}</pre></details>" for name, text in files.items()
    )
    return html_page(f"Batch of {run_id}", summary + "".join(raw))


def html_page(title: str, body: str) -> str:
    """A page of ours.

    Args:
        title: its title, as text.
        body: what it shows, as HTML.
    """
    head = f'<meta charset="utf-8"><title>{_text(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>{_text(title)}</h1>{body}</body></html>'


def _summary(plan: BatchPlan, files: Mapping[str, str]) -> str:
    reports = [report for name in files if name.startswith("report-") for report in json.loads(files[name])]
    reported = {report["range"]: report for report in reports}
    verified = {json.dumps(row["range"]): row for row in json.loads(files.get("verified.json", "[]"))}
    found = [
        (range_, *_state(reported.get(str(range_)), verified.get(json.dumps(range_to_json(range_)))))
        for range_ in plan.ranges
    ]
    raw = {name: [reported.get(str(range_), {}).get(name) for range_ in plan.ranges] for name in _RAW}
    rows = [
        _row((range_.shard_id, f"{range_.start}", f"{range_.through}"), (count, *counts, size), state)
        for (range_, state, count, size), *counts in zip(found, *raw.values(), strict=True)
    ]
    planned_at = datetime.fromtimestamp(plan.planned_at_ms // 1000, UTC)
    facts = {
        "Pipeline": plan.pipeline,
        "Stream": plan.stream.arn,
        "Dataset": plan.dataset,
        "Planned": f"{planned_at:%Y-%m-%d %H:%M:%S} UTC, the service's time",
        "Content": f"{len(found)} ranges, {sum(count or 0 for *_, count, _ in found):,} rows,"
        f" {sum(size or 0 for *_, size in found):,} bytes",
        "Records": "{:,} in the stream, {:,} in quarantine/, {:,} dropped".format(
            *(sum(filter(None, counts)) for counts in raw.values())
        ),
        "After it": "more records were there: the next run follows at once" if plan.behind else "nothing was left",
    }
    listed = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items())
    losses = "".join(f"<p class=bad>Left out: {_text(loss)}</p>" for loss in plan.losses)
    head = (
        "<tr><th>Shard<th>From<th>Through<th class=number>Rows"
        + "".join(f"<th class=number>{name.capitalize()}" for name in (*_RAW, "bytes"))
        + "<th>State"
    )
    hint = f"<p>What is committed is told by the ledger: <code>shardlake ranges {_text(plan.pipeline)}</code></p>"
    back = f"../../dags/{quote(plan.run.dag_id, safe='')}/runs/{quote(plan.run.run_id, safe='')}"
    return (
        f'<p><a href="{_text(back)}">The run in Airflow</a></p><dl>{listed}</dl>{losses}'
        f"<table>{head}{''.join(rows)}</table>{hint}"
    )


def _state(report: Any, verification: Any) -> tuple[str, int | None, int | None]:
    """What is known of a range, its rows and its bytes: the store's word before that of the job's report."""
    for said, state in (
        (verification and (verification.get("contents") or verification), "verified"),
        (report, "published"),
    ):
        if said:
            failed = said.get("error") and f"{said['error']}: {said['message']}"
            return failed or state, said.get("rows"), said.get("bytes")
    return "planned", None, None


def _row(range_: Sequence[str], counts: Sequence[int | None], state: str) -> str:
    good = state in ("planned", "published", "verified")
    numbers = "".join(f"<td class=number>{'–' if each is None else f'{each:,}'}" for each in counts)  # noqa: RUF001
    places = "".join(f"<td><code>{_text(each)}</code>" for each in range_)
    return f"<tr>{places}{numbers}<td{'' if good else ' class=bad'}>{_text(state)}"


def _text(value: object) -> str:
    return html.escape(str(value))
