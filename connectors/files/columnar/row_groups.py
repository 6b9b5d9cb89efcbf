"""Selects the row groups of a Parquet file that may have rows for a predicate, by their statistics.

Only conjuncts of the form `column op constant` are used, and only for columns that have the table's
type in the file, so that both sides compare alike. Statistics ignore NaN, which is greater than any
number. Therefore "greater" never skips a row group of a floating-point column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.connectors.comparisons import comparisons
from runnel.connectors.files.format import FileScanRequest, external_name, match_names
from runnel.expressions.nodes import Column
from runnel.sqltypes import to_arrow


def groups_to_read(
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    asked: FileScanRequest,
    parts: Sequence[int] | None,
) -> list[int]:
    """The numbers of the row groups to read, out of `parts` unless that is None."""
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
    column: Column, schema: pa.Schema, metadata: pq.FileMetaData, asked: FileScanRequest
) -> int | None:
    """The number of the Parquet column of a table's column; None unless it is plain, with the
    same type."""
    declared = asked.table_columns[column.index]
    index = match_names([external_name(declared)], schema.names)[0]
    if (
        index is None
        or schema.field(index).type != to_arrow(declared.type)
        or declared.type.is_nested
    ):
        return None
    name = schema.names[index]
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
        # Values that Python cannot compare, for instance of a time unit for which statistics have
        # another class.
        return True


def overlaps(least: Any, largest: Any, operation: str, value: Any) -> bool:
    """Whether `x operation value` may hold for an x from `least` to `largest`.

    If these are floats, x may also be NaN.
    """
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
