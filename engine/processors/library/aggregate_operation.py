"""Aggregate operations for hand-built DAGs: ready-made ones, and the form of your own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen


@frozen(kw_only=True)
class AggregateOperation:
    """How the rows of a group become one value, after Hazelcast Jet.

    `create()` gives an empty accumulator, any Python value that pickles;
    `accumulate(accumulator, rows)` takes the group's rows of one batch (a RecordBatch, never empty)
    and gives the accumulator that replaces it; `combine(a, b)` puts two together; `deduct(a, b)`
    takes b's rows out of a again, where that is possible; `export(accumulator)` gives the value.
    `type` is the Arrow type of the values (None: what Arrow makes of them).

    `equivalent` names the SQL aggregate that gives the same value, and its column (None for
    COUNT(*)): it is used instead, for all groups of a batch at once. The functions are called once
    per group and batch, which is slow where groups are many.
    """

    create: Callable[[], Any]
    accumulate: Callable[[Any, pa.RecordBatch], Any]
    combine: Callable[[Any, Any], Any]
    export: Callable[[Any], Any]
    deduct: Callable[[Any, Any], Any] | None = None
    type: pa.DataType | None = None
    equivalent: tuple[str, str | None] | None = None


def counting() -> AggregateOperation:
    """The number of rows."""
    return AggregateOperation(
        create=int,
        accumulate=lambda count, rows: count + rows.num_rows,
        combine=lambda a, b: a + b,
        deduct=lambda a, b: a - b,
        export=lambda count: count,
        type=pa.int64(),
        equivalent=("count_star", None),
    )


def summing(column: str) -> AggregateOperation:
    """The sum of a numeric column; NULL without values."""
    return AggregateOperation(
        create=lambda: (0, 0),
        accumulate=lambda total, rows: _plus(total, _sum_and_count(rows, column)),
        combine=_plus,
        deduct=lambda a, b: (a[0] - b[0], a[1] - b[1]),
        export=lambda total: total[0] if total[1] else None,
        equivalent=("sum", column),
    )


def averaging(column: str) -> AggregateOperation:
    """The mean of a numeric column; NULL without values."""
    return AggregateOperation(
        create=lambda: (0, 0),
        accumulate=lambda total, rows: _plus(total, _sum_and_count(rows, column)),
        combine=_plus,
        deduct=lambda a, b: (a[0] - b[0], a[1] - b[1]),
        export=lambda total: total[0] / total[1] if total[1] else None,
        equivalent=("avg", column),
    )


def minimum(column: str) -> AggregateOperation:
    """The smallest value of a column; NULL without values."""
    return _extreme("min", column, min)


def maximum(column: str) -> AggregateOperation:
    """The largest value of a column; NULL without values."""
    return _extreme("max", column, max)


def to_list(column: str) -> AggregateOperation:
    """All values of a column, NULLs too, in the order of arrival."""
    return AggregateOperation(
        create=list,
        accumulate=lambda items, rows: [*items, *rows.column(column).to_pylist()],
        combine=lambda a, b: [*a, *b],
        export=lambda items: items,
        equivalent=("array_agg", column),
    )


def _extreme(function: str, column: str, choose: Callable[[Any, Any], Any]) -> AggregateOperation:
    def combine(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return choose(a, b)

    return AggregateOperation(
        create=lambda: None,
        accumulate=lambda known, rows: combine(
            known, pc.call_function(function, [rows.column(column)]).as_py()
        ),
        combine=combine,
        export=lambda known: known,
        equivalent=(function, column),
    )


def _plus(a: tuple[Any, int], b: tuple[Any, int]) -> tuple[Any, int]:
    return a[0] + b[0], a[1] + b[1]


def _sum_and_count(rows: pa.RecordBatch, column: str) -> tuple[Any, int]:
    values = rows.column(column)
    total = pc.sum(values).as_py()
    return 0 if total is None else total, len(values) - values.null_count
