"""The way of late rows in a DAG: from the further outputs of an operator to the mapping that takes them."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.dag import between
from runnel.planner.lowering import Lowering, Output
from runnel.planner.physical_streams import LateRows
from runnel.processors.calc import calc
from runnel.processors.write import late_write


def write_late_rows(to: Lowering, sides: Sequence[LateRows | None], rows: Output) -> None:
    """Makes the vertices behind the outputs of an operator from 1 on, one for each of the sides whose late rows go to the
    mapping, which is the same for all."""
    source, is_parallel = rows.vertex, rows.is_parallel
    late = [side for side in sides if side is not None]
    assigned = []
    for number, side in enumerate(late):
        names = tuple(side.table.columns[i].name for i in side.request.columns)
        assign = to.vertex("late rows", calc(None, side.expressions, names), source.parallelism if is_parallel else 1)
        edge = between(source, assign).from_output(1 + number)
        to.dag.edge(edge.isolated() if is_parallel else edge)
        assigned.append(assign)
    if late:
        table, place = late[0].table, f"late rows of {source.name}"
        target = to.vertex(f"write {table.name}", late_write(table, late[0].request, place), 1)
        for number, assign in enumerate(assigned):
            to.dag.edge(between(assign, target).to_input(number))
