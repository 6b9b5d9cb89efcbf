"""An aggregate that overflows points at its call, not at its operand, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

import runnel

ROWS = {
    "g": pa.array([1, 1, 2], pa.int32()),
    "f": pa.array([1e308, 1e308, 1.0]),
    "b": pa.array([2**63 - 1, 2**63 - 1, 1]),
    "d": pa.array([Decimal(10**38 - 1), Decimal(10**38 - 1), Decimal(1)], pa.decimal128(38, 0)),
}
CALLS = {
    "SUM(f - 0": "SELECT SUM(f - 0) FROM t",
    "SUM(f + 0": "SELECT g, SUM(f + 0) FROM t GROUP BY g HAVING COUNT(*) > 1",
    "AVG(f + 0": "SELECT AVG(f + 0), MAX(g + 1) FROM t",
    "SUM(f": "SELECT SUM(f) OVER (ORDER BY g) FROM t",
    "SUM(f * 1": "SELECT SUM(f * 1) OVER (ORDER BY g ROWS 1 PRECEDING) FROM t",
    "SUM(b + 0": "SELECT SUM(b + 0) FROM t",
    "SUM(b - 0": "SELECT SUM(b - 0) OVER (ORDER BY g ROWS 1 PRECEDING) FROM t",
    "SUM(d": "SELECT g, SUM(d) FROM t GROUP BY g",
    "SUM(d + 0": "SELECT SUM(d + 0) FROM t",
    "PRODUCT(f": "SELECT PRODUCT(f) FROM t WHERE g < 2",
    "PRODUCT(f + 0": "SELECT PRODUCT(f + 0) OVER (ORDER BY g) FROM t",
}


@pytest.fixture(scope="module", params=["own", "DuckDB"])
def con(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with (
        runnel.connect(pushdown=False)
        if request.param == "own"
        else runnel.connect(fragment_rows=0) as made
    ):
        made.register("t", pa.table(ROWS))
        yield made


@pytest.mark.parametrize("call", CALLS)
def test_an_overflow_points_at_the_call(con: runnel.Connection, call: str) -> None:
    sql = CALLS[call]
    with pytest.raises(runnel.DataError) as caught:
        con.execute(sql).fetchall()
    at = caught.value.position
    assert at is not None
    assert sql[at.offset : at.offset + at.length] == call


def test_what_fails_in_the_operand_points_there(con: runnel.Connection) -> None:
    sql = "SELECT SUM(b + b) FROM t"
    with pytest.raises(runnel.DataError) as caught:
        con.execute(sql).fetchall()
    at = caught.value.position
    assert at is not None
    assert sql[at.offset : at.offset + at.length] == "b + b"


def test_infinite_factors_are_no_overflow(con: runnel.Connection) -> None:
    sql = "SELECT PRODUCT(x), SUM(x) FROM (VALUES (1e308), (CAST('inf' AS DOUBLE))) AS v(x)"
    assert con.execute(sql).fetchall() == [(float("inf"), float("inf"))]


def test_zero_after_an_overflow_does_not_hide_it(con: runnel.Connection) -> None:
    with pytest.raises(runnel.DataError, match="DOUBLE overflow in PRODUCT"):
        con.execute("SELECT PRODUCT(x) FROM (VALUES (1e308), (1e308), (0e0)) AS v(x)").fetchall()
