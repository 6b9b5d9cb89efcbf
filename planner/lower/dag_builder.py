"""Lowers physical operators to a DAG, for a given number of processors per vertex.

The homes of the nodes register the rules (`planner/operators/passes.py::LOWERING`). A rule lowers
the inputs, adds the vertex and its edges, and returns the output of the vertex.

With a parallelism of 1 every operator is one vertex of one processor. With more:

- a scan runs as many processors as it has partitions;
- operators that process rows one by one follow a scan on isolated edges;
- aggregations accumulate in the same processors, and combine by key;
- joins broadcast the build side, or partition both sides by key;
- operators that need an order run in one processor.

The DAG of a query is a tree: a scan that occurs twice becomes two vertices. No two inputs of a
vertex then depend on the same producer, so a join that reads its build side to the end cannot block
on the full queue of its probe side. Only a subplan that the planner shares is one vertex with
several readers (`planner/physical/sharing`): subplans of streams outside of build sides, and
subplans of tables, with a spool in front of each reader that may have to wait.

Each rule imports the processor of its vertex when it runs, so that a process loads only the
operators of its queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from runnel.base.frozen import frozen
from runnel.connector import Source, WritableTable
from runnel.dag import DAG, Edge, Supplier, Vertex, between
from runnel.expressions.nodes import Column, Expression
from runnel.expressions.properties import is_slow
from runnel.planner.operators.passes import LOWERING
from runnel.planner.physical.nodes import LateOutput, Physical, Shared, SourceScan
from runnel.processors.sinks.result_queue import result_sink

HOLD = "hold"
IMPOSE_ORDER = "impose order"
SESSION = "session"
VALUES = "values"
CALC = "calc"
AGGREGATE = "aggregate"
ACCUMULATE = "accumulate"
COMBINE = "combine"
JOIN = "join"
SORT = "sort"
TOP_PER_PROCESSOR = "top per processor"
TOP = "top"
LIMIT = "limit"
UNION = "union"
EXPAND = "expand"
WINDOW = "window"
LIMIT_PER_GROUP = "limit per group"
RECURSION = "recursion"
LATE_ROWS = "late rows"
LATE_FILTER = "late filter"
AS_OF_JOIN = "as-of join"
REFRESHED_JOIN = "refreshed join"
CHUNKS = "pieces"
LIVE_AGGREGATE = "live aggregate"
LIVE_PARTITIONS = "live partitions"
LIVE_JOIN = "live join"
CURRENT_ROWS = "current rows"
CHANGES = "changes"
CHANGELOG = "changelog"
VIEW_INPUT = "changes of "
PUBLICATION = "publish "
SCAN = "scan "
WRITE = "write "
FRAGMENT = "fragment on "
LOOK_UP = "look-up "
"""The names of vertices. A snapshot stores state by the name of the vertex, so a name never
changes. The ones that end with a space are prefixes."""

_NAMED_BY_TABLE = (SCAN, WRITE, VIEW_INPUT, PUBLICATION)

BUILD_PRIORITY = 0
PROBE_PRIORITY = 1
"""The priorities of the edges of a join: the build side is read to its end first."""


@frozen
class VertexOutput:
    """The output of a vertex.

    vertex: the vertex.
    is_parallel: whether more than one processor emits the rows.
    names: the names of the columns.
    """

    vertex: Vertex
    is_parallel: bool
    names: tuple[str, ...]


class SharedOutputs(Protocol):
    """The vertices that several other vertices read."""

    def use(self, to: Lowering, node: Shared) -> VertexOutput:
        """The output of the subplan of `node`, for one more reader."""

    def connect(self, dag: DAG) -> None:
        """Connects the edges of the complete DAG to the shared vertices."""


class Lowering:
    """The DAG under construction.

    dag: the vertices and edges so far.
    parallelism: number of processors of a parallel vertex.
    shared: the shared vertices; None until a rule meets a `Shared` node.
    """

    def __init__(self, parallelism: int) -> None:
        self.dag = DAG()
        self.parallelism = parallelism
        self.shared: SharedOutputs | None = None
        self.late_filters: list[tuple[VertexOutput, LateOutput]] = []
        """Filters below the current node whose late rows its operator writes with its own late
        rows: the filter's output, and the side output."""
        self.nodes: dict[str, Physical] = {}
        """The node that each vertex is made for, by the name of the vertex."""
        self.late: dict[str, WritableTable] = {}
        """The table of late rows, by the name of each vertex that only processes late rows."""
        self._used: dict[str, int] = {}
        self._nodes: list[Physical] = []

    def lower(self, node: Physical) -> VertexOutput:
        """Makes the vertices of a node and its inputs, by the rule in the home of the node."""
        rule = LOWERING.rule(node)
        self._nodes.append(node)
        try:
            made: VertexOutput = rule(self, node)
            return made
        finally:
            self._nodes.pop()

    def next_name(self, name: str) -> str:
        """The name that `vertex` assigns to the next vertex: `name`, or `name` and a number if it
        exists already."""
        number = self._used.get(name, 0) + 1
        return name if number == 1 else f"{name} {number}"

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None) -> Vertex:
        """Adds a vertex. Its full name is `name`, the state name of the node that is being lowered,
        and a number if the name exists already."""
        node = self._nodes[-1] if self._nodes else None
        if node is not None and node.state_name and not name.startswith(_NAMED_BY_TABLE):
            name = f"{name} {node.state_name}"
        full = self.next_name(name)
        self._used[name] = self._used.get(name, 0) + 1
        if node is not None:
            self.nodes[full] = node
        return self.dag.vertex(full, supplier, parallelism)

    def source(
        self, name: str, supplier: Supplier, names: tuple[str, ...], is_parallel: bool = False
    ) -> VertexOutput:
        """A vertex without inputs; a parallel one runs as many processors as its supplier
        prefers."""
        may_split = is_parallel and self.parallelism > 1
        return VertexOutput(self.vertex(name, supplier, None if may_split else 1), may_split, names)

    def follow(
        self,
        rows: VertexOutput,
        name: str,
        supplier: Supplier,
        parallelism: int,
        names: tuple[str, ...] | None = None,
    ) -> VertexOutput:
        """Adds a vertex that reads `rows`. If both are parallel, each processor reads one processor
        of `rows`; otherwise one processor reads them all."""
        vertex = self.vertex(name, supplier, parallelism)
        self.connect(rows, vertex, parallelism)
        return VertexOutput(vertex, parallelism > 1, rows.names if names is None else names)

    def by_key(
        self,
        rows: VertexOutput,
        name: str,
        supplier: Supplier,
        keys: tuple[str, ...],
        names: tuple[str, ...] | None = None,
    ) -> VertexOutput:
        """Adds a vertex that reads `rows`, with all rows of a key in the same processor. It is
        parallel if `rows` are parallel and `keys` is not empty."""
        if not rows.is_parallel or not keys:
            return self.follow(rows, name, supplier, 1, names)
        vertex = self.vertex(name, supplier, self.parallelism)
        self.dag.edge(between(rows.vertex, vertex).partitioned(*keys))
        return VertexOutput(vertex, True, rows.names if names is None else names)

    def connect(
        self,
        rows: VertexOutput,
        target: Vertex,
        parallelism: int,
        ordinal: int = 0,
        watermarks: Mapping[int, int] | None = None,
    ) -> Edge:
        """Adds an edge from `rows` to input `ordinal` of `target`.

        parallelism: number of processors of `target`.
        watermarks: the number of each watermark that the edge passes on, mapped to its number in
            `target`; None: all, with the same numbers.
        """
        edge = between(rows.vertex, target).to_input(ordinal)
        if watermarks is not None:
            edge = edge.with_watermarks(watermarks)
        if rows.is_parallel and parallelism > 1:
            edge = edge.isolated()
        self.dag.edge(edge)
        return edge

    def with_late(self, rows: VertexOutput, *sides: LateOutput | None) -> VertexOutput:
        """Adds the vertices that write the late rows of the operator that emits `rows`, and the
        late rows of the filters below it; returns `rows`. Each of `sides` has an output."""
        own = [side for side in sides if side is not None]
        if own:
            filters, self.late_filters = self.late_filters, []
            count = len(self.nodes)
            _write_late_rows(self, own, rows, filters)
            self.late.update(dict.fromkeys(list(self.nodes)[count:], own[0].table))
        return rows

    def in_chunks(self, rows: VertexOutput, expressions: Iterable[Expression]) -> VertexOutput:
        """The rows in smaller batches, if one of the `expressions` that an operator computes over
        them is slow."""
        if not any(map(is_slow, expressions)):
            return rows
        from runnel.processors.calc import chunking

        return self.follow(rows, CHUNKS, chunking(), self.parallelism_of(rows))

    def parallelism_of(self, rows: VertexOutput) -> int:
        """The number of processors of a vertex that processes the `rows` one by one."""
        return self.parallelism if rows.is_parallel else 1


def _write_late_rows(
    to: Lowering,
    own: Sequence[LateOutput],
    rows: VertexOutput,
    filters: Sequence[tuple[VertexOutput, LateOutput]],
) -> None:
    """Adds one sink for late rows, and a vertex in front of it for each output with late rows.

    Output 0 of an operator has its result, output 1 the late rows of its first side, and so on. A
    late filter has its late rows at output 1. All sides write to the same mapping.
    """
    from runnel.processors.sinks.write import late_write

    found = [(rows, 1 + number, side) for number, side in enumerate(own)] + [
        (item, 1, side) for item, side in filters
    ]
    table = own[0].table
    assigned = [_assigned(to, *item) for item in found]
    supplier = late_write(table, own[0].request, f"late rows of {rows.vertex.name}")
    target = to.vertex(f"{WRITE}{table.name}", supplier, 1)
    for number, assign in enumerate(assigned):
        to.dag.edge(between(assign, target).to_input(number))


def _assigned(to: Lowering, rows: VertexOutput, output: int, side: LateOutput) -> Vertex:
    """Adds the vertex that converts late rows of output `output` into rows of the mapping."""
    from runnel.processors.calc import calc

    names = tuple(side.table.columns[i].name for i in side.request.columns)
    parallelism = rows.vertex.parallelism if rows.is_parallel else 1
    assign = to.vertex(LATE_ROWS, calc(None, side.expressions, names), parallelism)
    edge = between(rows.vertex, assign).from_output(output)
    to.dag.edge(edge.isolated() if rows.is_parallel else edge)
    return assign


def key_names(keys: tuple[Expression, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the key columns; () if a key is not a plain column, or if there is no key."""
    found = tuple(names[key.index] for key in keys if isinstance(key, Column))
    return found if len(found) == len(keys) else ()


def source_of(node: SourceScan, vertex: str = "") -> Source:
    """The source of a scan, which also writes malformed records if the scan has an output for them.
    `vertex` is the name under which this sink stores its state; "": a scan without state."""
    source = node.table.scan(node.request)
    if node.malformed is None:
        return source
    from runnel.processors.sources.malformed_records import MalformedRecordSource

    return MalformedRecordSource(source, node.malformed, vertex)


def lower(plan: Physical, parallelism: int) -> DAG:
    """The DAG of a physical plan for `parallelism` worker threads. Its last vertex puts the rows
    into the result queue of the job."""
    lowering = Lowering(parallelism)
    rows = lowering.lower(plan)
    lowering.follow(rows, "result", result_sink(), 1)
    if lowering.shared is not None:
        lowering.shared.connect(lowering.dag)
    lowering.dag.validate()
    return lowering.dag
