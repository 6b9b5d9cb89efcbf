"""The benchmark of sizes: its arithmetic, what it keeps, and that its contestants on this machine's
engines agree."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf, isclose
from pathlib import Path

import duckdb

from benchmarks.job_runtimes import Case, threshold
from benchmarks.scale import SIZES
from benchmarks.scale.contestant import ENGINES, normalized
from benchmarks.scale.data import fitting, needed
from benchmarks.scale.plot import spark_wins, verdict
from benchmarks.scale.points import Point, Points, break_even, summaries


def test_the_break_even_is_where_the_lines_meet_for_good() -> None:
    sizes = (1.0, 10.0, 100.0, 1000.0)
    slow = list(zip(sizes, (4.0, 4.0, 4.0, 4.0), strict=True))

    def against(*seconds: float) -> float | None:
        return break_even(slow, list(zip(sizes, seconds, strict=True)))

    assert isclose(against(8, 4 * 2**0.5, 2 * 2**0.5, 1) or 0, 10**1.5)
    assert against(1, 2, 3, 3.9) == 1.0
    assert against(8, 8, 8, 4) is None
    assert against(1, 1, 1, 5) is None
    found = against(1, 8, 1, 1)  # that it was faster once, before, doesn't count
    assert found is not None and 10 < found < 100


def test_the_threshold_costs_least() -> None:
    cases = [
        Case("a", 10, 1, 5),
        Case("a", 1000, 2, 2.1),
        Case("a", 100_000, 50, 10),
        Case("b", 10, 1, 2),
        Case("b", 1000, 3, 2),
    ]
    best, loss = threshold(cases)
    assert 10 < best < 1000
    assert isclose(loss, 1.05 ** (1 / 5))
    assert threshold([Case("a", 10, 1, 2)]) == (inf, 1.0)
    assert threshold([Case("a", 10, 2, 1)]) == (0.0, 1.0)


def test_points_are_kept_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    points = Points(path)
    for number, seconds in enumerate((3.0, 1.0, 2.0)):
        points.add(
            Point(
                "1 MB",
                10**6,
                "planned",
                number,
                cold=seconds,
                warm=seconds / 2,
                planning=0.1,
                peak=number,
            )
        )
    points.add(Point("1 MB", 10**6, "through_spark", 0, cold=9.0, warm=0.1))
    points.add(Point("10 MB", 10**7, "planned", 0, failure="no room"))
    points.add(Point("10 MB", 10**7, "through_spark", 0, cold=9.0, warm=0.2))
    path.write_text(path.read_text() + '{"size": "10 MB", "byt')
    again = Points(path)
    assert again.all == points.all
    again.add(Point("100 MB", 10**8, "through_spark", 0, cold=1.0, warm=1.0))
    assert Points(path).all == again.all
    assert again.has("1 MB", "planned", 2) and not again.has("1 MB", "planned", 3)
    assert again.failed("planned") == points.all[4] and again.failed("duckdb") is None
    found = summaries(again.all)
    one = found["1 MB", "planned"]
    assert (one.rounds, one.cold, one.warm, one.peak) == (3, 2.0, 1.0, 2)
    assert found["10 MB", "planned"].failure == "no room"
    # Of the sizes at which ours came to no end, Spark is the faster.
    assert spark_wins(found, "planned", "warm") == 10**6
    assert 10**6 < (spark_wins(found, "planned", "cold") or 0) < 10**7
    assert "with a session that runs at every size; with the start of Java from " in verdict(
        found, "planned"
    )


def test_sizes_that_the_disk_has_room_for(tmp_path: Path) -> None:
    names = list(SIZES)
    assert fitting(tmp_path, names, 36 * 10**9) == names[:-1]
    assert fitting(tmp_path, names, 37 * 10**9) == names
    assert fitting(tmp_path, names, 10**8) == names[:2]
    assert needed(names) == sum(list(SIZES.values())[:3]) + 1.8 * SIZES["20 GB"]
    for number in range(1, 90):
        (tmp_path / "parts" / f"{number:03d}").mkdir(parents=True)
    assert fitting(tmp_path, names, 19 * 10**9) == names
    assert fitting(tmp_path, names, 18 * 10**9) == names[:-1]


TABLES = {
    "orders": """SELECT i AS o_orderkey, DATE '1992-01-01' + CAST(i * 7 % 2400 AS INTEGER) AS
        o_orderdate,
        'priority ' || i % 5 AS o_orderpriority FROM range(2000) t(i)""",
    "lineitem": """SELECT i // 4 AS l_orderkey, CAST(i % 50 + 1 AS DECIMAL(15, 2)) AS l_quantity,
        CAST(i * 7919 % 100003 / 100 AS DECIMAL(15, 2)) AS l_extendedprice,
        'mode ' || i % 7 AS l_shipmode,
        DATE '1992-02-01' + CAST(i // 4 * 7 % 2400 AS INTEGER) AS l_shipdate
            FROM range(8000) t(i)""",
}


def test_the_contestants_agree(tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        for name, query in TABLES.items():
            (tmp_path / name).mkdir()
            connection.execute(f"COPY ({query}) TO '{tmp_path / name}/part.parquet'")
    answers = set()
    for name in ("planned", "tasklets", "duckdb"):
        with ExitStack() as stack:
            engine = ENGINES[name](tmp_path, tmp_path, stack)
            rows = engine.rows()
            answers.add(normalized(rows))
            assert engine.plan()
    assert len(answers) == 1
    assert len(rows) == 35
