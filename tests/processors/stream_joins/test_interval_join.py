"""Joins of streams within time bounds: random disorder and batch cuts, compared with DuckDB's join
of the tables."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from runnel.expressions import build
from runnel.expressions.nodes import Expression
from runnel.processors.joins.build_side import JoinShape
from runnel.processors.stream_joins.interval_join import interval_join
from runnel.relation.nodes import LEFT_ONLY, MARKS, JoinKind
from runnel.relation.stream_joins import BufferedSide, IntervalShape, JoinTimeBounds
from runnel.relation.streams import TimeBound
from runnel.testing import assert_rows, verify_processor
from tests.effort import some
from tests.processors.random_tables import columns_of, duckdb_rows, fields_of
from tests.processors.stream_joins.disorder import check_promises, stream_of

LEFT_TIME, RIGHT_TIME = 1, 2
"""The numbers of the two watermarks."""

KINDS = {
    JoinKind.INNER: "SELECT * FROM l JOIN r ON {}",
    JoinKind.LEFT: "SELECT * FROM l LEFT JOIN r ON {}",
    JoinKind.RIGHT: "SELECT * FROM l RIGHT JOIN r ON {}",
    JoinKind.FULL: "SELECT * FROM l FULL JOIN r ON {}",
    JoinKind.SEMI: "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE {})",
    JoinKind.ANTI: "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {})",
    JoinKind.EXISTS_MARK: "SELECT *, EXISTS (SELECT 1 FROM r WHERE {}) FROM l",
}


def table_of(rng: random.Random, prefix: str, count: int, keys: str) -> pa.Table:
    """Columns i and s (keys, with NULLs), t (the time, with NULLs), v (a number of its own)."""
    integers = [rng.choice((None, 1, 2, 3, -7)) for _ in range(count)]
    texts = [rng.choice((None, "", "a", "bb")) for _ in range(count)]
    times = [None if rng.random() < 0.07 else rng.randint(-30, 60) for _ in range(count)]
    return pa.table(
        {
            f"{prefix}i": pa.array(integers, pa.int64()),
            f"{prefix}s": pa.array(texts, pa.string()),
            f"{prefix}t": pa.array(times, pa.int64()),
            f"{prefix}v": pa.array(range(count), pa.int64()),
        }
    )


Limits = tuple[int | None, int | None]


def joined(
    kind: JoinKind, keys: str, limits: Limits, condition: Expression | None, *tables: pa.Table
) -> Any:
    """The join of two tables on equal keys with low ≤ rt − lt ≤ high."""
    left, right = tables
    low, high = limits
    fields = (fields_of(left), fields_of(right))
    link = JoinTimeBounds(2, 2, low, high)
    waits_left = () if high is None else ((2, high),)
    waits_right = () if low is None else ((2, -low),)
    shape = IntervalShape(
        time_bounds=link,
        condition=None,
        left=BufferedSide(
            watermark=RIGHT_TIME if waits_left else None,
            expiry=waits_left,
            bounds=((2, TimeBound(LEFT_TIME)),),
        ),
        right=BufferedSide(
            watermark=LEFT_TIME if waits_right else None,
            expiry=waits_right,
            bounds=((2, TimeBound(RIGHT_TIME)),),
        ),
    )
    names = [
        field.name
        for field in (*fields[0], *(() if kind in LEFT_ONLY or kind in MARKS else fields[1]))
    ]
    if kind in MARKS:
        names.append("matched")
    pairs = tuple(
        tuple(columns_of(table)[side + key] for key in keys)
        for table, side in ((left, "l"), (right, "r"))
    )
    return interval_join((JoinShape(kind, condition), shape), pairs, fields, tuple(names))


def sql_condition(keys: str, low: int | None, high: int | None, with_condition: bool) -> str:
    parts = [f"l{key} = r{key}" for key in keys]
    parts += [] if low is None else [f"rt >= lt + {low}"]
    parts += [] if high is None else [f"rt <= lt + {high}"]
    parts += ["lv < rv"] if with_condition else []
    return " AND ".join(parts) or "true"


def promised(kind: JoinKind) -> dict[int, list[int]]:
    return (
        {LEFT_TIME: [2]}
        if kind in LEFT_ONLY or kind in MARKS
        else {LEFT_TIME: [2], RIGHT_TIME: [6]}
    )


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", some(range(6), 3))
def test_agrees_with_duckdb(kind: JoinKind, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    keys = rng.choice(("", "i", "s", "is"))
    low, high = rng.choice(((-5, 5), (0, 0), (0, 12), (-40, -3), (3, 9), (-2, 100)))
    left, right = (
        table_of(rng, "l", rng.randint(0, 40), keys),
        table_of(rng, "r", rng.randint(0, 40), keys),
    )
    with_condition = rng.random() < 0.4
    both = {**columns_of(left), **columns_of(right, left.num_columns)}
    condition = build.call("lt", [both["lv"], both["rv"]]) if with_condition else None
    wanted = duckdb_rows(
        KINDS[kind].format(sql_condition(keys, low, high, with_condition)), l=left, r=right
    )
    inputs = [
        stream_of(left, "lt", LEFT_TIME, rng, disorder=rng.choice((0, 10, 60))),
        stream_of(right, "rt", RIGHT_TIME, rng, disorder=rng.choice((0, 10, 60))),
    ]

    def check(items: list[Any]) -> None:
        assert_rows(
            [item for item in items if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )
        check_promises(items, promised(kind))

    verify_processor(
        joined(kind, keys, (low, high), condition, left, right), inputs, check, priorities=(0, 0)
    )
