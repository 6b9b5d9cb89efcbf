"""Aggregation, compared with DuckDB over random data with edge values, in one stage and in two."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from runnel.errors import DataError, OperationalError, ProgrammingError
from runnel.expressions import build
from runnel.expressions.aggregates.registry import aggregate_call, is_aggregate
from runnel.expressions.nodes import AggregateCall, Column, Expression, Literal
from runnel.processors.grouping import group_state
from runnel.processors.grouping.aggregate import aggregate
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.sqltypes import BIGINT, DOUBLE, INTEGER, VARCHAR, array, decimal
from runnel.testing import assert_rows
from runnel.testing.rows import rows_of
from tests.processors.random_tables import columns_of, duckdb_rows, outputs, random_table

QUICK: dict[str, Any] = {"row_by_row": False}

CALLS = [
    "count(*)",
    "count(i)",
    "sum(t)",
    "sum(i)",
    "sum(w)",
    "sum(d)",
    "sum(f)",
    "avg(i)",
    "avg(r)",
    *(f"{name}({column})" for name in ("min", "max") for column in "tfrsbd"),
    "bool_and(b)",
    "bool_or(b)",
    "var_pop(t)",
    "var_samp(t)",
    "stddev_pop(w)",
    "stddev_samp(i)",
    "count(distinct s)",
    "count(distinct f)",
    "sum(distinct i)",
    "avg(distinct i)",
    "min(distinct s)",
    "sum(i) filter (where t < 100)",
    "count(*) filter (where i = 1)",
    "count(distinct i) filter (where b)",
    "max(s) filter (where i is not null)",
]


def call_of(text: str, columns: dict[str, Column]) -> AggregateCall:
    head, _, condition = text.partition(" filter (where ")
    name, inside = head.rstrip(")").split("(")
    distinct = inside.startswith("distinct ")
    argument = inside.removeprefix("distinct ")
    predicates: dict[str, Expression] = {
        "t < 100": build.call("lt", [columns["t"], Literal(value=100, type=INTEGER)]),
        "i = 1": build.call("eq", [columns["i"], Literal(value=1, type=BIGINT)]),
        "b": columns["b"],
        "i is not null": build.call("is_not_null", [columns["i"]]),
    }
    arguments = [] if argument == "*" else [columns[argument]]
    return aggregate_call(name, arguments, distinct, predicates.get(condition.rstrip(")")))


def grouped(
    table: pa.Table, keys: str, calls: list[AggregateCall], batches: list[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    columns = columns_of(table)
    names = tuple(f"c{i}" for i in range(len(keys) + len(calls)))
    return outputs(
        aggregate(tuple(columns[k] for k in keys), tuple(calls), names, AggregationStage.SINGLE),
        [batches],
        **QUICK,
    )


def in_two_stages(
    table: pa.Table, keys: str, calls: list[AggregateCall], parts: list[list[pa.RecordBatch]]
) -> list[pa.RecordBatch]:
    columns = columns_of(table)
    expressions = tuple(columns[k] for k in keys)
    names = tuple(f"c{i}" for i in range(len(keys) + len(calls)))
    first = aggregate(expressions, tuple(calls), names, AggregationStage.ACCUMULATE)
    last = aggregate(expressions, tuple(calls), names, AggregationStage.COMBINE)
    partial = [batch for part in parts for batch in outputs(first, [part], **QUICK)]
    assert all(batch.schema == partial[0].schema for batch in partial)
    return outputs(last, [partial], **QUICK)


def as_floats(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sums of integers and averages have other types in DuckDB."""
    return [
        tuple(
            float(v) if isinstance(v, int | Decimal) and not isinstance(v, bool) else v for v in row
        )
        for row in rows
    ]


def expected(table: pa.Table, keys: str, calls: list[str]) -> list[tuple[Any, ...]]:
    by = ", ".join(f"case when {k} = 0 then 0 else {k} end" if k in "fr" else k for k in keys)
    select = ", ".join([*([by] if by else []), *calls])
    return as_floats(
        rows_of(duckdb_rows(f"SELECT {select} FROM t {'GROUP BY ' + by if by else ''}", t=table))
    )


@pytest.mark.parametrize("keys", ["", "i", "s", "f", "is", "bd", "l", "lr"])
@pytest.mark.parametrize("rows", [0, 1, 90])
def test_agrees_with_duckdb(keys: str, rows: int) -> None:
    table = random_table(rows + len(keys), rows, "itwfrsbdl").filter(
        pa.compute.invert(pa.compute.is_inf(_filled(rows + len(keys), rows)))
    )
    calls = [call_of(text, columns_of(table)) for text in CALLS]
    actual = as_floats(rows_of(grouped(table, keys, calls, table.to_batches(max_chunksize=40))))
    assert_rows(actual, expected(table, keys, CALLS), ordered=False)


def _filled(seed: int, rows: int) -> pa.Array:
    """Column f without NULL: infinities are left out, since DuckDB refuses them in STDDEV."""
    return pa.compute.fill_null(random_table(seed, rows, "itwfrsbdl").column("f"), 0.0)


@pytest.mark.parametrize("keys", ["", "i", "sf", "l"])
def test_two_stages_give_the_same(keys: str) -> None:
    table = random_table(7, 120, "itwrsbdl")
    texts = (
        [
            text
            for text in CALLS
            if "f)" not in text and not call_of(text, columns_of(table)).distinct
        ]
        if "f" not in keys
        else ["count(*)"]
    )
    if "f" in keys:
        table = random_table(7, 120, "itwfrsbdl")
    calls = [call_of(text, columns_of(table)) for text in texts]
    parts = [table.slice(0, 50).to_batches(max_chunksize=20), [], table.slice(50).to_batches()]
    actual = as_floats(rows_of(in_two_stages(table, keys, calls, parts)))
    assert_rows(actual, expected(table, keys, texts), ordered=False)


def test_states_are_collapsed_and_combined_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_state, "BUFFERED_ROWS", 8)
    monkeypatch.setattr(group_state, "BUFFERED_ROWS_UNKEYED", 8)
    monkeypatch.setattr(group_state, "COMBINED_ROWS", 6)
    table = random_table(3, 60, "itwrsbdl")
    texts = [text for text in CALLS if "f)" not in text]
    calls = [call_of(text, columns_of(table)) for text in texts]
    for keys in ("", "w"):
        actual = as_floats(rows_of(grouped(table, keys, calls, table.to_batches(max_chunksize=5))))
        assert_rows(actual, expected(table, keys, texts), ordered=False)


def test_an_accumulating_stage_passes_on_what_it_cannot_shrink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_state, "BUFFERED_ROWS", 8)
    table = random_table(3, 64, "n")
    (n,) = columns_of(table).values()
    supplier = aggregate(
        (n,), (aggregate_call("count", []),), ("n", "c"), AggregationStage.ACCUMULATE
    )
    batches = outputs(supplier, [table.to_batches(max_chunksize=16)], **QUICK)
    assert len(batches) > 1
    assert sum(batch.num_rows for batch in batches) == 64


def test_without_keys_and_rows_there_is_one_row() -> None:
    table = random_table(1, 0, "itwfrsbdl")
    calls = [call_of(text, columns_of(table)) for text in CALLS]
    assert [batch.num_rows for batch in grouped(table, "", calls, [])] == [1]
    combine = aggregate(
        (), (aggregate_call("sum", [columns_of(table)["i"]]),), ("sum",), AggregationStage.COMBINE
    )
    assert_rows(outputs(combine, [[]], **QUICK), [(None,)])


def test_distinct_rows() -> None:
    table = random_table(4, 60, "fl")
    actual = grouped(table, "fl", [], table.to_batches(max_chunksize=7))
    wanted = duckdb_rows("SELECT DISTINCT case when f = 0 then 0 else f end, l FROM t", t=table)
    assert_rows(actual, wanted, ordered=False)


def sum_of(values: list[Any], arrow: pa.DataType, name: str = "sum", **options: Any) -> list[Any]:
    table = pa.table([pa.array(values, arrow)], names=["x"])
    call = aggregate_call(name, list(columns_of(table).values()), **options)
    return [
        row[0] for row in rows_of(grouped(table, "", [call], table.to_batches(max_chunksize=2)))
    ]


def test_a_sum_beyond_bigint_is_an_error() -> None:
    with pytest.raises(DataError, match="BIGINT overflow in SUM"):
        sum_of([2**63 - 1, 1, 0], pa.int64())
    with pytest.raises(DataError, match="BIGINT overflow in SUM"):
        sum_of([-(2**63), -1], pa.int64())


def test_a_sum_that_comes_back_into_range_is_none() -> None:
    assert sum_of([2**63 - 1, 1, -5, None], pa.int64()) == [2**63 - 5]
    table = pa.table([pa.array([2**63 - 1, 1, -5])], names=["x"])
    call = aggregate_call("sum", list(columns_of(table).values()))
    assert_rows(
        in_two_stages(
            table, "", [call], [table.slice(0, 2).to_batches(), table.slice(2).to_batches()]
        ),
        [(2**63 - 5,)],
    )


def test_decimal_sums_beyond_38_digits_are_errors() -> None:
    large = Decimal("9" * 38)
    assert sum_of([large, None], pa.decimal128(38, 0)) == [large]
    assert sum_of([large, Decimal(1), Decimal(-2)], pa.decimal128(38, 0)) == [
        Decimal("9" * 37 + "8")
    ]
    with pytest.raises(DataError, match="overflow in SUM"):
        sum_of([large, Decimal(1)], pa.decimal128(38, 0))


def test_a_double_sum_that_overflows_is_an_error_but_infinity_is_not() -> None:
    with pytest.raises(DataError, match="DOUBLE overflow in SUM"):
        sum_of([1.7e308, 1.7e308], pa.float64())
    with pytest.raises(DataError, match="DOUBLE overflow in SUM"):
        sum_of([1.7e308, 0.0, 1.7e308], pa.float64())
    assert sum_of([float("inf"), 1.0], pa.float64()) == [float("inf")]


@pytest.mark.parametrize(
    ("precision", "scale", "result"),
    [
        (10, 2, (24, 16)),
        (38, 0, (38, 0)),
        (30, 20, (30, 20)),
        (20, 0, (36, 16)),
        (38, 38, (38, 38)),
    ],
)
def test_decimal_averages_round_half_up(
    precision: int, scale: int, result: tuple[int, int]
) -> None:
    with localcontext(prec=100):
        unit = Decimal(1).scaleb(-scale)
        largest = (10**precision - 1) * unit
        values = [unit, unit * 2, -unit * 7, largest, None]
        for sign in (1, -1):
            signed = [None if value is None else value * sign for value in values]
            table = pa.table([pa.array(signed, pa.decimal128(precision, scale))], names=["x"])
            call = aggregate_call("avg", list(columns_of(table).values()))
            assert call.type == decimal(*result)
            mean = sign * (largest - 4 * unit) / 4
            wanted = mean.quantize(Decimal(1).scaleb(-result[1]), ROUND_HALF_UP)
            assert rows_of(grouped(table, "", [call], table.to_batches())) == [(wanted,)]


def test_variance_keeps_its_precision_far_from_zero() -> None:
    values = [1e9 + v for v in (4.0, 7.0, 13.0, 16.0)]
    assert sum_of(values, pa.float64(), "var_samp") == [pytest.approx(30.0, rel=1e-9)]


def test_lists_keep_the_order_of_arrival_and_nulls() -> None:
    table = pa.table(
        [pa.array([1, 2, 1, 2, 3]), pa.array(["a", None, None, "b", None])], names=["k", "s"]
    )
    columns = columns_of(table)
    separator = Literal(value=", ", type=VARCHAR)
    calls = [
        aggregate_call("array_agg", [columns["s"]]),
        aggregate_call("string_agg", [columns["s"], separator]),
    ]
    assert calls[0].type == array(VARCHAR)
    wanted = [(1, ["a", None], "a"), (2, [None, "b"], "b"), (3, [None], None)]
    assert_rows(
        grouped(table, "k", calls, table.to_batches(max_chunksize=2)), wanted, ordered=False
    )
    parts = [table.slice(0, 2).to_batches(), table.slice(2).to_batches()]
    assert_rows(in_two_stages(table, "k", calls, parts), wanted, ordered=False)
    assert_rows(
        grouped(table, "", calls, table.to_batches(max_chunksize=2)),
        [(["a", None, None, "b", None], "a, b")],
    )


def test_lists_with_filter_and_distinct() -> None:
    table = pa.table([pa.array([1, 1, 1, 2]), pa.array([5, None, 5, 7])], names=["k", "x"])
    k, x = columns_of(table).values()
    is_one = build.call("eq", [k, Literal(value=1, type=BIGINT)])
    calls = [
        aggregate_call("array_agg", [x], predicate=is_one),
        aggregate_call("array_agg", [x], distinct=True, predicate=is_one),
    ]
    wanted = [(1, [5, None, 5], [5, None]), (2, None, None)]
    assert_rows(
        grouped(table, "k", calls, table.to_batches(max_chunksize=1)), wanted, ordered=False
    )


def test_any_value_of_every_type() -> None:
    table = random_table(2, 30, "itwfrsbdl")
    calls = [aggregate_call("any_value", [column]) for column in columns_of(table).values()]
    (row,) = rows_of(grouped(table, "", calls, table.to_batches(max_chunksize=4)))
    for column, value in zip(table.columns, row, strict=True):
        assert repr(value) in {repr(item) for item in column.drop_null().to_pylist()}


def test_a_filter_protects_its_argument() -> None:
    table = pa.table([pa.array([1, 0, 2])], names=["x"])
    (x,) = columns_of(table).values()
    quotient = build.call("divide", [Literal(value=10, type=BIGINT), x])
    not_zero = build.call("ne", [x, Literal(value=0, type=BIGINT)])
    call = aggregate_call("sum", [quotient], predicate=not_zero)
    assert_rows(grouped(table, "", [call], table.to_batches()), [(15,)])


def test_too_many_groups() -> None:
    table = random_table(1, 100, "n")
    (n,) = columns_of(table).values()
    with pytest.raises(
        OperationalError, match='vertex "verified" would hold more than 50 rows'
    ) as raised:
        outputs(
            aggregate((n,), (), ("n",), AggregationStage.SINGLE),
            [table.to_batches()],
            accumulation_limit=50,
            **QUICK,
        )
    assert "max_processor_accumulated_records or the job option maxProcessor" in str(
        raised.value.hint
    )


def test_the_binder_refuses_what_does_not_fit() -> None:
    text = Column(index=0, name="s", type=VARCHAR)
    assert is_aggregate("Sum") and not is_aggregate("lower")
    with pytest.raises(ProgrammingError, match="cannot apply aggregate function SUM to VARCHAR"):
        aggregate_call("SUM", [text])
    with pytest.raises(ProgrammingError, match="expects 1 argument, not 2"):
        aggregate_call("max", [text, text])
    with pytest.raises(
        ProgrammingError, match='aggregate function "summ" does not exist'
    ) as raised:
        aggregate_call("summ", [text])
    assert raised.value.hint == 'did you mean "sum"?'
    with pytest.raises(
        ProgrammingError, match=r"cannot apply aggregate function MODE to BIGINT\[\]"
    ):
        aggregate_call("mode", [Column(index=0, name="a", type=array(BIGINT))])


def test_result_types() -> None:
    def type_of(name: str, kind: Any) -> Any:
        return aggregate_call(name, [Column(index=0, name="x", type=kind)]).type

    assert type_of("count", VARCHAR) == BIGINT
    assert type_of("sum", INTEGER) == BIGINT
    assert type_of("sum", decimal(10, 2)) == decimal(38, 2)
    assert type_of("sum", DOUBLE) == DOUBLE
    assert type_of("avg", INTEGER) == DOUBLE
    assert type_of("max", VARCHAR) == VARCHAR
    assert type_of("stddev", INTEGER) == DOUBLE
