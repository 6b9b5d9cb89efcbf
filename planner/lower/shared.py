"""Vertices that several other vertices read.

A rule of lowering connects a reader to output 0 of its input, as if it were the only reader. Each
reader of a shared vertex therefore receives a stand-in vertex with a name of its own. When the DAG
is complete, `connect` replaces the edges from stand-ins by edges from the shared vertex, each from
another output:

    scan, use 0 ──▶ join          scan, output 0 ──▶ join
    scan, use 1 ──▶ sort    ⇒     scan, output 1 ──▶ sort
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
    """A use of a shared vertex.

    vertex: name of the shared vertex.
    watermarks: pairs of the number of a watermark in the shared vertex, and its number in the
        reader.
    """

    vertex: str
    watermarks: tuple[tuple[int, int], ...]


class SharedVertices:
    """The shared vertices of a DAG under construction."""

    def __init__(self) -> None:
        self._outputs: dict[int, VertexOutput] = {}
        self._uses: dict[str, _Use] = {}

    def use(self, to: Lowering, node: Shared) -> VertexOutput:
        """A stand-in for the output of the subplan of `node`, which is lowered at its first use."""
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
        """Replaces the edges from stand-ins by edges from the shared vertices."""
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
            renamed = dict(edge.watermarks)
            numbers = {own: renamed[number] for own, number in numbers.items() if number in renamed}
        return replace(edge, source=use.vertex, source_ordinal=ordinal).with_watermarks(numbers)
