"""An aggregate whose states are `Mapped`: rows leave frames and windows by subtraction, and streams
compute it over all earlier rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.columns.batches import from_numbers, validity
from runnel.expressions.aggregates import registry
from runnel.expressions.aggregates.function import AggregateFunction, double, integral
from runnel.expressions.aggregates.mapped import Mapped
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.aggregates.states import Count, Extreme, SumDecimal, SumInteger, filled
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall
from runnel.processors.over.aggregates import _OverFrames
from runnel.processors.over.streamed import ordered_window
from runnel.processors.stateful.row_buffer import Buffering
from runnel.processors.time_windows.framed_aggregate import FramedAggregateProcessor
from runnel.relation.streams import TimeBound
from runnel.relation.window_reach import Reach
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.processors.over.test_streamed import BY_ROW, SCHEMA, T, V, over, stream
from tests.processors.random_tables import duckdb_rows
from tests.streams.ended_streams import in_duckdb, over_tables, random_table, streamed

UNBOUNDED = " OPTIONS ('allowUnboundedState'='true')"


def plus_one(columns: list[pa.Array]) -> pa.Array:
    return pc.add(columns[0].cast(pa.int64()), 1)


def cents(columns: list[pa.Array]) -> pa.Array:
    return columns[0].cast(pa.decimal128(20, 0)).cast(pa.decimal128(38, 2))


def is_seven(columns: list[pa.Array]) -> np.ndarray:
    return filled(columns[0].cast(pa.int64()), np.int64) == 7


def mixed(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    """For n arguments: the sum of x + 1, plus ten times the sum of x, plus the greatest x + 1, plus
    n.
    """
    total, tens, greatest, count = (
        filled(column.cast(pa.float64()), np.float64) for column in columns
    )
    some = validity(columns[0])
    return from_numbers(total + 10 * tens + greatest + count, pa.float64(), some)


MIXED = AggregateFunction(
    "mixed",
    accepts=integral,
    result=double,
    states=lambda kind: (
        Mapped(SumInteger(), plus_one, is_seven, "MIXED of a seven"),
        Mapped(SumDecimal(38, 2), cents),
        Mapped(Extreme("max", pa.int64()), plus_one),
        Count(),
    ),
    finish=mixed,
)

IN_DUCKDB = "SUM(v + 1){0} + 10 * SUM(v){0} + MAX(v + 1){0} + COUNT(v){0}"


@pytest.fixture(params=[1, 2])
def connection(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[runnel.Connection]:
    monkeypatch.setitem(registry.AGGREGATES, "mixed", MIXED)  # type: ignore[arg-type]
    monkeypatch.setitem(registry._SQL_NAMES, "mixed", "mixed")
    with runnel.connect(query_parallelism=request.param) as made:
        yield made


def table(seed: str) -> pa.Table:
    """Random rows, without the invalid value."""
    found = random_table(random.Random(seed), 150)
    values = pc.if_else(pc.equal(found["v"], 7), pa.scalar(None, pa.int64()), found["v"])
    return found.set_column(found.schema.get_field_index("v"), "v", values)


OVER = {
    "moving": " OVER (PARTITION BY k ORDER BY n, v RANGE BETWEEN 7 PRECEDING AND CURRENT ROW)",
    "moving rows": " OVER (PARTITION BY k ORDER BY n, v ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
    "running": " OVER (PARTITION BY k ORDER BY n NULLS LAST, v)",
    "running of some": " FILTER (WHERE s = 'x') OVER (PARTITION BY k ORDER BY n NULLS LAST)",
    "running of all": " OVER (ORDER BY n NULLS LAST, v ROWS UNBOUNDED PRECEDING)",
}
OVER["moving"] = OVER["moving"].replace("ORDER BY n, v", "ORDER BY n NULLS LAST")
OVER["moving rows"] = OVER["moving rows"].replace("ORDER BY n, v", "ORDER BY n NULLS LAST, v")


@pytest.mark.parametrize("name", OVER)
def test_over(connection: runnel.Connection, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over tables and streams, with no frame expanded."""

    def expanded(*arguments: object) -> None:
        raise AssertionError("frames are expanded")

    monkeypatch.setattr(_OverFrames, "_expanded", expanded)
    tables = {"a": table(name)}
    expected = in_duckdb(f"SELECT n, s, {IN_DUCKDB.format(OVER[name])} AS c FROM {{a}}", tables)
    sql = f"SELECT n, s, MIXED(v){OVER[name]} AS c FROM {{a}}"
    found = over_tables(connection, sql, tables)
    assert sorted(map(repr, found)) == sorted(map(repr, as_doubles(expected)))
    found = streamed(connection, sql + UNBOUNDED, tables, 3)
    assert sorted(map(repr, found)) == sorted(map(repr, as_doubles(expected)))


@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize("seed", range(2))
def test_running_values_in_a_snapshot(seed: int) -> None:
    """They are stored, and continue, at every point of a stream."""
    items, rows = stream(seed)
    calls = (over(aggregate_call("mixed", [V]), BY_ROW),)
    holding = Buffering(((T, TimeBound(1)),), 0)
    names = (*SCHEMA.names, "x")
    supplier = ordered_window(
        calls, (Reach(is_running=True),), (len(SCHEMA), names), holding, ((0, 1),)
    )
    frame = "OVER (PARTITION BY k ORDER BY t NULLS LAST, i)"
    sql = f"SELECT i, {IN_DUCKDB.format(f' {frame}')} FROM t"
    expected = duckdb_rows(sql, t=pa.Table.from_batches(rows, SCHEMA))

    def check(found: list[Any]) -> None:
        batches = [item.select(["i", "x"]) for item in found if isinstance(item, pa.RecordBatch)]
        assert_rows(batches, as_doubles(rows_of(expected)), ordered=False)

    verify_processor(supplier, [items], check, row_by_row=seed == 0)


def as_doubles(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [(*row[:-1], None if row[-1] is None else float(str(row[-1]))) for row in rows]


def test_windows_that_overlap(
    connection: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sparse(*arguments: object) -> None:
        raise AssertionError("windows are combined by a group-by")

    monkeypatch.setattr(FramedAggregateProcessor, "_sparse_frames", sparse)
    tables = {"a": table("windows")}
    hop = "HOP(TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20)), DESCRIPTOR(n), 20, 5)"
    sql = f"SELECT window_end, k, MIXED(v) FROM TABLE({hop}) GROUP BY window_end, k"
    found = streamed(connection, sql, tables, 1)
    parts = IN_DUCKDB.format("").replace("SUM(v)", "SUM(CAST(v AS DOUBLE))")
    connection.register("b", tables["a"])
    hop = hop.replace("TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(n), 20))", "TABLE b")
    expected = connection.execute(
        f"SELECT window_end, k, {parts} FROM TABLE({hop}) GROUP BY window_end, k"
    ).fetchall()
    assert len(found) > 50
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


ROWS = "(VALUES (1, 5), (2, 7), (3, NULL), (4, 9)) AS t(n, v)"


def test_an_invalid_argument(connection: runnel.Connection) -> None:
    """It is an error where it counts: in a group, in a frame; not under FILTER."""
    with pytest.raises(runnel.DataError, match="MIXED of a seven") as raised:
        connection.execute(f"SELECT MIXED(v) FROM {ROWS}").fetchall()
    assert raised.value.position is not None
    frame = "OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND {})"
    with pytest.raises(runnel.DataError, match="MIXED of a seven"):
        connection.execute(f"SELECT MIXED(v) {frame.format('CURRENT ROW')} FROM {ROWS}").fetchall()
    without = "OVER (ORDER BY n ROWS BETWEEN 4 FOLLOWING AND 5 FOLLOWING)"
    found = connection.execute(f"SELECT MIXED(v) {without} FROM {ROWS}").fetchall()
    assert found == [(None,)] * 4
    found = connection.execute(f"SELECT MIXED(v) FILTER (WHERE v <> 7) FROM {ROWS}").fetchall()
    assert found == [(6 + 10 + 140 + 10 + 2.0,)]
    found = connection.execute(f"SELECT MIXED(DISTINCT v) FROM {ROWS} WHERE v = 5").fetchall()
    assert found == [(6 + 50 + 6 + 1.0,)]
