"""The mappings of a hand-built DAG, found in the catalog of the session that runs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.connector import KeyedTable, SinkRequest, WritableTable, WriteMode
from runnel.dag import DAG, Vertex
from runnel.errors import Error
from runnel.processors.library.mappings import MappingStep, ScanDefinition

if TYPE_CHECKING:
    from runnel.session.session import Session
    from runnel.sqltypes import SqlType


class _SessionMappings:
    """The mappings of a session, with what the scans of one DAG have in common."""

    def __init__(self, session: Session, zone: str, *, in_job: bool) -> None:
        self._catalog = session.catalog
        self._environment = replace(session.planning_environment(zone), in_job=in_job)
        self.event_time: SqlType | None = None

    def scan(self, vertex: Vertex, definition: ScanDefinition) -> Vertex:
        from runnel.planner.mapping_steps import plan_scan

        planned = plan_scan(vertex, definition, self._catalog, self._environment)
        self.event_time = self.event_time or planned.event_time
        return planned.vertex

    def writable(
        self, mapping: str, mode: WriteMode, columns: tuple[str, ...] | None
    ) -> tuple[WritableTable, SinkRequest]:
        from runnel.planner.mapping_steps import write_target

        return write_target(self._catalog, mapping, mode, columns)

    def keyed(self, mapping: str) -> KeyedTable:
        from runnel.planner.mapping_steps import keyed_table

        return keyed_table(self._catalog, mapping)


def resolve_mappings(
    session: Session, dag: DAG, zone: str, *, in_job: bool
) -> tuple[DAG, SqlType | None]:
    """Return the DAG with suppliers that have the tables of its mappings, and the type of the times
    of their watermarks (None: there are none). An error names the vertex and the mapping.

    in_job: whether the DAG runs as a named job.
    """
    if not any(isinstance(vertex.supplier, MappingStep) for vertex in dag.vertices.values()):
        return dag, None
    mappings = _SessionMappings(session, zone, in_job=in_job)
    vertices = {name: _resolved(vertex, mappings) for name, vertex in dag.vertices.items()}
    return DAG(vertices, list(dag.edges)), mappings.event_time


def _resolved(vertex: Vertex, mappings: _SessionMappings) -> Vertex:
    supplier = vertex.supplier
    if not isinstance(supplier, MappingStep):
        return vertex
    try:
        return supplier.resolved(vertex, mappings)
    except Error as error:
        where = f'vertex "{vertex.name}" names mapping "{supplier.mapping_name}"'
        error.detail = where if error.detail is None else f"{error.detail}; {where}"
        error.position = None
        raise
