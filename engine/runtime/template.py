"""The properties of an execution that depend only on the DAG, computed at its first submission and
cached with it.

A DAG may be submitted thousands of times a second, so an execution should only have to create its
processors, tasklets and queues. A template has the vertices in topological order; a layout, for
given numbers of processors, has the queues of each tasklet's inputs and outputs. Both are
immutable.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable

from runnel.base.frozen import frozen
from runnel.columns.key_hash import Partitioning
from runnel.dag import DAG, Edge, Routing, Vertex
from runnel.processors.sinks.result_queue import ResultSink
from runnel.processors.spool import SpoolProcessor

UNBOUNDED = sys.maxsize
"""The capacity of an unbounded queue."""


@frozen
class InputPlan:
    """One input edge of a tasklet.

    ordinal: number of the input.
    priority: inputs with a smaller priority are read to their end first.
    queues: numbers of its queues, one from each upstream processor connected to it.
    watermarks: new numbers of watermarks, as in `Edge`.
    """

    ordinal: int
    priority: int
    queues: tuple[int, ...]
    watermarks: tuple[tuple[int, int], ...] | None = None


@frozen
class OutputPlan:
    """One output edge of a tasklet.

    routing: how batches are distributed over the queues.
    partitioning: how a PARTITIONED edge divides rows.
    queues: numbers of its queues, one to each downstream processor connected to it.
    """

    routing: Routing
    partitioning: Partitioning
    queues: tuple[int, ...]


@frozen
class TaskletPlan:
    """One tasklet.

    vertex: number of the vertex in topological order.
    index: number of the processor in the vertex.
    inputs, outputs: its edges.
    """

    vertex: int
    index: int
    inputs: tuple[InputPlan, ...]
    outputs: tuple[OutputPlan, ...]
    gives_results: bool = False
    """It writes directly to the job's results."""


@frozen
class TaskletLayout:
    """All tasklets of a job, and the queues between them.

    tasklets: in topological order of their vertices.
    capacities: for each queue, by number, the maximum number of items; UNBOUNDED: no maximum.
    """

    tasklets: tuple[TaskletPlan, ...]
    capacities: tuple[int, ...]


class Template:
    """A validated DAG, prepared for execution. ProgrammingError if the DAG is invalid."""

    def __init__(self, dag: DAG) -> None:
        self._vertices = dict(dag.vertices)
        self._edges = list(dag.edges)
        self.epochs = dag.epochs
        self.order: tuple[Vertex, ...] = tuple(dag.validate())
        inputs, outputs = dag.sides()
        self._inputs = [tuple(inputs[vertex.name]) for vertex in self.order]
        self._outputs = [tuple(outputs[vertex.name]) for vertex in self.order]
        self._ancestors = self._find_ancestors()
        self.relaxed = frozenset(self._find_relaxed())
        self.before_snapshots = frozenset(self._find_before_snapshots())
        self.result = self._find_result()
        self.chain = self._find_chain()
        self._layouts: dict[tuple[int, ...], TaskletLayout] = {}

    @staticmethod
    def of(dag: DAG) -> Template:
        """The DAG's template; created again if the DAG was changed since."""
        template = dag.prepared
        # Lists are compared element by element, first by identity, so this takes well under a
        # microsecond.
        if (
            isinstance(template, Template)
            and template._edges == dag.edges
            and template._vertices == dag.vertices
            and template.epochs == dag.epochs
        ):
            return template
        dag.prepared = template = Template(dag)
        return template

    def layout(self, parallelism: tuple[int, ...]) -> TaskletLayout:
        """The layout for these numbers of processors, by vertex in topological order. If the result
        sink has none, the vertex before it writes to the results itself."""
        layout = self._layouts.get(parallelism)
        if layout is None:
            self._layouts[parallelism] = layout = self._lay_out(parallelism)
        return layout

    def _lay_out(self, parallelism: tuple[int, ...]) -> TaskletLayout:
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
                    OutputPlan(e.routing, partitioning_of(e), tuple(out[e, index]))
                    for e in self._outputs[number]
                    if (e, index) in out
                ),
                gives_results=any((e, index) not in out for e in self._outputs[number]),
            )
            for number, vertex in enumerate(self.order)
            for index in range(count[vertex.name])
        )
        return TaskletLayout(tasklets, tuple(capacities))

    def partitionings(self, vertex: str) -> list[Partitioning]:
        """How the PARTITIONED edges into a vertex divide its rows, by ordinal."""
        return [
            partitioning_of(edge)
            for order, edges in zip(self.order, self._inputs, strict=True)
            if order.name == vertex
            for edge in edges
            if edge.routing is Routing.PARTITIONED
        ]

    def _find_result(self) -> int | None:
        """The number of the result sink, if it only passes on what one other vertex emits."""
        for number, vertex in enumerate(self.order):
            inputs = self._inputs[number]
            if (
                vertex.supplier is ResultSink
                and len(inputs) == 1
                and len(self._outputs_of(inputs[0].source)) == 1
            ):
                return number
        return None

    def _find_chain(self) -> tuple[Vertex, ...] | None:
        """The vertices before the result sink, if each one but the first reads just the one before
        it, and none has more than one processor."""
        is_chain = self.result == len(self.order) - 1 and all(
            len(inputs) <= 1
            and len(outputs) <= 1
            and vertex.parallelism == 1
            and (not inputs or (before is not None and inputs[0].source == before.name))
            for before, vertex, inputs, outputs in zip(
                (None, *self.order), self.order, self._inputs, self._outputs, strict=False
            )
        )
        return self.order[:-1] if is_chain else None

    def _outputs_of(self, name: str) -> tuple[Edge, ...]:
        return next(
            edges
            for vertex, edges in zip(self.order, self._outputs, strict=True)
            if vertex.name == name
        )

    def _find_ancestors(
        self, is_end: Callable[[Vertex], bool] = lambda _: False
    ) -> dict[str, set[str]]:
        """For each vertex, the vertex itself and all vertices upstream of it, not beyond vertices
        for which `is_end` is True."""
        ancestors: dict[str, set[str]] = {}
        for vertex, inputs in zip(self.order, self._inputs, strict=True):
            before = () if is_end(vertex) else (ancestors[edge.source] for edge in inputs)
            ancestors[vertex.name] = {vertex.name}.union(*before)
        return ancestors

    def _find_relaxed(self) -> list[Edge]:
        """Edges that must accept any number of items, to avoid a deadlock.

        A join reads its build side to the end before it reads its probe side. If both come from one
        scan, the full queue of the probe side stops the scan, and the build side never ends. So if
        an input has to wait for another one with which it shares an ancestor, its queue is
        unbounded, unless a Hold is between them, which accepts all rows.
        """
        stopped = self._ancestors
        if any(vertex.supplier is SpoolProcessor for vertex in self.order):
            stopped = self._find_ancestors(lambda vertex: vertex.supplier is SpoolProcessor)
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
        that is read before others. A barrier on an input that is not read yet would not be
        noticed."""
        return {
            name
            for inputs in self._inputs
            for last in [max((edge.priority for edge in inputs), default=0)]
            for edge in inputs
            if edge.priority < last
            for name in self._ancestors[edge.source]
        }


def partitioning_of(edge: Edge) -> Partitioning:
    """How a PARTITIONED edge divides rows."""
    return Partitioning(edge.keys, edge.partitioner, f'"{edge.source}" → "{edge.target}"')


def connected(edge: Edge, source: int, targets: int) -> range:
    """The downstream processors to which upstream processor `source` has a queue."""
    if edge.routing is Routing.ISOLATED:
        target = source % targets
        return range(target, target + 1)
    return range(targets)
