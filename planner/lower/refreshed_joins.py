"""The vertex of a join of a stream with a table that is read again and again."""

from __future__ import annotations

from runnel.connector import Source
from runnel.errors import internal
from runnel.planner.lower.dag_builder import REFRESHED_JOIN, Lowering, VertexOutput, source_of
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical, column_names
from runnel.processors.joins.build_side import JoinShape
from runnel.processors.joins.refreshed import Calculation, RefreshedTable, refreshed_join


def lower_refreshed_join(to: Lowering, node: physical.HashJoin) -> VertexOutput:
    """A vertex that reads the table itself, and stays with the rows of the stream."""
    assert node.refresh is not None
    source, calculations = _reading(node.build)
    table = RefreshedTable(source, calculations, node.refresh * 1_000_000)
    expressions = (*node.probe_keys, *(() if node.condition is None else (node.condition,)))
    rows = to.in_pieces(to.lower(node.probe), expressions)
    names = column_names(node.fields)
    supplier = refreshed_join(
        table,
        JoinShape(node.kind, node.condition, node.columns, node.null_safe, position=node.position),
        (node.probe_keys, node.build_keys),
        (node.probe.fields, node.build.fields),
        names,
    )
    return to.follow(rows, REFRESHED_JOIN, supplier, to.beside(rows), names)


def _reading(node: Physical) -> tuple[Source, tuple[Calculation, ...]]:
    """The source of a build side, and what is worked out of its rows."""
    names = column_names(node.fields)
    if isinstance(node, physical.SourceScan):
        return source_of(node), (Calculation(node.condition, node.projections, names),)
    if isinstance(node, physical.PhysicalFragment):
        return node.source, (Calculation(None, None, names),)
    if isinstance(node, physical.Calc):
        source, calculations = _reading(node.input)
        return source, (*calculations, Calculation(node.condition, node.projections, names))
    raise internal(f"a {type(node).__name__} can't be read again")
