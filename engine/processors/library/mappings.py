"""Steps that read, write and look up the mappings of a connection.

Such a step names its mapping. The mapping is found in the catalog of the connection when an
execution starts, so a named job uses the definition of that time, as a job of a query does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.connector import KeyedTable, Sink, SinkRequest, Token, WritableTable, WriteMode
from runnel.dag import (
    ProcessorMetaSupplier,
    ProcessorSupplier,
    Vertex,
    storable,
)
from runnel.errors import InterfaceError, ProgrammingError
from runnel.expressions import build
from runnel.processor import JobContext, Processor, StatelessProcessor
from runnel.processors.joins.build_side import JoinShape
from runnel.processors.joins.lookup import Lookup, LookupJoinProcessor, LookupPlan
from runnel.processors.library.aggregate_operation import LIBRARY
from runnel.processors.library.typed_rows import (
    Assignment,
    canonical_batch,
    column_of,
    fields_of,
)
from runnel.processors.sinks.write import WriteMetaSupplier, rows_write
from runnel.relation.nodes import Field, JoinKind

MODES = tuple(mode.value for mode in WriteMode if mode is not WriteMode.CHANGES)


@frozen
class ScanDefinition:
    """The rows that a step reads.

    mapping: the name of the mapping.
    columns: names of the columns to emit; None: all.
    predicate: a SQL condition; only rows for which it is true are emitted. None: all rows.
    is_journal: whether the changes of the mapping are read, instead of its rows.
    """

    mapping: str
    columns: tuple[str, ...] | None
    predicate: str | None
    is_journal: bool = False


class Mappings(Protocol):
    """The mappings of a connection, at the start of an execution."""

    def scan(self, vertex: Vertex, definition: ScanDefinition) -> Vertex:
        """Return `vertex` with a supplier that reads the rows of a mapping."""

    def writable(
        self, mapping: str, mode: WriteMode, columns: tuple[str, ...] | None
    ) -> tuple[WritableTable, SinkRequest]:
        """Return the table of a mapping, and the request for a sink; None: all columns."""

    def keyed(self, mapping: str) -> KeyedTable:
        """Return the table of a mapping that can be looked up by key."""


class MappingStep(ProcessorMetaSupplier, ABC):
    """A supplier that names a mapping."""

    @property
    @abstractmethod
    def mapping_name(self) -> str:
        """The name of the mapping."""

    @abstractmethod
    def resolved(self, vertex: Vertex, mappings: Mappings) -> Vertex:
        """Return the vertex with a supplier that has the table of the mapping."""

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        raise ProgrammingError(
            f'mapping "{self.mapping_name}" is found by a connection only',
            hint="run the DAG by Connection.submit",
        )


@frozen
class ReadStep(MappingStep):
    """Reads a mapping, or its changes.

    definition: the rows to read.
    """

    definition: ScanDefinition

    @property
    def mapping_name(self) -> str:
        return self.definition.mapping

    def resolved(self, vertex: Vertex, mappings: Mappings) -> Vertex:
        return mappings.scan(vertex, self.definition)


@frozen
class WriteStep(MappingStep):
    """Writes a mapping.

    mapping: the name of the mapping.
    mode: how rows are written.
    columns: names of the columns to write; None: all.
    """

    mapping: str
    mode: WriteMode
    columns: tuple[str, ...] | None

    @property
    def mapping_name(self) -> str:
        return self.mapping

    def resolved(self, vertex: Vertex, mappings: Mappings) -> Vertex:
        if vertex.parallelism not in (None, 1):
            raise ProgrammingError(
                f"rows are written by one processor, not by {vertex.parallelism}",
                hint="leave out the parallelism of the vertex",
            )
        table, request = mappings.writable(self.mapping, self.mode, self.columns)
        columns = [(table.columns[i].name, table.columns[i].type) for i in request.columns]

        def make(sink: Sink, context: JobContext) -> Processor:
            assignment = Assignment(columns, is_exact=self.columns is None)
            return rows_write(ConvertingSink(sink, assignment, context), context)

        supplier = WriteMetaSupplier(table, request, f"write {vertex.name}", make)
        return Vertex(vertex.name, supplier, vertex.parallelism)


class ConvertingSink(Sink):
    """Converts batches to the columns of a table, and passes them to the sink of the table."""

    def __init__(self, sink: Sink, assignment: Assignment, context: JobContext) -> None:
        self.cooperative = sink.cooperative
        self._sink = sink
        self._assignment = assignment
        self._context = context

    def recover(self, tokens: Sequence[Token]) -> None:
        self._sink.recover(tokens)

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(self._assignment.converted(batch, self._context.evaluation))

    def stage(self, epoch: int) -> Token:
        return self._sink.stage(epoch)

    def commit(self, token: Token) -> None:
        self._sink.commit(token)

    def abort(self, token: Token | None) -> None:
        self._sink.abort(token)

    def close(self) -> None:
        self._sink.close()


@frozen
class LookUpStep(MappingStep):
    """Adds the columns of the row that a key finds.

    mapping: the name of the mapping.
    keys: columns of the batches with the values of the mapping's key columns, in their order.
    columns: names of the mapping's columns, and their names in the result; None: all other than
        the key, with their own names.
    outer: whether rows without a match are emitted, with NULLs.
    """

    mapping: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None
    outer: bool

    @property
    def mapping_name(self) -> str:
        return self.mapping

    def resolved(self, vertex: Vertex, mappings: Mappings) -> Vertex:
        table = mappings.keyed(self.mapping)
        if len(self.keys) != len(table.key_columns):
            names = ", ".join(table.columns[i].name for i in table.key_columns)
            raise ProgrammingError(
                f'mapping "{self.mapping}" has {len(table.key_columns)} key columns, but '
                f"map_using_lookup names {len(self.keys)} columns",
                hint=f"name the columns of the batch with the values of {names}",
            )
        chosen = self._chosen(table)
        keys, kind = self.keys, JoinKind.LEFT if self.outer else JoinKind.INNER
        return Vertex(
            vertex.name, lambda: MapUsingLookup(table, keys, chosen, kind), vertex.parallelism
        )

    def _chosen(self, table: KeyedTable) -> list[tuple[int, str]]:
        """Return the index of each looked-up column, and its name in the result."""
        if self.columns is None:
            return [
                (i, item.name)
                for i, item in enumerate(table.columns)
                if i not in table.key_columns and not item.hidden
            ]
        names = [item.name for item in table.columns]
        for name, _ in self.columns:
            if name not in names:
                raise unknown_column(self.mapping, name, names)
        return [(names.index(name), alias) for name, alias in self.columns]


class MapUsingLookup(StatelessProcessor):
    """Joins each row with the current row of its key."""

    def __init__(
        self,
        table: KeyedTable,
        keys: tuple[str, ...],
        chosen: Sequence[tuple[int, str]],
        kind: JoinKind,
    ) -> None:
        self._table = table
        self._keys = keys
        self._chosen = chosen
        self._kind = kind
        self._schema: pa.Schema | None = None
        self._inner: LookupJoinProcessor | None = None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._inner is None or batch.schema != self._schema:
            self._inner, self._schema = self._compile(batch.schema), batch.schema
            self._inner.init(self.outbox, self.context)
        return self._inner.apply(canonical_batch(batch))

    def _compile(self, schema: pa.Schema) -> LookupJoinProcessor:
        table = self._table
        keys = [
            build.assign(column_of(schema, name), table.columns[i].type, table.columns[i].name)
            for name, i in zip(self._keys, table.key_columns, strict=True)
        ]
        names = [*schema.names, *(name for _, name in self._chosen)]
        check_unique(names, "pass columns={column of the mapping: name in the result}")
        right = [Field(name, table.columns[i].type) for i, name in self._chosen]
        lookup = Lookup(table=table, columns=tuple(i for i, _ in self._chosen))
        plan = LookupPlan(
            lookup, JoinShape(self._kind), keys, (fields_of(schema), right), tuple(names)
        )
        return LookupJoinProcessor(plan)


def check_unique(names: Sequence[str], hint: str) -> None:
    """ProgrammingError if two columns of a result have the same name."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ProgrammingError(f'the result would have two columns "{twice}"', hint=hint)


def unknown_column(mapping: str, name: str, names: Sequence[str]) -> ProgrammingError:
    """Return the error for a column that a mapping doesn't have."""
    return ProgrammingError(
        f'mapping "{mapping}" has no column "{name}"', hint=f"it has: {', '.join(names)}"
    )


@storable(LIBRARY)
def read_mapping(
    name: str, columns: Sequence[str] | None = None, predicate: str | None = None
) -> ProcessorMetaSupplier:
    """A source of the rows of a mapping, of any connector.

    It emits the watermarks of the mapping's WATERMARK FOR.

    columns: names of the columns to emit; None: all.
    predicate: a condition in SQL over the mapping's columns, such as "price > 10"; the source
        reads less if it can. None: all rows.
    """
    return ReadStep(ScanDefinition(_text(name), _names(columns), _condition(predicate)))


@storable(LIBRARY)
def read_journal(
    name: str, columns: Sequence[str] | None = None, predicate: str | None = None
) -> ProcessorMetaSupplier:
    """A source of the changes of an IMap mapping: the rows of TABLE(CHANGES(TABLE name)).

    `read_mapping` describes the parameters.
    """
    return ReadStep(
        ScanDefinition(_text(name), _names(columns), _condition(predicate), is_journal=True)
    )


@storable(LIBRARY)
def write_mapping(
    name: str, mode: str = "insert", columns: Sequence[str] | None = None
) -> ProcessorMetaSupplier:
    """A sink that writes the rows of its batches to a mapping; one processor writes.

    It has the guarantee of the mapping's connector: rows become visible at the end of a light job,
    and with each snapshot of a named job. It emits the number of written rows at the end.

    mode: "insert"; "sink", which inserts or replaces by key; "update"; or "delete", to which only
        the key columns are passed.
    columns: names of the columns to write; other columns of the mapping are NULL in new rows. None:
        all columns of the mapping (with "delete" its key columns), and batches have no others.
    """
    if mode not in MODES:
        raise ProgrammingError(
            f"the mode of write_mapping can't be {mode!r}", hint=f"it is one of {', '.join(MODES)}"
        )
    return WriteStep(_text(name), WriteMode(mode), _names(columns))


@storable(LIBRARY)
def map_using_lookup(
    name: str,
    *keys: str,
    columns: Mapping[str, str] | Sequence[str] | None = None,
    outer: bool = False,
) -> ProcessorMetaSupplier:
    """A step that adds columns of a mapping with a key, such as an IMap.

    Each row is joined with the row that the mapping has at that time. NULL finds no row.

    keys: columns of the batches with the values of the mapping's key columns, in their order.
    columns: names of the mapping's columns to add, perhaps with other names in the result:
        {"price": "unit_price"}. None: all columns except the key.
    outer: whether rows without a match are emitted with NULLs; if not, they are dropped.
    """
    if not keys:
        raise ProgrammingError("map_using_lookup needs at least one key column")
    chosen: tuple[tuple[str, str], ...] | None
    if isinstance(columns, Mapping):
        chosen = tuple((_text(old), _text(new)) for old, new in columns.items())
    else:
        listed = _names(columns)
        chosen = None if listed is None else tuple((item, item) for item in listed)
    return LookUpStep(_text(name), keys, chosen, outer)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InterfaceError(f"a name must be a str, not {type(value).__name__}")
    return value


def _names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(columns, str):
        raise InterfaceError(
            f"columns must be a list of names, not {columns!r}", hint=f'pass ["{columns}"]'
        )
    if columns is None:
        return None
    if not columns:
        raise ProgrammingError("columns must name at least one column")
    return tuple(map(_text, columns))


def _condition(predicate: object) -> str | None:
    if predicate is None or isinstance(predicate, str):
        return predicate
    raise InterfaceError(
        f"a predicate must be a SQL condition as text, not {type(predicate).__name__}",
        hint='write read_mapping("orders", predicate="price > 10")',
    )
