"""The query of a job as a bounded one: its streams are tables that end, and what only streams have
is taken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.dag import Supplier, Vertex
from runnel.expressions.nodes import Literal
from runnel.planner.lower.dag_builder import Lowering, VertexOutput
from runnel.planner.lower.lower import RULES
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Aggregate, Generate, Join, Relation, Scan, Sort, Values, transform
from runnel.relation.over import Window
from runnel.relation.streams import AsOfJoin, ImposeOrder
from runnel.sqltypes import BIGINT


@frozen
class PositionVertices:
    """The vertices of a job's plan whose state says how far it is: those that scan a table, those
    that count up, and the one that writes."""

    scans: dict[str, Table] = field(default_factory=dict)
    generators: list[str] = field(default_factory=list)
    sinks: list[str] = field(default_factory=list)


def position_vertices(plan: Physical) -> PositionVertices:
    """Those of a plan as named jobs run it."""
    noting = _Noting(2, RULES)
    noting.lower(plan)
    return noting.places


class _Noting(Lowering):
    """Notes the vertices as they are made."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.places = PositionVertices()
        self._nodes: list[Physical] = []

    def lower(self, node: Physical) -> VertexOutput:
        self._nodes.append(node)
        try:
            return super().lower(node)
        finally:
            self._nodes.pop()

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None) -> Vertex:
        made = super().vertex(name, supplier, parallelism)
        node = self._nodes[-1]
        if isinstance(node, physical.SourceScan):
            self.places.scans[made.name] = node.table
        elif isinstance(node, physical.PhysicalGenerate) and node.function == "generate_stream":
            self.places.generators.append(made.name)
        elif isinstance(node, physical.Write):
            self.places.sinks.append(made.name)
        return made


def replayed(
    relation: Relation, table_of: Callable[[Scan], Table], counted: Sequence[int]
) -> Relation:
    """The relation over other tables, each in the place of a scan's. Its GENERATE_STREAM gives the
    first numbers: so many as `counted` has for it."""
    numbers = iter(counted)

    def change(node: Relation) -> Relation:
        match node:
            case Scan():
                return replace(node, table=table_of(node), divert=None)
            case Generate(unbounded=True):
                return _series(node, next(numbers))
            case ImposeOrder():
                return node.input
            case Aggregate() | Sort() | Window() if node.emission is not None:
                return replace(node, emission=None)
            case Join() | AsOfJoin() if node.late is not None:
                return replace(node, late=None)
        return node

    return transform(relation, change)


def _series(node: Generate, count: int) -> Relation:
    if not count:
        return Values(rows=(), columns=node.columns)
    bounds = tuple(Literal(value=value, type=BIGINT) for value in (0, count - 1))
    return Generate(function="generate_series", arguments=bounds, columns=node.columns)
