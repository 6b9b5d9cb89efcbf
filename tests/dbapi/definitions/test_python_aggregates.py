"""Aggregate functions written in Python, next to built-in ones that do the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.testing import assert_rows
from tests.streams.ended_streams import over_tables, random_table, streamed

TABLE = {
    "k": pa.array([1, 1, 2, 2, 3], pa.int64()),
    "x": pa.array([5, 1, None, 7, None], pa.int64()),
    "y": pa.array([1.0, 2.0, 3.0, 4.0, 5.0]),
}


@pytest.fixture(params=(1, 3))
def con(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(f"SET query_parallelism = {request.param}")
        made.create_aggregate(
            "listed", lambda xs: ",".join(map(str, xs)), ["BIGINT"], "VARCHAR", scalar=True
        )
        made.create_aggregate(
            "spread", lambda x: pc.subtract(pc.max(x), pc.min(x)), [int], int, nulls="skip"
        )
        made.create_aggregate(
            "weighted",
            lambda x, w: np.average(x.to_numpy(), weights=w.to_numpy()),
            [float, int],
            float,
        )
        made.register("t", pa.table(TABLE))
        yield made


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            (
                "SELECT k, listed(x ORDER BY y DESC), spread(x), weighted(y, k) FROM t GROUP BY k "
                "ORDER BY k"
            ),
            [(1, "1,5", 4, 1.5), (2, "7,None", 0, 3.5), (3, "None", None, 5.0)],
        ),
        ("SELECT listed(x), spread(x) FROM t WHERE k > 9", [(None, None)]),
        ("SELECT spread(x), spread(DISTINCT x) FILTER (WHERE y < 3), COUNT(*) FROM t", [(6, 4, 5)]),
        ("SELECT listed(DISTINCT k ORDER BY k DESC) FROM t", [("3,2,1",)]),
        ("SELECT k FROM t GROUP BY k HAVING Spread(x) > 1", [(1,)]),
        (
            "SELECT k, spread(x) + 1 FROM t GROUP BY ROLLUP (k) ORDER BY k",
            [(None, 7), (1, 5), (2, 1), (3, None)],
        ),
        (
            "SELECT listed(k) OVER (ORDER BY y ROWS 1 PRECEDING) FROM t ORDER BY y",
            [("1",), ("1,1",), ("1,2",), ("2,2",), ("2,3",)],
        ),
        (
            "SELECT (SELECT spread(u.x) FROM t AS u WHERE u.k = t.k) FROM t WHERE y < 4 ORDER BY y",
            [(4,), (4,), (0,)],
        ),
    ],
)
def test_they_stand_where_an_aggregate_does(
    con: runnel.Connection, sql: str, expected: list[Any]
) -> None:
    assert con.execute(sql).fetchall() == expected


@pytest.mark.parametrize("seed", range(3))
def test_they_give_what_built_in_ones_give(con: runnel.Connection, seed: int) -> None:
    chance = random.Random(seed)
    rows = [
        (chance.choice((None, 1, 2, 3)), chance.choice((None, *range(9))), chance.random(), i)
        for i in range(3000)
    ]
    con.register(
        "r",
        pa.table(dict(zip(("k", "x", "y", "i"), map(list, zip(*rows, strict=True)), strict=True))),
    )
    text = "STRING_AGG(COALESCE(CAST(x AS VARCHAR), 'None'), ',' ORDER BY y)"
    for rest in (
        "FROM r GROUP BY i % 700",
        "FILTER (WHERE y < 0.5) FROM r GROUP BY CUBE (k, x % 3)",
        "OVER (PARTITION BY k ORDER BY i ROWS 5 PRECEDING) FROM r",
    ):
        assert_rows(
            con.execute(f"SELECT listed(x ORDER BY y) {rest}").fetchall(),
            con.execute(f"SELECT {text} {rest}").fetchall(),
            ordered=False,
        )
    spread = con.execute("SELECT k, spread(x) FROM r GROUP BY k").fetchall()
    assert_rows(
        spread, con.execute("SELECT k, MAX(x) - MIN(x) FROM r GROUP BY k").fetchall(), ordered=False
    )


@pytest.mark.parametrize(
    "rest",
    [
        "{w} GROUP BY window_end, k",
        "{hop} GROUP BY window_end, k",
        "{session} GROUP BY window_end, k",
        "{a} GROUP BY n, k",
    ],
)
def test_windows_of_streams(con: runnel.Connection, rest: str) -> None:
    tables = {"a": random_table(random.Random(5), 200)}
    calls = (
        "k, listed(v ORDER BY v), spread(v) FILTER (WHERE s = 'x'), "
        "listed(DISTINCT n % 3 ORDER BY n % 3)"
    )
    sql = f"SELECT {calls}, COUNT(*) FROM {rest}"
    assert_rows(streamed(con, sql, tables, 5), over_tables(con, sql, tables), ordered=False)


def test_what_goes_wrong(con: runnel.Connection) -> None:
    con.create_aggregate("boom", lambda x: 1 // 0, [int], int)
    con.create_aggregate("text", lambda x: "a", [int], int)
    for sql, message in (
        ("SELECT boom(x) FROM t", "function boom failed"),
        ("SELECT text(x) FROM t", "function text gave a value that isn't BIGINT"),
        ("SELECT spread(y) FROM t", "argument 1 of spread must be BIGINT, not DOUBLE"),
        ("SELECT spread(x, x) FROM t", "spread expects 1 argument, not 2"),
        (
            "SELECT 1 FROM t WHERE spread(x) = 1",
            "aggregate function SPREAD is not allowed in WHERE",
        ),
        (
            "SELECT spread(spread(x)) FROM t",
            "aggregate function SPREAD is not allowed in an aggregate function",
        ),
        ("SELECT spread(x) WITHIN GROUP (ORDER BY y) FROM t", "spread can't have WITHIN GROUP"),
        (
            "SELECT listed(DISTINCT x ORDER BY y) FROM t",
            "with DISTINCT, ORDER BY within listed can only use its arguments",
        ),
        ("SELECT k, spread(x) FROM t", 'column "k" must be in GROUP BY'),
    ):
        with pytest.raises(runnel.Error, match="^" + message.replace("(", r"\(")):
            con.execute(sql).fetchall()
    with pytest.raises(runnel.InterfaceError, match="an aggregate function needs a parameter"):
        con.create_aggregate("none", len, [], int)
    with pytest.raises(runnel.ProgrammingError, match='"sum" is a built-in function'):
        con.create_aggregate("sum", len, [int], int)
    with pytest.raises(runnel.ProgrammingError, match='function "spread" exists already'):
        con.create_aggregate("spread", len, [int], int)


def test_plans_follow_the_function(con: runnel.Connection) -> None:
    sql = "SELECT spread(x) FROM t"
    assert con.execute(sql).fetchall() == [(6,)]
    con.create_aggregate("spread", len, [int], int, replace=True)
    assert con.execute(sql).fetchall() == [(5,)]
    assert ("SPREAD", "aggregate", "BIGINT", "BIGINT", "Python functions") in con.execute(
        "SHOW FUNCTIONS"
    ).fetchall()
    con.drop_function("spread")
    with pytest.raises(runnel.ProgrammingError, match='function "spread" not found'):
        con.execute(sql)
