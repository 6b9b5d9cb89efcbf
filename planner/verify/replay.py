"""The query of a job as a bounded one: its streams are tables that end, and what only streams have
is taken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.planner.lower.dag_builder import Lowering
from runnel.planner.operators.passes import REPLAY
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical
from runnel.relation.nodes import Aggregate, Join, Relation, Scan, Sort, transform
from runnel.relation.over import Window
from runnel.relation.streams import AsOfJoin


@frozen
class PositionVertices:
    """The vertices of a job's plan whose state has a position.

    scans: the table of each vertex that scans one, by the vertex's name.
    generators: the vertices of GENERATE_STREAM.
    sinks: the vertices that write; a job has one.
    """

    scans: dict[str, Table] = field(default_factory=dict)
    generators: list[str] = field(default_factory=list)
    sinks: list[str] = field(default_factory=list)


def position_vertices(plan: Physical) -> PositionVertices:
    """The vertices of a plan with positions, as named jobs run it."""
    lowering = Lowering(2)
    lowering.lower(plan)
    found = PositionVertices()
    for vertex, node in lowering.nodes.items():
        if isinstance(node, physical.SourceScan):
            found.scans[vertex] = node.table
        elif isinstance(node, physical.PhysicalGenerate) and node.function == "generate_stream":
            found.generators.append(vertex)
        elif isinstance(node, physical.Write):
            found.sinks.append(vertex)
    return found


def replayed(
    relation: Relation, table_of: Callable[[Scan], Table], counted: Sequence[int]
) -> Relation:
    """The relation over other tables: `table_of` returns the one that replaces a scan's table.

    Each GENERATE_STREAM returns its first numbers: `counted` has the number for each.
    """
    replay = Replay(table_of, iter(counted))

    def change(node: Relation) -> Relation:
        rule = REPLAY.find(node)
        return node if rule is None else rule(node, replay)

    return transform(relation, change)


class Replay(NamedTuple):
    """The bounded input of a job's query.

    table_of: the table that replaces the table of a scan.
    counts: for each GENERATE_STREAM the number of its rows.
    """

    table_of: Callable[[Scan], Table]
    counts: Iterator[int]


def without_emission(node: Aggregate | Sort | Window, replay: Replay) -> Relation:
    """For a node whose results have no emission clauses over tables."""
    return node if node.emission is None else replace(node, emission=None)


def without_late(node: Join | AsOfJoin, replay: Replay) -> Relation:
    return node if node.late is None else replace(node, late=None)
