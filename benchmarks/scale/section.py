"""The points as a section of RESULTS.md."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.measure import spelled as seconds
from benchmarks.scale import CONTESTANTS, MEMORY, QUERY
from benchmarks.scale.data import fitting, sizes_up_to
from benchmarks.scale.plot import IMAGE, Summaries, draw, sizes_of, spelled, verdict
from benchmarks.scale.points import Points, Summary, summaries
from benchmarks.scale.runs import SECONDS, measure

TITLE = "### scale: one query from 1 MB to 20 GB"


def scale_section(root: Path, largest: float, rounds: int) -> str:
    """Measures the points that the folder lacks, and draws the picture."""
    points = Points(root / "points.jsonl")
    measure(root, points, fitting(root, sizes_up_to(largest)), list(CONTESTANTS), rounds, SECONDS)
    return section_text(points, IMAGE)


def section_text(points: Points, image: Path) -> str:
    """The section; writes the picture."""
    found = summaries(points.all)
    draw(found, image)
    sizes = sizes_of(found)
    text = " ".join(QUERY.split())
    lines = [TITLE, ""]
    lines.append(
        f"`{text}` over Parquet of TPC-H, {os.cpu_count()} cores, memory_limit {MEMORY} and "
        "Spark's driver with 2 GB. Each run is a process of its own. The time is measured in the "
        "second run of the query (in the first one, if that needs more than 10 s); in brackets, "
        "the time since the start of the process. All answers are the same."
    )
    lines += ["", "![seconds and memory by size](../docs/images/scale.png)", ""]
    lines += _table(sizes, found, _times)
    lines += [
        "",
        "Seconds of processors until the first answer, with the start and with Java's:",
        "",
    ]
    lines += _table(sizes, found, _processors)
    lines += ["", "Peak memory of the process; on Spark, also of its Java:", ""]
    lines += _table(sizes, found, _peaks)
    lines += ["", *(f"- {verdict(found, other)}" for other in ("planned", "tasklets", "duckdb"))]
    overhead = _overhead(sizes, found)
    if overhead:
        lines.append(f"- Runnel on Spark needs {overhead} of PySpark's time.")
    lines += [
        f"- {CONTESTANTS[name]} at {size}: {item.failure}"
        for (size, name), item in found.items()
        if item.failure
    ]
    return "\n".join([*lines, *_plans(points)])


def _plans(points: Points) -> Iterator[str]:
    """The plans of EXPLAIN at the largest size."""
    for name in ("planned", "tasklets", "through_spark"):
        mine = [point for point in points.all if point.contestant == name and point.plan]
        if mine:
            point = max(mine, key=lambda item: item.bytes)
            text = point.plan.partition("Physical plan\n")[2].partition("\n\nDAG")[0] or point.plan
            head = (
                f"The plan at {point.size}, {CONTESTANTS[name]}, made in {seconds(point.planning)}:"
            )
            yield f"\n{head}\n\n```\n{text}\n```"


def _table(
    sizes: Sequence[str], found: Summaries, cell: Callable[[Summary | None], str]
) -> list[str]:
    lines = ["| | " + " | ".join(sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for name, label in CONTESTANTS.items():
        cells = [cell(found.get((size, name))) for size in sizes]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def _times(item: Summary | None) -> str:
    if item is None:
        return "–"
    return f"{seconds(item.warm)} ({seconds(item.cold)})" if item.rounds else "failed"


def _processors(item: Summary | None) -> str:
    return "–" if item is None or not item.rounds else seconds(item.cpu)


def _peaks(item: Summary | None) -> str:
    if item is None or not item.rounds:
        return "–"
    return spelled(item.peak) + (f" + {spelled(item.java_peak)}" if item.java_peak else "")


def _overhead(sizes: Sequence[str], found: Summaries) -> str:
    parts = []
    for size in sizes:
        ours, theirs = found.get((size, "through_spark")), found.get((size, "pyspark"))
        if ours and theirs and ours.rounds and theirs.rounds:
            parts.append(f"{ours.warm / theirs.warm:.2f} at {size}")
    return ", ".join(parts)
