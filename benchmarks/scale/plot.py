"""The picture: seconds and memory by size."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

from benchmarks.scale import CONTESTANTS, ON_SPARK, SIZES
from benchmarks.scale.points import Summary, break_even

IMAGE = Path(__file__).parent.parent.parent / "docs" / "images" / "scale.png"
COLORS = {"planned": "C0", "tasklets": "C1", "duckdb": "C2", "through_spark": "C3", "pyspark": "C4"}
MARKS = {"planned": "o", "tasklets": "s", "duckdb": "v", "through_spark": "^", "pyspark": "x"}
NEVER = 1e9
Summaries = dict[tuple[str, str], Summary]


def sizes_of(found: Summaries) -> list[str]:
    """The sizes that were measured, smallest first."""
    return [size for size in SIZES if any(key[0] == size for key in found)]


def line(found: Summaries, name: str, what: str) -> list[tuple[float, float]]:
    """The points of one contestant whose runs ended: (bytes, seconds or bytes of memory)."""
    items = [found[size, name] for size in sizes_of(found) if (size, name) in found]
    return [(item.bytes, getattr(item, what)) for item in items if item.rounds]


def spark_wins(found: Summaries, other: str, what: str) -> float | None:
    """The bytes from which Runnel on Spark is faster than another contestant; None if it is slower
    at the largest size."""
    pairs = [
        (found.get((size, other)), found.get((size, "through_spark"))) for size in sizes_of(found)
    ]
    both = [(one, two) for one, two in pairs if one is not None and two is not None and two.rounds]
    # A run that did not end is slower than any run that ended.
    ours = [(one.bytes, getattr(one, what) if one.rounds else NEVER) for one, _ in both]
    return break_even(ours, [(two.bytes, getattr(two, what)) for _, two in both])


def verdict(found: Summaries, other: str) -> str:
    """The result of `spark_wins` as a sentence."""
    largest = max((size for size, _ in line(found, "through_spark", "warm")), default=0.0)
    name = CONTESTANTS[other]
    words = []
    for what, how in (("warm", "with a session that runs"), ("cold", "with the start of Java")):
        size = spark_wins(found, other, what)
        least = min((item for item, _ in line(found, "through_spark", what)), default=inf)
        if size is None:
            words.append(f"{how} not up to {spelled(largest)}")
        elif size <= least:
            words.append(f"{how} at every size")
        else:
            words.append(f"{how} from {spelled(size)} on")
    return f"Spark is faster than {name}: {words[0]}; {words[1]}."


def spelled(size: float) -> str:
    """Bytes in a suitable unit."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"


def draw(found: Summaries, path: Path = IMAGE) -> None:
    """Writes the picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (times, memory) = plt.subplots(1, 2, figsize=(11.5, 4.8))
    for name, label in CONTESTANTS.items():
        style: dict[str, Any] = {"color": COLORS[name], "marker": MARKS[name], "markersize": 5}
        _lines(times, line(found, name, "warm"), label=label, **style)
        if name in ON_SPARK:
            _lines(
                times,
                line(found, name, "cold"),
                linestyle=":",
                label=f"{label}, with the start of Java",
                **style,
            )
        _lines(
            memory,
            [(size, peak / 1e6) for size, peak in line(found, name, "peak")],
            label=label,
            **style,
        )
    through = [(size, peak / 1e6) for size, peak in line(found, "through_spark", "java_peak")]
    _lines(memory, through, color="grey", linestyle=":", marker="^", markersize=4, label="its Java")
    crossing = spark_wins(found, "planned", "warm")
    if crossing is not None:
        times.axvline(crossing, color="grey", linewidth=0.8)
    heading = verdict(found, "planned").replace(": ", ":\n")
    times.set_title(f"A join and GROUP BY over Parquet. {heading}", fontsize=8)
    times.set_ylabel("seconds")
    times.set_yscale("log")
    memory.set_title(
        "Peak memory of the process\n(memory_limit 2 GB, Spark's driver 2 GB)", fontsize=8
    )
    memory.set_ylabel("MB")
    memory.set_ylim(bottom=0)
    for axis in (times, memory):
        axis.set_xlabel("bytes of Parquet")
        axis.set_xscale("log")
        axis.set_xticks([SIZES[size] for size in sizes_of(found)], sizes_of(found))
        axis.minorticks_off()
        axis.grid(visible=True, alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _lines(axis: Any, pairs: list[tuple[float, float]], **style: Any) -> None:
    if pairs:
        axis.plot(
            [size for size, _ in pairs], [value for _, value in pairs], linewidth=1.3, **style
        )
