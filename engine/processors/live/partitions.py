"""Operators that are computed partition by partition, over rows without an end: OVER, and the first
rows in an order."""

from __future__ import annotations

import pyarrow as pa

from runnel.dag import ProcessorFactory
from runnel.processors.live.aggregate import schema_of_rows
from runnel.processors.live.live_processor import LiveProcessor, LiveResult, through
from runnel.processors.live.recomputed_partitions import RecomputedPartitions
from runnel.relation.nodes import Field
from runnel.sqltypes import to_arrow


def live_partitions(
    bounded: ProcessorFactory,
    keys: int,
    fields: tuple[Field, ...],
    names: tuple[str, ...],
    result: tuple[Field, ...],
    *,
    is_changing: bool,
) -> ProcessorFactory:
    """Return a supplier of processors that maintain the result of an operator.

    They emit the columns of the result and the weight. All rows of a partition must reach one
    processor.

    bounded: creates the processor of bounded queries.
    keys: the number of partition columns, the first columns of the input and of the result.
    fields: the columns of the input, without the weight.
    names, result: the names and the columns of the result, without the weight.
    is_changing: whether the weight is the last column of the input.
    """
    schema = schema_of_rows(fields)
    emitted = pa.schema(
        [pa.field(name, to_arrow(item.type)) for name, item in zip(names, result, strict=True)]
    )

    def make(to: LiveProcessor) -> LiveResult:
        return RecomputedPartitions(
            keys,
            schema,
            lambda rows: through(bounded, to.context, rows),
            is_changing=is_changing,
            is_ordered=True,
        )

    return lambda: LiveProcessor(make, emitted)
