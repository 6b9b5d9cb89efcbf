"""The way of late rows in a DAG: from the second output of an aggregation to the mapping that takes them."""

from __future__ import annotations

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
    names = tuple(late.table.columns[i].name for i in late.request.columns)
    assign = to.vertex("late rows", calc(None, late.expressions, names), source.parallelism if is_parallel else 1)
    edge = between(source, assign).from_output(1)
    to.dag.edge(edge.isolated() if is_parallel else edge)
    place = f"late rows of {source.name}"
    target = to.vertex(f"write {late.table.name}", late_write(late.table, late.request, place), 1)
    to.dag.edge(between(assign, target))
