"""Joins of streams value by value of a time: random disorder and batch cuts, compared with DuckDB's
join of the tables."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from runnel.expressions import build
from runnel.expressions.nodes import Literal
from runnel.processors.joins.build_side import JoinShape
from runnel.processors.stream_joins.sorted_runs import RunBuffer
from runnel.processors.stream_joins.window_join import WindowStreamJoin, window_join
from runnel.relation.nodes import LEFT_ONLY, MARKS, JoinKind
from runnel.relation.stream_joins import JoinTimeBounds, WindowJoinShape
from runnel.relation.streams import TimeBound
from runnel.sqltypes import BIGINT
from runnel.testing import assert_rows, verify_processor
from tests.effort import crossed
from tests.processors.random_tables import columns_of, duckdb_rows, fields_of
from tests.processors.stream_joins.disorder import check_promises, stream_of
from tests.processors.stream_joins.test_interval_join import KINDS, LEFT_TIME, RIGHT_TIME, table_of

UNKNOWN = {
    JoinKind.MARK: "SELECT *, li IN (SELECT ri FROM r WHERE {}) FROM l",
    JoinKind.NULL_ANTI: "SELECT * FROM l WHERE li NOT IN (SELECT ri FROM r WHERE {})",
}


def joined(kind: JoinKind, apart: int, left: pa.Table, right: pa.Table) -> Any:
    """The join on li = ri and rt = lt + apart."""
    fields = (fields_of(left), fields_of(right))
    both = {**columns_of(left), **columns_of(right, left.num_columns)}
    moved = build.call("subtract", [both["rt"], both["lt"]])
    condition = build.call("eq", [moved, Literal(value=apart, type=BIGINT)])
    names = [
        field.name
        for field in (*fields[0], *(() if kind in LEFT_ONLY or kind in MARKS else fields[1]))
    ]
    times = WindowJoinShape(
        time_bounds=JoinTimeBounds(2, 2, apart, apart),
        bounds=(((2, TimeBound(LEFT_TIME)),), ((2, TimeBound(RIGHT_TIME)),)),
    )
    keys = ((columns_of(left)["li"],), (columns_of(right)["ri"],))
    return window_join(
        (JoinShape(kind, condition), times),
        keys,
        fields,
        (*names, *(("matched",) if kind in MARKS else ())),
    )


@pytest.fixture(params=[False, True], ids=["", "in parts"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where rows are in files, and memory has room for a few of them."""
    if request.param:
        monkeypatch.setattr(WindowStreamJoin, "_most_bytes", 150)
        monkeypatch.setattr(RunBuffer, "is_spilled", True)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize(
    ("kind", "seed"),
    crossed([*KINDS, *UNKNOWN], range(4)),
    ids=lambda value: getattr(value, "name", value),
)
def test_agrees_with_duckdb(kind: JoinKind, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    apart = rng.choice((0, 0, 3, -5))
    left, right = (
        table_of(rng, "l", rng.randint(0, 60), "i"),
        table_of(rng, "r", rng.randint(0, 60), "i"),
    )
    equal = "" if kind in UNKNOWN else "li = ri AND "
    wanted = duckdb_rows(
        {**KINDS, **UNKNOWN}[kind].format(f"{equal}rt - lt = {apart}"), l=left, r=right
    )
    inputs = [
        stream_of(left, "lt", LEFT_TIME, rng, disorder=rng.choice((0, 10, 60))),
        stream_of(right, "rt", RIGHT_TIME, rng, disorder=rng.choice((0, 10, 60))),
    ]

    def check(items: list[Any]) -> None:
        assert_rows(
            [item for item in items if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )
        is_left = kind in LEFT_ONLY or kind in MARKS
        check_promises(items, {LEFT_TIME: [2]} if is_left else {LEFT_TIME: [2], RIGHT_TIME: [6]})

    verify_processor(
        joined(kind, apart, left, right), inputs, check, priorities=(0, 0), row_by_row=seed == 0
    )
