"""How columns go to DuckDB and come back: in canonical Arrow types, but that an interval is a
number there."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.columns.batches import empty_columns
from runnel.relation.nodes import Field
from runnel.sqltypes import Kind, SqlType, to_arrow


def carried_schema(types: Sequence[SqlType]) -> pa.Schema:
    """The schema of rows that go to DuckDB: columns c0, c1, …; one of no meaning where there are
    none."""
    fields = [pa.field(f"c{i}", carried_type(item)) for i, item in enumerate(types)]
    return pa.schema(fields or [pa.field("c0", pa.bool_())])


def carried_type(sql_type: SqlType) -> pa.DataType:
    """The Arrow type in which a column goes to DuckDB and comes back."""
    return pa.int64() if sql_type.kind is Kind.INTERVAL else to_arrow(sql_type)


def to_duckdb(batch: pa.RecordBatch, types: Sequence[SqlType], schema: pa.Schema) -> pa.RecordBatch:
    """Rows in canonical types as they go to DuckDB; `schema` is that of `carried_schema`."""
    if not types:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], schema=schema)
    columns = [_carried(array, item) for array, item in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _carried(array: pa.Array, sql_type: SqlType) -> pa.Array:
    return array.view(pa.int64()) if sql_type.kind is Kind.INTERVAL else array


def from_duckdb(batch: pa.RecordBatch, fields: Sequence[Field]) -> pa.RecordBatch:
    """Rows of a result as they are in canonical types, the columns called c0, c1, …."""
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
