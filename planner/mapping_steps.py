"""The mappings that the steps of a hand-built DAG name: planned as scans and writes of SQL."""

from __future__ import annotations

from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot, Table, View
from runnel.connector import KeyedTable, RowAddressedTable, SinkRequest, WritableTable, WriteMode
from runnel.dag import ProcessorMetaSupplier, Vertex
from runnel.errors import NotSupportedError, ProgrammingError, suggest
from runnel.planner.environment import Environment
from runnel.planner.lower.dag_builder import Lowering
from runnel.planner.physical.choose import choose
from runnel.planner.planner import plan
from runnel.planner.plans import KeyGetPlan, QueryPlan
from runnel.processors.library.mappings import ScanDefinition
from runnel.relation.streams import event_time_type
from runnel.sqltypes import SqlType


@frozen
class PlannedScan:
    """A vertex that reads a mapping.

    vertex: the vertex, with its supplier.
    is_unbounded: whether the rows have no end.
    event_time: the type of the watermarks' times; None: there are none.
    """

    vertex: Vertex
    is_unbounded: bool
    event_time: SqlType | None


class _VertexLowering(Lowering):
    """Lowers a scan to a vertex of a given name, under which the scan stores its state."""

    def __init__(self, name: str) -> None:
        super().__init__(parallelism=2)
        self._name = name

    def next_name(self, name: str) -> str:
        return super().next_name(name) if self.dag.vertices else self._name


def plan_scan(
    vertex: Vertex, definition: ScanDefinition, snapshot: Snapshot, environment: Environment
) -> PlannedScan:
    """Plan the scan of a vertex. An error if the mapping doesn't exist or is a view, or if the
    predicate has a subquery."""
    table_of(snapshot, definition.mapping)
    found = plan(_query_of(definition), snapshot, (), replace(environment, pushdown=None))
    assert isinstance(found, QueryPlan | KeyGetPlan)
    lowering = _VertexLowering(vertex.name)
    lowering.lower(choose(found.logical, snapshot))
    made = list(lowering.dag.vertices.values())
    if len(made) > 1:
        raise NotSupportedError(
            f'the predicate of mapping "{definition.mapping}" needs more than a scan: '
            f"{definition.predicate}",
            hint="use a condition over the columns of the mapping, without a subquery",
        )
    supplier, parallelism = made[0].supplier, made[0].parallelism
    is_unbounded = found.logical.is_unbounded
    if isinstance(supplier, ProcessorMetaSupplier):
        supplier.is_unbounded = is_unbounded
    chosen = vertex.parallelism if parallelism is None else parallelism
    return PlannedScan(
        Vertex(vertex.name, supplier, chosen), is_unbounded, event_time_type(found.logical)
    )


def _query_of(definition: ScanDefinition) -> str:
    mapping = _quoted(definition.mapping)
    chosen = definition.columns
    columns = "*" if chosen is None else ", ".join(map(_quoted, chosen))
    rows = f"TABLE(CHANGES(TABLE {mapping}))" if definition.is_journal else mapping
    query = f"SELECT {columns} FROM {rows}"
    return query if definition.predicate is None else f"{query} WHERE ({definition.predicate})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def table_of(snapshot: Snapshot, name: str) -> Table:
    """Return the table of a mapping or a registration; NotSupportedError for a view."""
    found = snapshot.get(name)
    if isinstance(found, View):
        raise NotSupportedError(
            f'"{name}" is a view, not a mapping',
            hint="name the mappings that it reads, or run its query by SQL",
        )
    return found.table


def write_target(
    snapshot: Snapshot, name: str, mode: WriteMode, columns: tuple[str, ...] | None
) -> tuple[WritableTable, SinkRequest]:
    """Return the table of a mapping, and the request for a sink of the columns."""
    table = table_of(snapshot, name)
    is_addressed = isinstance(table, RowAddressedTable)
    if (
        not isinstance(table, WritableTable)
        or mode not in table.write_modes
        or (is_addressed and mode in (WriteMode.UPDATE, WriteMode.DELETE))
    ):
        raise NotSupportedError(
            f'{mode.name} is not supported by mapping "{name}" of connector {table.connector}',
            hint=None if not is_addressed else "its rows have no key: run the statement by SQL",
        )
    visible = tuple(i for i, item in enumerate(table.columns) if not item.hidden)
    if columns is not None:
        chosen = tuple(_index(table, name, item) for item in columns)
    else:
        chosen = table.key_columns if mode is WriteMode.DELETE else visible
    missing = [i for i in table.key_columns if i not in chosen]
    if missing:
        raise ProgrammingError(
            f'the key column "{table.columns[missing[0]].name}" of mapping "{name}" is not written',
            hint="add it to columns",
        )
    return table, SinkRequest(mode, chosen)


def _index(table: Table, mapping: str, name: str) -> int:
    names = [item.name for item in table.columns]
    if name not in names:
        raise ProgrammingError(
            f'mapping "{mapping}" has no column "{name}"',
            hint=suggest(name, names, f"it has: {', '.join(names)}"),
        )
    return names.index(name)


def keyed_table(snapshot: Snapshot, name: str) -> KeyedTable:
    """Return the table of a mapping with keyed access; NotSupportedError for others."""
    table = table_of(snapshot, name)
    if not isinstance(table, KeyedTable):
        raise NotSupportedError(
            f'mapping "{name}" of connector {table.connector} can\'t be looked up by key',
            hint="name a mapping of TYPE IMap, or read it and join it",
        )
    return table
