"""What follows from a DAG alone, worked out when it is submitted first and kept with it.

A DAG may be submitted thousands of times a second, so an execution should only have to make its
processors, tasklets and queues. A template holds the vertices in topological order; a layout, for
given numbers of processors, says for each tasklet which queues are its inputs and outputs. Neither
changes once made.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable

from runnel.base.frozen import frozen
from runnel.dag import DAG, Edge, Routing, Vertex
from runnel.processors.hold import Hold
from runnel.processors.sinks.result import ResultSink

UNBOUNDED = sys.maxsize
"""The capacity of a queue that takes everything."""


@frozen
class InputPlan:
    """One input edge of a tasklet: the numbers of its queues, one from each upstream processor
    connected to it."""

    ordinal: int
    priority: int
    queues: tuple[int, ...]
    watermarks: tuple[tuple[int, int], ...] | None = None


@frozen
class OutputPlan:
    """One output edge of a tasklet: the numbers of its queues, one to each downstream processor
    connected to it."""

    routing: Routing
    keys: tuple[str, ...]
    queues: tuple[int, ...]


@frozen
class TaskletPlan:
    """One tasklet: processor `index` of the vertex numbered `vertex`."""

    vertex: int
    index: int
    inputs: tuple[InputPlan, ...]
    outputs: tuple[OutputPlan, ...]
    gives_results: bool = False
    """What it offers goes to the job's results at once."""


@frozen
class Layout:
    """All tasklets in topological order, and the capacity of each queue."""

    tasklets: tuple[TaskletPlan, ...]
    capacities: tuple[int, ...]


class Template:
    """A DAG that was validated and taken apart. ProgrammingError where it isn't sound."""

    def __init__(self, dag: DAG) -> None:
        self._vertices = dict(dag.vertices)
        self._edges = list(dag.edges)
        self.order: tuple[Vertex, ...] = tuple(dag.validate())
        inputs, outputs = dag.sides()
        self._inputs = [tuple(inputs[vertex.name]) for vertex in self.order]
        self._outputs = [tuple(outputs[vertex.name]) for vertex in self.order]
        self._ancestors = self._find_ancestors()
        self.relaxed = frozenset(self._find_relaxed())
        self.before_snapshots = frozenset(self._find_before_snapshots())
        self.result = self._find_result()
        self._layouts: dict[tuple[int, ...], Layout] = {}

    @staticmethod
    def of(dag: DAG) -> Template:
        """The DAG's template; made anew if the DAG was changed since."""
        template = dag.prepared
        # Lists compare element by element, identical ones first, so this takes well under a
        # microsecond.
        if (
            isinstance(template, Template)
            and template._edges == dag.edges
            and template._vertices == dag.vertices
        ):
            return template
        dag.prepared = template = Template(dag)
        return template

    def layout(self, parallelism: tuple[int, ...]) -> Layout:
        """The layout for so many processors of each vertex, in topological order. With none of the
        result sink, what feeds it gives to the results itself."""
        layout = self._layouts.get(parallelism)
        if layout is None:
            self._layouts[parallelism] = layout = self._lay_out(parallelism)
        return layout

    def _lay_out(self, parallelism: tuple[int, ...]) -> Layout:
        count = {
            vertex.name: number for vertex, number in zip(self.order, parallelism, strict=True)
        }
        capacities: list[int] = []
        into: dict[tuple[Edge, int], list[int]] = defaultdict(list)
        out: dict[tuple[Edge, int], list[int]] = defaultdict(list)
        for edge in self._edges:
            if not count[edge.target]:
                continue
            for source in range(count[edge.source]):
                for target in connected(edge, source, count[edge.target]):
                    out[edge, source].append(len(capacities))
                    into[edge, target].append(len(capacities))
                    capacities.append(UNBOUNDED if edge in self.relaxed else edge.queue_size)
        tasklets = tuple(
            TaskletPlan(
                number,
                index,
                tuple(
                    InputPlan(e.target_ordinal, e.priority, tuple(into[e, index]), e.watermarks)
                    for e in self._inputs[number]
                ),
                tuple(
                    OutputPlan(e.routing, e.keys, tuple(out[e, index]))
                    for e in self._outputs[number]
                    if (e, index) in out
                ),
                gives_results=any((e, index) not in out for e in self._outputs[number]),
            )
            for number, vertex in enumerate(self.order)
            for index in range(count[vertex.name])
        )
        return Layout(tasklets, tuple(capacities))

    def _find_result(self) -> int | None:
        """The number of the result sink, if all it does is to pass on what one other vertex
        gives."""
        for number, vertex in enumerate(self.order):
            inputs = self._inputs[number]
            if (
                vertex.supplier is ResultSink
                and len(inputs) == 1
                and len(self._outputs_of(inputs[0].source)) == 1
            ):
                return number
        return None

    def _outputs_of(self, name: str) -> tuple[Edge, ...]:
        return next(
            edges
            for vertex, edges in zip(self.order, self._outputs, strict=True)
            if vertex.name == name
        )

    def _find_ancestors(
        self, is_end: Callable[[Vertex], bool] = lambda _: False
    ) -> dict[str, set[str]]:
        """For each vertex, itself and all that it gets anything from; no further than to those for
        which `is_end`."""
        ancestors: dict[str, set[str]] = {}
        for vertex, inputs in zip(self.order, self._inputs, strict=True):
            before = () if is_end(vertex) else (ancestors[edge.source] for edge in inputs)
            ancestors[vertex.name] = {vertex.name}.union(*before)
        return ancestors

    def _find_relaxed(self) -> list[Edge]:
        """Edges that must hold whatever comes, or the job could come to a standstill.

        A join reads its build side to the end before it touches its probe side. If both come from
        one scan, the scan is stopped by the probe side's full queue and the build side never ends.
        So where an input has to wait for another one that shares an ancestor with it, its queue has
        no bound; unless a Hold stands between, which takes all.
        """
        stopped = self._ancestors
        if any(vertex.supplier is Hold for vertex in self.order):
            stopped = self._find_ancestors(lambda vertex: vertex.supplier is Hold)
        relaxed = []
        for inputs in self._inputs:
            before: set[str] = set()
            for priority in sorted({edge.priority for edge in inputs}):
                equal = [edge for edge in inputs if edge.priority == priority]
                if before:
                    relaxed += [
                        edge for edge in equal if not before.isdisjoint(stopped[edge.source])
                    ]
                before = before.union(*(self._ancestors[edge.source] for edge in equal))
        return relaxed

    def _find_before_snapshots(self) -> set[str]:
        """Vertices that must have ended before a snapshot can be taken: those upstream of an input
        that others wait for. A barrier on an input that isn't read yet would never be seen."""
        return {
            name
            for inputs in self._inputs
            for last in [max((edge.priority for edge in inputs), default=0)]
            for edge in inputs
            if edge.priority < last
            for name in self._ancestors[edge.source]
        }


def connected(edge: Edge, source: int, targets: int) -> range:
    """The downstream processors that upstream processor `source` has a queue to."""
    if edge.routing is Routing.ISOLATED:
        target = source % targets
        return range(target, target + 1)
    return range(targets)
