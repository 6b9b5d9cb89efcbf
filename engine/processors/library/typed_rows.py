"""Batches of hand-built DAGs as rows with SQL types.

A hand-built DAG has no schema before its first batch, so the steps that reuse SQL operators compile
their expressions when they know the types.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runnel.errors import ProgrammingError, suggest
from runnel.expressions import build
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import canonical
from runnel.expressions.nodes import Column
from runnel.processors.calc import Transform, compile_projection
from runnel.relation.nodes import Field
from runnel.sqltypes import SqlType, from_arrow


def field_of(schema: pa.Schema, name: str) -> pa.Field:
    """Return the field of a column; ProgrammingError if it doesn't exist."""
    if name not in schema.names:
        known = f"the batch has: {', '.join(schema.names)}"
        raise ProgrammingError(
            f'column "{name}" not found in the batch', hint=suggest(name, schema.names, known)
        )
    return schema.field(name)


def column_of(schema: pa.Schema, name: str) -> Column:
    """Return a reference to a column of the batches; ProgrammingError if it doesn't exist."""
    field = field_of(schema, name)
    return Column(index=schema.names.index(name), name=name, type=from_arrow(field.type))


def fields_of(schema: pa.Schema) -> list[Field]:
    """Return the columns with their SQL types."""
    return [Field(item.name, from_arrow(item.type)) for item in schema]


def canonical_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert each column to the Arrow type that expressions expect for its SQL type."""
    arrays = [canonical(column, from_arrow(column.type)) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


class Assignment:
    """Converts batches to named columns with given types, as INSERT does.

    columns: name and type of each column of the result; a batch has columns with these names.
    is_exact: whether a batch must have no other columns.
    """

    def __init__(self, columns: Sequence[tuple[str, SqlType]], *, is_exact: bool) -> None:
        self._columns = columns
        self._is_exact = is_exact
        self._schema: pa.Schema | None = None
        self._project: Transform | None = None

    def converted(self, batch: pa.RecordBatch, context: EvaluationContext) -> pa.RecordBatch:
        """Return the columns of the result."""
        if self._project is None or batch.schema != self._schema:
            self._project = self._compile(batch.schema)
            self._schema = batch.schema
        return self._project(canonical_batch(batch), context)

    def _compile(self, schema: pa.Schema) -> Transform:
        names = tuple(name for name, _ in self._columns)
        others = [name for name in schema.names if name not in names]
        if self._is_exact and others:
            raise ProgrammingError(
                f'the batch has column "{others[0]}", which is not written',
                detail=f"the columns that are written are {', '.join(names)}",
                hint="name the columns to write, or drop other columns by map_batches",
            )
        expressions = tuple(
            build.assign(column_of(schema, name), kind, name) for name, kind in self._columns
        )
        return compile_projection(expressions, names)
