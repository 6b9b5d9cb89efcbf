"""TYPE Print: a sink that writes each row as a line of text to standard output.

    CREATE MAPPING shown (id BIGINT, name VARCHAR) TYPE Print OPTIONS ('prefix' = 'orders')

A row is a line such as `orders> +I[1, Ann]`, as Flink's connector "print" writes it. The changes of
a result are the lines +I (inserted), -U and +U (before and after an update) and -D (deleted).
"""

from __future__ import annotations

import sys

import pyarrow as pa

from runnel.catalog import Table
from runnel.columns.write_modes import RowKind
from runnel.connector import (
    Connector,
    MappingDefinition,
    Sink,
    SinkRequest,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.connectors.options import OptionSet, boolean, text
from runnel.connectors.output.definitions import declared_columns
from runnel.expressions.casts.cast import cast_datum
from runnel.expressions.context import EvaluationContext
from runnel.sqltypes import VARCHAR, Kind, SqlType

PREFIX = text("prefix")
STANDARD_ERROR = boolean("standardError", False)
OPTIONS = OptionSet("Print", PREFIX, STANDARD_ERROR)
KINDS = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}
"""How a line names the kind of its row."""


class PrintConnector(Connector):
    """Sinks that print their rows."""

    name = "Print"
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        options = OPTIONS.read(definition.options)
        prefix = options.get(PREFIX)
        return PrintTable(
            definition,
            "" if prefix is None else f"{prefix}> ",
            to_error=options.require(STANDARD_ERROR),
        )


class PrintTable(WritableTable):
    """A table that is only written: its rows are printed by the process that runs the statement."""

    connector = "Print"

    def __init__(self, definition: MappingDefinition, prefix: str, *, to_error: bool) -> None:
        self.name = definition.name
        self.columns = declared_columns(definition, self.connector)
        self.prefix = prefix
        self.to_error = to_error

    def row_count(self) -> int | None:
        return 0

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset((WriteMode.INSERT, WriteMode.SINK, WriteMode.CHANGES))

    def sink(self, request: SinkRequest) -> Sink:
        return PrintSink(self, request)


class PrintSink(Sink):
    """Prints rows when they arrive; an abort cannot undo that. A row that a restarted job reads
    again is printed again."""

    def __init__(self, table: PrintTable, request: SinkRequest) -> None:
        self._table = table
        self._sources = [
            request.columns.index(index) if index in request.columns else None
            for index in range(len(table.columns))
        ]
        self._has_kinds = request.mode is WriteMode.CHANGES
        self._context = EvaluationContext()

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        cells = [
            ["null"] * batch.num_rows
            if source is None
            else _texts(batch.column(source), column.type, self._context)
            for source, column in zip(self._sources, self._table.columns, strict=True)
        ]
        prefix = self._table.prefix
        kinds = self._kinds(batch)
        lines = [
            f"{prefix}{kind}[{', '.join(row)}]\n" for kind, *row in zip(kinds, *cells, strict=True)
        ]
        stream = sys.stderr if self._table.to_error else sys.stdout
        if stream is None:  # a process without a console
            return
        text = "".join(lines)
        encoding = getattr(stream, "encoding", None) or "utf-8"
        # One write, so that lines of several sinks do not mix; a console may lack characters.
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()

    def _kinds(self, batch: pa.RecordBatch) -> list[str]:
        if not self._has_kinds:
            return [KINDS[RowKind.INSERT]] * batch.num_rows
        return [KINDS[kind] for kind in batch.column(batch.num_columns - 1).to_pylist()]

    def stage(self, epoch: int) -> Token:
        return {}

    def commit(self, token: Token) -> None:
        pass

    def abort(self, token: Token | None) -> None:
        pass


def _texts(array: pa.Array, kind: SqlType, context: EvaluationContext) -> list[str]:
    """The values as the cast to VARCHAR writes them, bytes in hexadecimal digits."""
    if kind.kind is Kind.VARBINARY:
        return ["null" if value is None else value.hex() for value in array.to_pylist()]
    converted = cast_datum(array, kind, VARCHAR, context)
    return ["null" if value is None else value for value in converted.to_pylist()]
