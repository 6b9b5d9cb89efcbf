"""Which row groups of a Parquet file may have rows for a predicate, by their smallest and largest
values.

Only conjuncts of the form `column op constant` count, and only on columns that the file has in the
table's own type, so that both sides compare alike. Statistics know nothing of NaN, which is larger
than any number: "greater" leaves no group of a floating column out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.connectors.comparisons import comparisons
from runnel.connectors.files.format import Reading, external_name, match_names
from runnel.expressions.nodes import Column
from runnel.sqltypes import to_arrow


def groups_to_read(
    metadata: pq.FileMetaData, schema: pa.Schema, asked: Reading, parts: Sequence[int] | None
) -> list[int]:
    """The numbers of the row groups to read, of `parts` if that is given."""
    groups = list(range(metadata.num_row_groups) if parts is None else parts)
    for test in comparisons(asked.predicate, asked.evaluation):
        leaf = _leaf_of(test.column, schema, metadata, asked)
        if leaf is not None:
            groups = [
                item
                for item in groups
                if _may_match(metadata.row_group(item).column(leaf), test.operation, test.values)
            ]
    return groups


def _leaf_of(
    column: Column, schema: pa.Schema, metadata: pq.FileMetaData, asked: Reading
) -> int | None:
    """The number of the Parquet column behind a table's column, if it is a plain one of the same
    type."""
    wanted = asked.table_columns[column.index]
    place = match_names([external_name(wanted)], schema.names)[0]
    if place is None or schema.field(place).type != to_arrow(wanted.type) or wanted.type.is_nested:
        return None
    name = schema.names[place]
    leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name]
    return leaves[0] if len(leaves) == 1 else None


def _may_match(chunk: pq.ColumnChunkMetaData, operation: str, values: Sequence[Any]) -> bool:
    statistics = chunk.statistics
    if statistics is None:
        return True
    if statistics.has_null_count and statistics.null_count == chunk.num_values and chunk.num_values:
        return False
    if not statistics.has_min_max:
        return True
    try:
        return any(overlaps(statistics.min, statistics.max, operation, value) for value in values)
    except (TypeError, ValueError, ArithmeticError):
        # Values that Python can't compare, such as of a time unit that statistics give in another
        # class.
        return True


def overlaps(least: Any, largest: Any, operation: str, value: Any) -> bool:
    """Whether `x operation value` may hold for an x from `least` to `largest`, or for NaN if these
    are floats."""
    if value is None:
        return False
    if isinstance(value, float) and math.isnan(value):
        return True
    may_be_nan = isinstance(largest, float)
    if operation == "eq":
        return bool(least <= value <= largest)
    if operation == "lt":
        return bool(least < value)
    if operation == "le":
        return bool(least <= value)
    return may_be_nan or bool(largest > value if operation == "gt" else largest >= value)
