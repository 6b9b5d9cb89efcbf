"""AVG of dates and times: the average of their microseconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runnel.columns.batches import from_numbers
from runnel.expressions.aggregates.function import AggregateFunction, NoRows
from runnel.expressions.aggregates.mapped import Mapped
from runnel.expressions.aggregates.states import AggregateState, Count, SumInteger, filled
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall
from runnel.sqltypes import TIMESTAMP, Kind, SqlType, to_arrow

TIMES_AVERAGE = "avg_time"
"""The key of AVG over dates and times, whose states and result are not the ones of numbers."""


def _temporal(kind: SqlType) -> bool:
    return kind.is_temporal


def average_time(kind: SqlType) -> SqlType:
    """A TIMESTAMP for dates, else the type of the argument."""
    return TIMESTAMP if kind.kind is Kind.DATE else kind


def _micros(arguments: Sequence[pa.Array]) -> pa.Array:
    (column,) = arguments
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("us"))
    return column.view(pa.int64())


def _states(kind: SqlType) -> tuple[AggregateState, ...]:
    return Mapped(SumInteger(), _micros), Count()


# The quotient is rounded to the nearest microsecond, a half downwards as in DuckDB. Of the sums 3
# and 5 of 2 and 3 rows:
#     (2 * 3 − 1) / (2 * 2) = 1.25  → 1   (3 / 2 is 1.5)
#     (2 * 5 − 1) / (2 * 3) = 1.5   → 2   (5 / 3 is 1.67)
# Half of the smallest difference of two quotients is subtracted, so only a half changes.
def _average(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    from runnel.expressions.numbers.decimal_division import quotients

    total = pc.cast(columns[0], pa.decimal256(38, 0))
    counts = np.maximum(filled(columns[1], np.int64), 1)
    one, two = (_scalar(number) for number in (1, 2))
    dividend = pc.subtract(pc.multiply(total, two), one)
    divisor = pc.cast(from_numbers(2 * counts, pa.int64()), pa.decimal128(19, 0))
    micros = quotients(dividend, divisor).view(pa.decimal256(76, 0))
    return pc.cast(micros, pa.int64()).view(to_arrow(call.type))


def _scalar(number: int) -> pa.Scalar:
    return pc.cast(from_numbers(np.array([number], np.int8), pa.int8()), pa.decimal256(3, 0))[0]


FUNCTIONS = [
    AggregateFunction(
        TIMES_AVERAGE,
        _temporal,
        average_time,
        _states,
        _average,
        TIMESTAMP,
        no_rows=NoRows.NULL,
    )
]
