"""From physical operators to a DAG, for a given number of processors per vertex.

The homes of the nodes register the rules (`planner/operators/passes.py::LOWERING`). A rule connects
the inputs, makes the vertex and returns its output. With a parallelism of 1 every operator is one
vertex of one processor. With more, scans run as many processors as they have partitions,
row-by-row operators follow them on isolated edges, aggregations accumulate there and combine by
key, joins send the build side to every processor or partition both sides by key, and operators that
need an order run in one processor.

The DAG of a query is a tree: a scan that occurs twice is two vertices. So no two inputs of a vertex
hang on one producer, and reading one input to its end before another (the build side of a join)
can't block on a full queue of its own making. Only what the planner shares is one vertex with
several readers: of streams outside of build sides, of tables with a spool for each reader that may
have to wait.

Each rule imports the processor that its vertex runs, so that a process loads only the operators of
its queries.
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
PIECES = "pieces"
SCAN = "scan "
WRITE = "write "
FRAGMENT = "fragment on "
LOOK_UP = "look-up "
"""The names of vertices. Snapshots find their state by them, so a name never changes. The last four
are prefixes."""

_NAMED_BY_TABLE = (SCAN, WRITE)

BUILD_PRIORITY = 0
PROBE_PRIORITY = 1
"""The priorities of the edges of a join: the build side is read to its end first."""


@frozen
class VertexOutput:
    """What comes out of a vertex: whether more than one processor gives it, and how its columns are
    called."""

    vertex: Vertex
    is_parallel: bool
    names: tuple[str, ...]


class SharedOutputs(Protocol):
    """The vertices that several others read."""

    def use(self, to: Lowering, node: Shared) -> VertexOutput:
        """The rows of what `node` shares, for one more reader."""

    def connect(self, dag: DAG) -> None:
        """Gives the edges of the complete DAG their vertices."""


class Lowering:
    """The DAG under construction."""

    def __init__(self, parallelism: int) -> None:
        self.dag = DAG()
        self.parallelism = parallelism
        self.shared: SharedOutputs | None = None
        self.late_filters: list[tuple[VertexOutput, LateOutput]] = []
        """Filters whose late rows the operator above writes together with its own."""
        self.nodes: dict[str, Physical] = {}
        """The node that each vertex is made for, by the name of the vertex."""
        self.late: dict[str, WritableTable] = {}
        """The table of late rows of each vertex that only late rows have, by its name."""
        self._used: dict[str, int] = {}
        self._nodes: list[Physical] = []

    def lower(self, node: Physical) -> VertexOutput:
        rule = LOWERING.rule(node)
        self._nodes.append(node)
        try:
            made: VertexOutput = rule(self, node)
            return made
        finally:
            self._nodes.pop()

    def next_name(self, name: str) -> str:
        """What `vertex` will call the next vertex of that name."""
        number = self._used.get(name, 0) + 1
        return name if number == 1 else f"{name} {number}"

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None) -> Vertex:
        """A vertex of that name, and the name of the state of the node that is lowered, with a
        number behind it if there is one already."""
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
        """A vertex behind `rows`: processor by processor if it is parallel too, else all into
        one."""
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
        """A vertex behind `rows` in which those of equal keys meet in one processor: several where
        `rows` are parallel and have keys, else one."""
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
        """`watermarks`: those that the edge brings, by their numbers, and the numbers they get;
        None: all as they are."""
        edge = between(rows.vertex, target).to_input(ordinal)
        if watermarks is not None:
            edge = edge.with_watermarks(watermarks)
        if rows.is_parallel and parallelism > 1:
            edge = edge.isolated()
        self.dag.edge(edge)
        return edge

    def with_late(self, rows: VertexOutput, *sides: LateOutput | None) -> VertexOutput:
        """`rows`, beside which the late rows of its vertex go where they are to, those of each side
        by an output of its own, and those of a late filter below."""
        own = [side for side in sides if side is not None]
        if own:
            filters, self.late_filters = self.late_filters, []
            count = len(self.nodes)
            _write_late_rows(self, own, rows, filters)
            self.late.update(dict.fromkeys(list(self.nodes)[count:], own[0].table))
        return rows

    def in_pieces(self, rows: VertexOutput, expressions: Iterable[Expression]) -> VertexOutput:
        """The rows, in batches small enough for an operator that works out `expressions` over
        each."""
        if not any(map(is_slow, expressions)):
            return rows
        from runnel.processors.calc import chunking

        return self.follow(rows, PIECES, chunking(), self.beside(rows))

    def beside(self, rows: VertexOutput) -> int:
        """The parallelism of a vertex that works on each row by itself."""
        return self.parallelism if rows.is_parallel else 1


def _write_late_rows(
    to: Lowering,
    own: Sequence[LateOutput],
    rows: VertexOutput,
    filters: Sequence[tuple[VertexOutput, LateOutput]],
) -> None:
    """Makes the vertices of the late rows of an operator, which its outputs from 1 on emit: one
    output for each of the sides `own`, whose late rows go to one mapping. Output 1 of each late
    filter below goes there too."""
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
    """The vertex that makes rows of the mapping of those that come by an output."""
    from runnel.processors.calc import calc

    names = tuple(side.table.columns[i].name for i in side.request.columns)
    parallelism = rows.vertex.parallelism if rows.is_parallel else 1
    assign = to.vertex(LATE_ROWS, calc(None, side.expressions, names), parallelism)
    edge = between(rows.vertex, assign).from_output(output)
    to.dag.edge(edge.isolated() if rows.is_parallel else edge)
    return assign


def key_names(keys: tuple[Expression, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of key columns; () where a key isn't a plain column, or there is none."""
    found = tuple(names[key.index] for key in keys if isinstance(key, Column))
    return found if len(found) == len(keys) else ()


def source_of(node: SourceScan, place: str = "") -> Source:
    """What a scan reads. `place` is the vertex that goes on, after a restart, where it was."""
    source = node.table.scan(node.request)
    if node.divert is None:
        return source
    from runnel.processors.sources.malformed_records import MalformedRecordSource

    return MalformedRecordSource(source, node.divert, place)


def lower(plan: Physical, parallelism: int) -> DAG:
    """The DAG that runs a physical plan on `parallelism` worker threads and hands its rows to the
    job's results."""
    lowering = Lowering(parallelism)
    rows = lowering.lower(plan)
    lowering.follow(rows, "result", result_sink(), 1)
    if lowering.shared is not None:
        lowering.shared.connect(lowering.dag)
    lowering.dag.validate()
    return lowering.dag
