"""Conversion of columns for DuckDB and back: canonical Arrow types, except that an interval is a
number."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.columns.batches import empty_columns
from runnel.relation.nodes import Field
from runnel.sqltypes import Kind, SqlType, to_arrow


def carried_schema(types: Sequence[SqlType]) -> pa.Schema:
    """The schema of rows for DuckDB: columns c0, c1, …. Rows without columns have one to ignore."""
    fields = [pa.field(f"c{i}", carried_type(item)) for i, item in enumerate(types)]
    return pa.schema(fields or [pa.field("c0", pa.bool_())])


def carried_type(sql_type: SqlType) -> pa.DataType:
    """The Arrow type of a column for DuckDB and from DuckDB."""
    return pa.int64() if sql_type.kind is Kind.INTERVAL else to_arrow(sql_type)


def to_duckdb(batch: pa.RecordBatch, types: Sequence[SqlType], schema: pa.Schema) -> pa.RecordBatch:
    """Rows in canonical types, converted for DuckDB. `schema` comes from `carried_schema`."""
    if not types:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], schema=schema)
    columns = [_carried(array, item) for array, item in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _carried(array: pa.Array, sql_type: SqlType) -> pa.Array:
    return array.view(pa.int64()) if sql_type.kind is Kind.INTERVAL else array


def from_duckdb(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """The rows of a result in canonical types, with the columns c0, c1, …."""
    if not fields:
        return empty_columns(batch.num_rows)
    columns = [
        _canonical(array, item.type) for array, item in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def _canonical(array: pa.Array, sql_type: SqlType) -> pa.Array:
    target = to_arrow(sql_type)
    if array.type == target:
        return array
    if sql_type.kind is Kind.INTERVAL:
        return array.view(target)
    if sql_type.kind is Kind.NULL:
        return pa.nulls(len(array))
    from runnel.expressions.kernels.canonical import canonical

    return canonical(array, sql_type)
