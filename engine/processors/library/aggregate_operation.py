"""Aggregate operations for hand-built DAGs: ready-made ones, and the class to define new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.dag import storable

LIBRARY = "runnel.processors.library"
"""The module that users import the library from; records name it."""


@frozen(kw_only=True)
class AggregateOperation:
    """How the rows of a group become one value, as in Hazelcast Jet.

    The functions are called once per group and batch, which is slow if there are many groups.

    create: returns an empty accumulator, which can be any Python value that pickles; in a named
        job, one that has a stored form (numbers, texts, times, and lists, tuples, dicts, frozensets
        and dataclasses of them, not subclasses).
    accumulate: is called with an accumulator and the group's rows of one batch (a RecordBatch,
        never empty); returns the accumulator that replaces it.
    combine: returns the combination of two accumulators.
    export: returns the value of an accumulator.
    deduct: removes the rows of the second accumulator from the first and returns the result; None
        if that is impossible.
    type: the Arrow type of the values; None: the type that Arrow infers.
    equivalent: the name of the SQL aggregate with the same value, and its column (None for
        COUNT(*)); it is used instead of the functions, for all groups of a batch at once.
    """

    __module__ = LIBRARY

    create: Callable[[], Any]
    accumulate: Callable[[Any, pa.RecordBatch], Any]
    combine: Callable[[Any, Any], Any]
    export: Callable[[Any], Any]
    deduct: Callable[[Any, Any], Any] | None = None
    type: pa.DataType | None = None
    equivalent: tuple[str, str | None] | None = None


@storable(LIBRARY)
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


@storable(LIBRARY)
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


@storable(LIBRARY)
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


@storable(LIBRARY)
def minimum(column: str) -> AggregateOperation:
    """The smallest value of a column; NULL without values."""
    return _extreme("min", column, min)


@storable(LIBRARY)
def maximum(column: str) -> AggregateOperation:
    """The largest value of a column; NULL without values."""
    return _extreme("max", column, max)


@storable(LIBRARY)
def to_list(column: str) -> AggregateOperation:
    """All values of a column, including NULLs, in the order of arrival."""
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
