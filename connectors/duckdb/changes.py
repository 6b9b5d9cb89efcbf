"""Changes within DuckDB: the rows of a fragment over DuckDB tables are written to one of them in
one statement, without leaving DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.connector import SinkRequest, Source, SourcePartition, WriteMode
from runnel.connectors.duckdb.fragments import DuckDBFragment, FragmentPartition
from runnel.connectors.duckdb.location import ChangedTable, TableLocation
from runnel.connectors.duckdb.sink import ADDED, change_statement
from runnel.connectors.duckdb.types import quoted
from runnel.duckdb.stream import DuckDBStream
from runnel.errors import Error, Position
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Column, Expression, columns_of, transform
from runnel.foreign.fragment import FragmentSource, position_of
from runnel.processor import JobContext
from runnel.relation.nodes import Filter, Project, Relation, Scan, references
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.render import Rendering, RenderingContext
from runnel.sqltypes import BIGINT, SqlType, to_arrow

_COUNT = pa.schema([pa.field("count", to_arrow(BIGINT))])


def written_by(
    table: ChangedTable, fragment: Source, request: SinkRequest
) -> FragmentSource | None:
    """The change as one DuckDB statement.

    None if the fragment reads other tables than DuckDB's, or if the rows have types that are
    transferred in another form (intervals, nested types).
    """
    if not isinstance(fragment, DuckDBFragment) or not fragment.is_own:
        return None
    columns = (
        request.columns[1:]
        if request.mode in (WriteMode.UPDATE, WriteMode.DELETE)
        else request.columns
    )
    if any(
        i >= len(table.duck_columns) or not _is_plain(table.duck_columns[i].column.type)
        for i in columns
    ):
        return None
    return DuckDBChange(table, fragment, request)


def _is_plain(sql_type: SqlType) -> bool:
    return not (sql_type.is_nested or sql_type.is_interval)


class DuckDBChange(FragmentSource):
    """Runs the statement when it is read, and returns the number of changed rows."""

    cooperative = False
    engine = "DuckDB"

    def __init__(self, table: ChangedTable, fragment: DuckDBFragment, request: SinkRequest) -> None:
        self._table = table
        self._fragment = fragment
        self._request = request
        self._in_place = in_place(table, fragment.relation, request)
        self.text = self._statement(Rendering(DUCKDB), fragment.text)

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        evaluation = context.evaluation
        arguments = tuple(value.as_py() for value in evaluation.arguments)
        rendering = Rendering(
            DUCKDB, RenderingContext(arguments=arguments, zone=evaluation.zone, now=evaluation.now)
        )
        rows = "" if self._in_place is not None else self._fragment.own_query(context)
        place = partial(position_of, self._fragment.relation)
        stream = _ChangeStream(self._table.location, self._statement(rendering, rows), place)
        return [_ChangePartition(self._table, stream, ADDED.get(self._request.mode))]

    def _statement(self, rendering: Rendering, rows: str) -> str:
        if self._in_place is None:
            return change_statement(self._table, self._request, f"({rows})")
        return self._in_place.statement(rendering)


@frozen
class InPlace:
    """An UPDATE or DELETE of the rows of one table that satisfy conditions.

    No row has to be looked up by its number, which takes ten times as long. The expressions are
    over all columns of the table.

    table: the table.
    assignments: the index of a column and its new value.
    conditions: the conditions that a row must satisfy.
    """

    table: ChangedTable
    assignments: tuple[tuple[int, Expression], ...]
    conditions: tuple[Expression, ...]

    def statement(self, rendering: Rendering) -> str:
        table = self.table
        columns = [table.expression(i) for i in range(len(table.columns))]
        where = " AND ".join(f"({rendering.condition(item, columns)})" for item in self.conditions)
        tail = f" WHERE {where}" if where else ""
        if not self.assignments:
            return f"DELETE FROM {table.location.qualified}{tail}"
        targets = [(table.duck_columns[i], value) for i, value in self.assignments]
        values = [
            f"{quoted(column.name)} = CAST({rendering.expression(value, columns)} AS {column.type})"
            for column, value in targets
        ]
        return f"UPDATE {table.location.qualified} SET {', '.join(values)}{tail}"


def in_place(table: ChangedTable, relation: Relation, request: SinkRequest) -> InPlace | None:
    """The change without row numbers, if its rows are a filter and a projection over the table
    itself."""
    if request.mode not in (WriteMode.UPDATE, WriteMode.DELETE):
        return None
    expressions: tuple[Expression, ...] = references(relation.fields)
    below, conditions = relation, []
    if isinstance(below, Project):
        expressions, below = below.expressions, below.input
    while isinstance(below, Filter):
        conditions.append(below.condition)
        below = below.input
    if not isinstance(below, Scan) or below.limit is not None:
        return None
    scan = below
    scanned: object = scan.table
    if scanned is not table:
        return None

    def moved(node: Expression) -> Expression:
        return replace(node, index=scan.columns[node.index]) if isinstance(node, Column) else node

    address, *values = [transform(item, moved) for item in expressions]
    if not isinstance(address, Column) or address.index != table.row_id:
        return None
    tests = [transform(item, moved) for item in reversed(conditions)]
    if scan.predicate is not None:
        tests.insert(0, scan.predicate)
    used = set().union(*map(columns_of, (*values, *tests)))
    if not all(_is_plain(table.columns[i].type) for i in used):
        return None
    return InPlace(table, tuple(zip(request.columns[1:], values, strict=True)), tuple(tests))


class _ChangePartition(FragmentPartition):
    """One run of the statement. Closing it before its end rolls it back.

    added: how many rows the table has more after the change of one row; None: unknown.
    """

    def __init__(self, table: ChangedTable, stream: _ChangeStream, added: int | None) -> None:
        super().__init__(stream)
        self._changes = stream
        self._table = table
        self._added = added

    def close(self) -> None:
        super().close()
        # The next change of the table must find this one completed or rolled back.
        self._changes.join()
        count = self._changes.count
        self._table.changed(None if count is None or self._added is None else self._added * count)


class _ChangeStream(DuckDBStream):
    """A statement whose only result is the number of rows that it changed.

    count: that number; None before the end and after an error.
    """

    def __init__(
        self, location: TableLocation, statement: str, locate: Callable[[Error], Position | None]
    ) -> None:
        super().__init__(location.kernel, location.cursor(), statement, locate=locate)
        self._location = location
        self.count: int | None = None

    def _read(self, limit: int | None) -> bool:
        cursor = self._cursor
        if cursor is None or self._closed:
            return False
        try:
            cursor.execute(self._text)
        except Exception as error:
            if "Constraint Error" in str(error):
                raise self._location.failure(error) from error
            raise
        self.count = cursor.rowcount
        self._put(pa.RecordBatch.from_arrays([array_of([self.count], BIGINT)], schema=_COUNT))
        return False
