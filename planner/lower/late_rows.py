"""The way of late rows in a DAG: from the further outputs of an operator to the mapping that takes
them."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.dag import Vertex, between
from runnel.planner.lower.dag_builder import LATE_ROWS, WRITE, Lowering, Output
from runnel.planner.physical.stream_nodes import LateRows
from runnel.processors.calc import calc
from runnel.processors.sinks.write import late_write


def write_late_rows(
    to: Lowering,
    sides: Sequence[LateRows | None],
    rows: Output,
    filters: Sequence[tuple[Output, LateRows]],
) -> None:
    """Makes the vertices behind the outputs of an operator from 1 on, one for each of the sides
    whose late rows go to the mapping, which is the same for all; and those behind output 1 of late
    filters below."""
    own = [side for side in sides if side is not None]
    found = [(rows, 1 + number, side) for number, side in enumerate(own)] + [
        (item, 1, side) for item, side in filters
    ]
    table = own[0].table
    assigned = [_assigned(to, *item) for item in found]
    supplier = late_write(table, own[0].request, f"late rows of {rows.vertex.name}")
    target = to.vertex(f"{WRITE}{table.name}", supplier, 1)
    for number, assign in enumerate(assigned):
        to.dag.edge(between(assign, target).to_input(number))


def _assigned(to: Lowering, rows: Output, output: int, side: LateRows) -> Vertex:
    """The vertex that makes rows of the mapping of those that come by an output."""
    names = tuple(side.table.columns[i].name for i in side.request.columns)
    parallelism = rows.vertex.parallelism if rows.is_parallel else 1
    assign = to.vertex(LATE_ROWS, calc(None, side.expressions, names), parallelism)
    edge = between(rows.vertex, assign).from_output(output)
    to.dag.edge(edge.isolated() if rows.is_parallel else edge)
    return assign
