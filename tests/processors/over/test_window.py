"""The window operator as a processor: snapshots at any time, limits, and the parts that it is made
of."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.expressions.nodes import AggregateCall, Column, SortKey
from runnel.processors.over.row_order import digits_of, joined, order_of
from runnel.processors.over.segment_tree import RangeTree, Values
from runnel.processors.over.window import window
from runnel.relation.over import UP_TO_PEERS, WHOLE_PARTITION, WindowCall
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.testing import verify_processor

KEY = Column(index=0, name="k", type=VARCHAR)
VALUE = Column(index=1, name="v", type=BIGINT)
NUMBER = WindowCall(
    call=AggregateCall(function="row_number", arguments=(), type=BIGINT),
    partition=(KEY,),
    order=(SortKey(VALUE),),
    frame=UP_TO_PEERS,
)
TOTAL = WindowCall(
    call=AggregateCall(function="sum", arguments=(VALUE,), type=BIGINT),
    partition=(KEY,),
    frame=WHOLE_PARTITION,
)


def batch(keys: str, values: list[int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"k": pa.array(list(keys)), "v": pa.array(values, pa.int64())}
    )


def test_the_rows_come_as_they_went_in_with_the_values_beside_them() -> None:
    given = [batch("aba", [3, 1, 2]), batch("bc", [None, 7])]
    expected = [("a", 3, 2, 5), ("b", 1, 2, 1), ("a", 2, 1, 5), ("b", None, 1, 1), ("c", 7, 1, 7)]
    verify_processor(window((NUMBER, TOTAL), 2, ("k", "v", "n", "t")), [given], expected)


def test_no_rows_give_no_rows() -> None:
    verify_processor(window((NUMBER,), 2, ("k", "v", "n")), [[]], [])


def test_only_the_first_columns_are_kept() -> None:
    verify_processor(window((TOTAL,), 1, ("k", "t")), [[batch("ab", [3, 1])]], [("a", 3), ("b", 1)])


def test_a_processor_that_may_not_hold_that_many_rows_says_so(
    connection: runnel.Connection,
) -> None:
    connection.execute("SET max_processor_accumulated_records = 10")
    with pytest.raises(runnel.OperationalError, match="would hold more than 10 rows"):
        connection.execute(
            "SELECT SUM(v) OVER () FROM TABLE(GENERATE_SERIES(1, 20)) AS s(v)"
        ).fetchall()


def sums(left: Values, right: Values) -> Values:
    return (left[0] + right[0],)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 8, 64, 1000])
def test_a_range_tree_gives_what_adding_up_gives(rows: int) -> None:
    source = np.random.default_rng(rows)
    values = source.integers(-5, 5, rows)
    bounds = np.sort(source.integers(0, rows + 1, (200, 2)), axis=1)
    (found,) = RangeTree([values], [0], sums).over(bounds[:, 0], bounds[:, 1])
    assert found.tolist() == [int(values[start:end].sum()) for start, end in bounds]


def test_a_range_tree_keeps_the_order_of_what_it_combines() -> None:
    def first(left: Values, right: Values) -> Values:
        return (np.where(left[0] >= 0, left[0], right[0]),)

    values = np.where(np.arange(50) % 3 == 0, np.arange(50), -1)
    start = np.repeat(np.arange(50), 50)
    end = np.tile(np.arange(50), 50)
    (found,) = RangeTree([values], [-1], first).over(start, end)
    expected = [
        next((i for i in range(a, b) if i % 3 == 0), -1) for a, b in zip(start, end, strict=True)
    ]
    assert found.tolist() == expected


COLUMNS = {
    "narrow": pa.array([3, None, -1, 3, 0], pa.int8()),
    "wide": pa.array([2**62, -(2**63), None, 2**63 - 1, 0], pa.int64()),
    "double": pa.array([0.0, float("nan"), -0.0, None, float("-inf")]),
    "text": pa.array(["b", "", None, "a", "b"]),
    "flag": pa.array([True, None, False, True, False]),
    "decimal": pa.array([1, None, 3, 2, 1], pa.decimal128(38, 2)),
    "list": pa.array([[1], None, [1], [], [2]]),
    "nothing": pa.nulls(5),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_digits_are_equal_where_values_are_the_same(name: str) -> None:
    column = COLUMNS[name]
    digits = digits_of(column, None)
    assert 0 <= digits.values.min() <= digits.values.max() < digits.span
    shown = [
        repr(0.0 if value == 0 and name == "double" else value) for value in column.to_pylist()
    ]
    for i, mine in enumerate(shown):
        assert [digits.values[i] == other for other in digits.values] == [
            mine == other for other in shown
        ]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_rows_are_ordered_as_arrow_orders_them(descending: bool, nulls_first: bool) -> None:
    source = random.Random(4)
    columns = {
        "a": pa.array(source.choices([None, 1, 2, 2**62, -(2**62)], k=300), pa.int64()),
        "b": pa.array(source.choices([None, "", "x", "é", "xy"], k=300)),
        "c": pa.array(source.choices(range(10**18), k=300), pa.int64()),
        "d": pa.array(source.choices([None, *range(50)], k=300), pa.decimal128(20, 0)),
    }
    digits = [digits_of(column, (descending, nulls_first)) for column in columns.values()]
    found = order_of(joined(digits, 300))
    direction, place = (
        "descending" if descending else "ascending",
        "at_start" if nulls_first else "at_end",
    )
    expected = pc.sort_indices(
        pa.table(columns), sort_keys=[(name, direction, place) for name in columns]
    )
    assert found.tolist() == expected.to_pylist()


@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("partition", ["", "PARTITION BY k"])
def test_forgetting_rows_that_are_not_needed_changes_no_answer(
    connection: runnel.Connection, function: str, partition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnel.processors.over.window.PRUNE_ROWS", 50)
    source = random.Random(7)
    table = pa.table(
        {
            "k": source.choices([None, 1, 2, 3], k=900),
            "v": source.choices(range(40), k=900),
            "i": range(900),
        }
    )
    connection.register("t", pa.Table.from_batches(table.to_batches(max_chunksize=40)))
    over = f"{function}() OVER ({partition} ORDER BY v{', i' if function == 'row_number' else ''})"
    inner = f"SELECT k, v, i, {over} AS r FROM t"
    everything = connection.execute(inner).fetchall()
    for condition, keeps in (
        ("r <= 3", lambda r: r <= 3),
        ("2 > r", lambda r: r < 2),
        ("r = 2", lambda r: r == 2),
    ):
        for parallelism in (1, 3):
            connection.execute(f"SET query_parallelism = {parallelism}")
            found = connection.execute(
                f"SELECT * FROM ({inner}) AS x WHERE {condition} AND i >= 0"
            ).fetchall()
            assert sorted(found, key=repr) == sorted(
                (row for row in everything if keeps(row[3])), key=repr
            )
    assert (
        connection.execute(f"SELECT * FROM ({inner}) AS x WHERE r <= ?", (None,)).fetchall() == []
    )
    plan = "\n".join(
        row[0] for row in connection.execute(f"EXPLAIN SELECT * FROM ({inner}) AS x WHERE r <= 3")
    )
    assert "keep: r <= 3" in plan.replace("$" + function + "0", "r")
