"""Vertices that several others read.

The edges of a query are made by those who read: from output 0, as if they were alone. So each use
of a shared vertex gets a stand-in of another name, and when all edges are there those from
stand-ins become edges from the vertex, from an output each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.dag import DAG, Edge, Vertex
from runnel.planner.lower.dag_builder import Lowering, VertexOutput
from runnel.planner.physical.nodes import Shared


@frozen
class _Use:
    """Which vertex a stand-in stands for, and the numbers that its watermarks get."""

    vertex: str
    watermarks: tuple[tuple[int, int], ...]


class SharedVertices:
    """The shared vertices of a DAG under construction."""

    def __init__(self) -> None:
        self._outputs: dict[int, VertexOutput] = {}
        self._uses: dict[str, _Use] = {}

    def use(self, to: Lowering, node: Shared) -> VertexOutput:
        """One more reader of what `node` shares."""
        rows = self._outputs.get(node.number)
        if rows is None:
            rows = self._outputs[node.number] = to.lower(node.shared)
        stand_in = Vertex(
            f"{rows.vertex.name}, use {len(self._uses)}",
            rows.vertex.supplier,
            rows.vertex.parallelism,
        )
        self._uses[stand_in.name] = _Use(rows.vertex.name, node.watermarks)
        return replace(rows, vertex=stand_in)

    def connect(self, dag: DAG) -> None:
        """Gives the edges their vertices."""
        if self._uses:
            outputs: Counter[str] = Counter()
            dag.edges[:] = [self._from_vertex(edge, outputs) for edge in dag.edges]

    def _from_vertex(self, edge: Edge, outputs: Counter[str]) -> Edge:
        use = self._uses.get(edge.source)
        if use is None:
            return edge
        ordinal = outputs[use.vertex]
        outputs[use.vertex] += 1
        numbers = dict(use.watermarks)
        if edge.watermarks is not None:
            given = dict(edge.watermarks)
            numbers = {own: given[number] for own, number in numbers.items() if number in given}
        return replace(edge, source=use.vertex, source_ordinal=ordinal).with_watermarks(numbers)
