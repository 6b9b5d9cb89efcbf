"""Aggregates that depend on order, statistics, bits and sketches: one stage, two stages, and DuckDB
give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runnel.expressions.aggregates.hyperloglog import Sketch, estimates
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import AggregateCall, Column, Literal, SortKey
from runnel.processors.grouping.aggregate import aggregate
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.sqltypes import DOUBLE, VARCHAR
from runnel.testing import assert_rows
from runnel.testing.rows import rows_of
from tests.processors.random_tables import columns_of, duckdb_rows, outputs, random_table

QUICK: dict[str, Any] = {"row_by_row": False}
HALF = Literal(value=0.5, type=DOUBLE)
COMMA = Literal(value=",", type=VARCHAR)


def calls_of(c: dict[str, Column]) -> dict[str, AggregateCall]:
    """DuckDB's text of each call, and the call."""
    by_i = [SortKey(c["i"]), SortKey(c["w"], True, False)]
    return {
        "corr(t, i)": aggregate_call("corr", [c["t"], c["i"]]),
        "covar_samp(t, i)": aggregate_call("covar_samp", [c["t"], c["i"]]),
        "regr_slope(t, i)": aggregate_call("regr_slope", [c["t"], c["i"]]),
        "regr_intercept(t, i)": aggregate_call("regr_intercept", [c["t"], c["i"]]),
        "regr_count(t, i)": aggregate_call("regr_count", [c["t"], c["i"]]),
        "bit_and(w)": aggregate_call("bit_and", [c["w"]]),
        "bit_or(t)": aggregate_call("bit_or", [c["t"]]),
        "bit_xor(i)": aggregate_call("bit_xor", [c["i"]]),
        "median(i)": aggregate_call("median", [c["i"]]),
        "quantile_cont(t, 0.5)": aggregate_call(
            "percentile_cont", [HALF], order=[SortKey(c["t"])], within_group=True
        ),
        "quantile_disc(s, 0.5)": aggregate_call("quantile_disc", [c["s"], HALF]),
        "array_agg(i order by i, w desc)": aggregate_call("array_agg", [c["i"]], order=by_i),
        "string_agg(s, ',' order by s)": aggregate_call(
            "string_agg", [c["s"], COMMA], order=[SortKey(c["s"])]
        ),
        "array_agg(distinct w order by w desc)": aggregate_call(
            "array_agg", [c["w"]], True, order=[SortKey(c["w"], True, False)]
        ),
        "first(i order by i desc)": aggregate_call(
            "first", [c["i"]], order=[SortKey(c["i"], True, False)]
        ),
        "last(w order by w)": aggregate_call("last", [c["w"]], order=[SortKey(c["w"])]),
        "any_value(d order by d)": aggregate_call("any_value", [c["d"]], order=[SortKey(c["d"])]),
        "max(w)": aggregate_call("arg_max", [c["w"], c["w"]]),
        "min(s)": aggregate_call("arg_min", [c["s"], c["s"]]),
    }


def answers(
    table: pa.Table, keys: str, calls: list[AggregateCall], stages: bool
) -> list[tuple[Any, ...]]:
    columns = columns_of(table)
    by = tuple(columns[key] for key in keys)
    names = tuple(f"c{i}" for i in range(len(keys) + len(calls)))
    if not stages:
        return rows_of(
            outputs(
                aggregate(by, tuple(calls), names, AggregationStage.SINGLE),
                [table.to_batches(max_chunksize=30)],
                **QUICK,
            )
        )
    first = aggregate(by, tuple(calls), names, AggregationStage.ACCUMULATE)
    parts = (table.slice(0, 40), table.slice(40, 1), table.slice(41))
    partial = [
        batch
        for part in parts
        for batch in outputs(first, [part.to_batches(max_chunksize=20)], **QUICK)
    ]
    return rows_of(
        outputs(aggregate(by, tuple(calls), names, AggregationStage.COMBINE), [partial], **QUICK)
    )


@pytest.mark.parametrize("keys", ["", "i", "s", "l"])
@pytest.mark.parametrize("rows", [0, 1, 100])
@pytest.mark.parametrize("stages", [False, True])
def test_agrees_with_duckdb(keys: str, rows: int, stages: bool) -> None:
    table = random_table(rows, rows, "itwrsbdl")
    texts = calls_of(columns_of(table))
    if stages:
        texts = {text: call for text, call in texts.items() if not call.distinct}
    by = ", ".join(keys)
    select = ", ".join([*keys, *texts])
    wanted = rows_of(
        duckdb_rows(f"SELECT {select} FROM t {'GROUP BY ' + by if by else ''}", t=table)
    )
    assert_rows(
        _even(answers(table, keys, list(texts.values()), stages)), _even(wanted), ordered=False
    )


def _even(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """DuckDB's correlation of equal values is NaN, ours, as PostgreSQL's, NULL."""
    return [
        tuple(None if isinstance(value, float) and value != value else value for value in row)
        for row in rows
    ]


def test_sketches_of_parts_are_that_of_the_whole() -> None:
    values = pa.array(np.arange(50_000) % 20_000)
    halves = [_sketch(values.slice(0, 30_000)), _sketch(values.slice(30_000))]
    requests, collect = Sketch().combine([pa.concat_arrays(halves)])
    merged = collect([_one_list(requests[0].column)])[0]
    assert merged.equals(_sketch(values))
    assert abs(estimates(merged)[0] - 20_000) < 1_000


def _sketch(values: pa.Array) -> pa.Array:
    requests, collect = Sketch().accumulate([values], len(values))
    return collect([_one_list(requests[0].column)])[0]


def _one_list(items: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
