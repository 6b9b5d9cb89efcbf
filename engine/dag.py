"""The directed acyclic graph of a job: vertices that compute, edges that carry items.

A DAG is built once, validated, and may be submitted many times. It holds suppliers, never
processors, so it contains nothing that runs. The model is Hazelcast Jet's: each vertex is run by
`parallelism` processors on every member, and an edge is many queues, one for each pair of
processors that it connects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from runnel.base.frozen import frozen
from runnel.errors import InterfaceError, NotSupportedError, ProgrammingError

if TYPE_CHECKING:
    import pyarrow as pa

    from runnel.processor import JobContext, Processor

DEFAULT_QUEUE_SIZE = 16
"""Capacity of a queue in batches: 16 batches are up to a million rows."""


class Routing(Enum):
    """The rule by which an edge distributes batches over the downstream processors.

    UNICAST: each batch to any one processor that has room, in turn.
    ISOLATED: processor i sends only to processor i (modulo their number).
    BROADCAST: each batch to all processors.
    PARTITIONED: rows are divided by the hash of the key columns.

    Control items always go to all processors that the sender is connected to.
    """

    __module__ = "runnel"

    UNICAST = "unicast"
    ISOLATED = "isolated"
    BROADCAST = "broadcast"
    PARTITIONED = "partitioned"


Partitioner = Callable[["pa.RecordBatch", int], Any]
"""Returns the partition of each row of a batch, which has the key columns of an edge: an array of
integers from 0 to the second argument - 1. It depends on nothing else than its arguments."""

ProcessorFactory = Callable[[], "Processor"]
"""Makes one processor; called `parallelism` times for each execution."""


class ProcessorSupplier:
    """Makes the processors of one vertex on one member. `get` is called once per execution, then
    `close` when the execution ended, with the error if it failed."""

    def get(self, count: int) -> Sequence[Processor]:
        """Exactly `count` processors; they may differ, for example in the partitions of the source
        that they read."""
        raise NotImplementedError(f"{type(self).__name__}.get")

    def close(self, error: BaseException | None) -> None:
        """Releases all resources of the supplier."""


class ProcessorMetaSupplier:
    """Makes one supplier per member; called once per execution, on the member that coordinates it.

    It knows the whole job: the number of members and processors, and the arguments; a source looks
    up its partitions here and assigns them. It runs on the thread that starts the job, before any
    processor runs.
    """

    is_unbounded = False
    """Whether its processors read an input without an end."""

    def preferred_parallelism(self, context: JobContext) -> int | None:
        """The maximum number of processors per member that are of use; None: as many as there are
        workers."""
        return None

    def get(
        self, context: JobContext, members: int, parallelism: int
    ) -> Sequence[ProcessorSupplier]:
        """Exactly `members` suppliers, each for `parallelism` processors."""
        raise NotImplementedError(f"{type(self).__name__}.get")


Supplier = ProcessorFactory | ProcessorSupplier | ProcessorMetaSupplier

_Factory = TypeVar("_Factory", bound=Callable[..., Any])


@frozen
class FactoryCall:
    """The call of a factory that returned a value.

    factory: the decorated factory.
    args, kwargs: its arguments.
    """

    factory: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def storable(module: str | None = None) -> Callable[[_Factory], _Factory]:
    """The decorator of a factory whose results can be stored with a named job, as the call that
    returned them: `@storable()` above a function of an importable module that returns a supplier.
    Its arguments must be storable too.

    module: the module that the factory is imported from; None: the one that defines it.
    """

    def decorate(factory: _Factory) -> _Factory:
        @wraps(factory)
        def make(*args: Any, **kwargs: Any) -> Any:
            made = factory(*args, **kwargs)
            if isinstance(made, type) or "<locals>" not in getattr(
                made, "__qualname__", "<locals>"
            ):
                made = partial(made)  # a class or function that others use, too
            object.__setattr__(made, "factory_call", FactoryCall(make, args, kwargs))
            return made

        if module is not None:
            make.__module__ = module
        return cast("_Factory", make)

    return decorate


@frozen
class Vertex:
    """A step of the computation.

    name: name that is unique in the DAG.
    supplier: makes the processors.
    parallelism: processors per member; None: as the supplier prefers, else one per worker thread.
    """

    __module__ = "runnel"

    name: str
    supplier: Supplier
    parallelism: int | None = None


@frozen
class Edge:
    """A connection from an output of one vertex to an input of another.

    source, target: names of the vertices.
    source_ordinal, target_ordinal: number of the output and of the input.
    routing: how batches are distributed over the target's processors.
    keys: names of the key columns of a PARTITIONED edge.
    priority: inputs with a smaller priority are read to their end before inputs with a larger one.
    queue_size: capacity of each queue, in batches.
    watermarks: pairs of a watermark's number in the source and its number in the target; other
        watermarks end here. None: all pass, with unchanged numbers.
    partitioner: of a PARTITIONED edge, the function that divides the rows; None: the hash of the
        keys.
    """

    __module__ = "runnel"

    source: str
    target: str
    source_ordinal: int = 0
    target_ordinal: int = 0
    routing: Routing = Routing.UNICAST
    keys: tuple[str, ...] = ()
    priority: int = 0
    queue_size: int = DEFAULT_QUEUE_SIZE
    watermarks: tuple[tuple[int, int], ...] | None = None
    partitioner: Partitioner | None = None

    def from_output(self, ordinal: int) -> Edge:
        return replace(self, source_ordinal=ordinal)

    def to_input(self, ordinal: int) -> Edge:
        return replace(self, target_ordinal=ordinal)

    def isolated(self) -> Edge:
        return replace(self, routing=Routing.ISOLATED)

    def broadcast(self) -> Edge:
        return replace(self, routing=Routing.BROADCAST)

    def partitioned(self, *keys: str) -> Edge:
        return replace(self, routing=Routing.PARTITIONED, keys=keys, partitioner=None)

    def partitioned_by(self, function: Partitioner, *keys: str) -> Edge:
        """Divides the rows by a function of the columns `keys`.

        function: receives a batch of these columns and the number of partitions; returns an integer
            from 0 to that number - 1 for each row, as a pyarrow or numpy array. Rows with equal
            keys must have the same number. State that has the key columns is divided by it too,
            when a job is restored with another number of processors.
        """
        if not callable(function):
            raise InterfaceError(
                f"a partition function can't be a value of class {type(function).__name__}",
                hint='write partitioned_by(function, "key")',
            )
        return replace(self, routing=Routing.PARTITIONED, keys=keys, partitioner=function)

    def distributed(self) -> Edge:
        """There are no other members: NotSupportedError."""
        raise NotSupportedError(
            f'the edge "{self.source}" → "{self.target}" can\'t be distributed: '
            "this process is the only member",
            hint="leave .distributed() out: the edge connects all processors of both vertices",
        )

    def with_priority(self, priority: int) -> Edge:
        return replace(self, priority=priority)

    def with_watermarks(self, numbers: Mapping[int, int]) -> Edge:
        """Passes only the watermarks whose numbers are keys of `numbers`, renumbered to the
        values."""
        return replace(self, watermarks=tuple(sorted(numbers.items())))

    def with_queue_size(self, size: int) -> Edge:
        return replace(self, queue_size=size)


def between(source: Vertex, target: Vertex) -> Edge:
    """An edge from output 0 of `source` to input 0 of `target`; the methods of `Edge` refine it."""
    return Edge(source.name, target.name)


@frozen
class Epochs:
    """The epochs of a query whose results change.

    sources: names of the vertices whose processors end epochs: the sources without an end.
    distance: minimum time between the ends of two epochs, in ns.
    """

    sources: frozenset[str]
    distance: int


@dataclass(slots=True)
class DAG:
    """Vertices and edges under construction; `validate` checks them and returns the vertices in
    topological order.

    vertices: the vertices by name.
    edges: the edges, in the order in which they were added.
    epochs: how the input is divided into epochs; None: it is not.
    """

    __module__ = "runnel"

    vertices: dict[str, Vertex] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    epochs: Epochs | None = None
    prepared: object = field(default=None, init=False, repr=False, compare=False)
    """The runtime's template of this DAG, computed when it was first submitted and reused later."""

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None = None) -> Vertex:
        """Adds a vertex; its name must be new."""
        if name in self.vertices:
            raise ProgrammingError(
                f'vertex "{name}" exists already in this DAG', hint="give each vertex its own name"
            )
        if not callable(supplier) and not isinstance(
            supplier, ProcessorSupplier | ProcessorMetaSupplier
        ):
            raise InterfaceError(
                f'the supplier of vertex "{name}" can\'t be a value of class '
                f"{type(supplier).__name__}",
                hint="pass a function that returns a processor, or a ProcessorSupplier",
            )
        if parallelism is not None and (not isinstance(parallelism, int) or parallelism < 1):
            raise ProgrammingError(
                f'the parallelism of vertex "{name}" must be at least 1, not {parallelism!r}',
                hint="pass an integer, or None for the parallelism of the connection",
            )
        self.vertices[name] = vertex = Vertex(name, supplier, parallelism)
        return vertex

    def edge(self, edge: Edge) -> DAG:
        """Adds an edge between vertices of this DAG."""
        self.edges.append(edge)
        return self

    @property
    def is_unbounded(self) -> bool:
        """Whether a supplier says that its processors read an input without an end."""
        return any(
            isinstance(vertex.supplier, ProcessorMetaSupplier) and vertex.supplier.is_unbounded
            for vertex in self.vertices.values()
        )

    def narrowed(self) -> DAG:
        """The same vertices and edges with one processor for each vertex. A plan for one processor
        may have other vertices than a plan for several; a job that must be restorable with any
        parallelism therefore runs this DAG when it has one processor."""
        vertices = {name: replace(vertex, parallelism=1) for name, vertex in self.vertices.items()}
        return DAG(vertices, list(self.edges), self.epochs)

    def inputs(self, name: str) -> list[Edge]:
        """The edges into a vertex, by ordinal."""
        return sorted((e for e in self.edges if e.target == name), key=lambda e: e.target_ordinal)

    def outputs(self, name: str) -> list[Edge]:
        """The edges out of a vertex, by ordinal."""
        return sorted((e for e in self.edges if e.source == name), key=lambda e: e.source_ordinal)

    def sides(self) -> tuple[dict[str, list[Edge]], dict[str, list[Edge]]]:
        """The edges into and out of each vertex, by ordinal, computed in one pass."""
        inputs: dict[str, list[Edge]] = {name: [] for name in self.vertices}
        outputs: dict[str, list[Edge]] = {name: [] for name in self.vertices}
        for edge in self.edges:
            inputs[edge.target].append(edge)
            outputs[edge.source].append(edge)
        for edges in inputs.values():
            edges.sort(key=lambda e: e.target_ordinal)
        for edges in outputs.values():
            edges.sort(key=lambda e: e.source_ordinal)
        return inputs, outputs

    def validate(self) -> list[Vertex]:
        """The vertices, sources first. ProgrammingError if there are none, for a vertex under the
        name of another one, an unknown vertex, a gap or a repetition in the ordinals, a partitioned
        edge without keys, an empty queue, or a cycle."""
        if not self.vertices:
            raise ProgrammingError(
                "the DAG has no vertices", hint="add them with DAG.vertex before it is submitted"
            )
        for name, vertex in self.vertices.items():
            if vertex.name != name:
                raise ProgrammingError(
                    f'the DAG has vertex "{vertex.name}" under the name "{name}"',
                    hint="add each vertex by DAG.vertex, with its own name",
                )
        for edge in self.edges:
            for name in (edge.source, edge.target):
                if name not in self.vertices:
                    raise ProgrammingError(
                        f'the edge "{edge.source}" → "{edge.target}" names an unknown vertex '
                        f'"{name}"'
                    )
            if edge.routing is Routing.PARTITIONED and not edge.keys:
                raise ProgrammingError(
                    f'the partitioned edge "{edge.source}" → "{edge.target}" has no key columns'
                )
            if edge.queue_size < 1:
                raise ProgrammingError(
                    f'the edge "{edge.source}" → "{edge.target}" has a queue of size 0'
                )
        inputs, outputs = self.sides()
        for name in self.vertices:
            self._check_ordinals(name, [e.target_ordinal for e in inputs[name]], "input")
            self._check_ordinals(name, [e.source_ordinal for e in outputs[name]], "output")
        return self._topological_order(inputs, outputs)

    def _check_ordinals(self, name: str, ordinals: list[int], side: str) -> None:
        if ordinals != list(range(len(ordinals))):
            raise ProgrammingError(
                f'the {side}s of vertex "{name}" are numbered {ordinals}, not from 0 without gaps',
                hint="number them with Edge.from_output and Edge.to_input",
            )

    def _topological_order(
        self, inputs: dict[str, list[Edge]], outputs: dict[str, list[Edge]]
    ) -> list[Vertex]:
        waiting = {name: len(edges) for name, edges in inputs.items()}
        ready = deque(name for name, left in waiting.items() if left == 0)
        order = []
        while ready:
            name = ready.popleft()
            order.append(self.vertices[name])
            for edge in outputs[name]:
                waiting[edge.target] -= 1
                if waiting[edge.target] == 0:
                    ready.append(edge.target)
        if len(order) < len(self.vertices):
            stuck = sorted(name for name, left in waiting.items() if left > 0)
            raise ProgrammingError(
                "the DAG has a cycle", detail="through " + ", ".join(f'"{name}"' for name in stuck)
            )
        return order
