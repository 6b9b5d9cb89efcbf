"""The way of late rows in a DAG: from the further outputs of an operator to the mapping that takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runnel.dag import DAG, Supplier, Vertex, between
from runnel.planner.physical import LateRows
from runnel.processors.calc import calc
from runnel.processors.write import late_write


class Lowering(Protocol):
    """The DAG under construction."""

    dag: DAG

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None) -> Vertex:
        """A vertex of that name, with a number behind it if there is one already."""


def write_late_rows(to: Lowering, late: LateRows, source: Vertex, is_parallel: bool) -> None:
    """Makes the vertices behind output 1 of `source`."""
    write_late_sides(to, (late,), source, is_parallel)


def write_late_sides(to: Lowering, sides: Sequence[LateRows | None], source: Vertex, is_parallel: bool) -> None:
    """Makes the vertices behind the outputs of `source` from 1 on, one for each of the sides whose late rows go to the mapping,
    which is the same for all."""
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
