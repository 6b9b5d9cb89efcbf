"""GROUP BY and DISTINCT over rows without an end."""

from __future__ import annotations

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.expressions.aggregates.registry import states_of
from runnel.expressions.aggregates.states import (
    Count,
    Extreme,
    SumDecimal,
    SumDouble,
    SumInteger,
)
from runnel.expressions.nodes import AggregateCall, Column
from runnel.processors.grouping.aggregate import aggregate
from runnel.processors.grouping.aggregation import Aggregation, AggregationStage
from runnel.processors.live.accumulated_groups import (
    AccumulatedGroups,
    is_invertible,
    with_counts,
)
from runnel.processors.live.live_processor import LiveProcessor, LiveResult, through
from runnel.processors.live.recomputed_partitions import RecomputedPartitions
from runnel.relation.nodes import Field
from runnel.sqltypes import to_arrow


def needs_rows(aggregates: tuple[AggregateCall, ...], *, is_changing: bool) -> bool:
    """Whether the rows of each group must be retained to maintain it. Otherwise its states are
    enough: if rows only appear, for aggregates whose states do not grow; if rows change, for exact
    sums and counts."""
    if is_changing:
        return not is_invertible(aggregates)
    return any(
        call.distinct or call.python is not None or any(state.grows for state in states_of(call))
        for call in aggregates
    )


_UNORDERED = (Count, Extreme, SumDecimal, SumDouble, SumInteger)
"""States that are the same in any order of the rows, but for the rounding of sums."""


def live_aggregate(
    keys: tuple[Column, ...],
    aggregates: tuple[AggregateCall, ...],
    names: tuple[str, ...],
    fields: tuple[Field, ...],
    *,
    is_changing: bool,
) -> ProcessorFactory:
    """Return a supplier of processors that maintain an aggregation.

    They emit the keys, the aggregates and the weight. All rows of a group must reach one processor.

    keys: the first columns of the input.
    names: the names of keys and aggregates.
    fields: the columns of the input, without the weight.
    is_changing: whether the weight is the last column of the input.
    """
    aggregation = Aggregation(keys, aggregates, names, AggregationStage.SINGLE)
    recomputes = needs_rows(aggregates, is_changing=is_changing)
    is_ordered = not all(isinstance(item, _UNORDERED) for item in aggregation.layout.states)
    bounded = aggregate(keys, aggregates, names, AggregationStage.SINGLE)
    schema, emitted = schema_of_rows(fields), aggregation.schema
    if is_changing and not recomputes:
        calls = with_counts(aggregates)
        more = tuple(f"$count{i}" for i in range(len(calls) - len(aggregates)))
        aggregation = Aggregation(
            keys, calls, (*names, *more), AggregationStage.SINGLE, counts_rows=True
        )

    def make(to: LiveProcessor) -> LiveResult:
        if not recomputes:
            return AccumulatedGroups(
                aggregation,
                len(aggregates),
                to.context.job.evaluation,
                to.check_accumulated,
                is_changing=is_changing,
            )
        return RecomputedPartitions(
            len(keys),
            schema,
            lambda rows: through(bounded, to.context, rows),
            is_changing=is_changing,
            is_ordered=is_ordered,
        )

    return lambda: LiveProcessor(make, emitted)


def schema_of_rows(fields: tuple[Field, ...]) -> pa.Schema:
    """The schema of rows by position."""
    return pa.schema([pa.field(f"c{i}", to_arrow(item.type)) for i, item in enumerate(fields)])
