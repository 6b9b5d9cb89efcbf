"""From physical operators to a DAG, for a given number of processors per vertex.

One function per node, each in three steps: connect the inputs, make the vertex, say what comes out of it. With a parallelism
of 1 every operator is one vertex of one processor. With more, scans run as many processors as they have partitions for,
what follows them stays with them on isolated edges, aggregations accumulate there and combine by key, joins give the
build side to every processor or divide both sides by key, and what must be in order comes together in one processor.

The DAG of a query is a tree: a scan that occurs twice is two vertices. So no two inputs of a vertex hang on one producer,
and reading one input to its end before another (the build side of a join) can't block on a full queue of its own making. Only
what the planner shares is one vertex with several readers: of streams outside of build sides, of tables with those readers
holding its rows that might have to wait.

Each function imports the processor that its vertex runs, so that a process loads only the operators that its queries have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from runnel.connector import Source
from runnel.dag import DAG, Edge, Supplier, Vertex, between
from runnel.errors import internal
from runnel.expressions.nodes import Column, Expression
from runnel.expressions.properties import is_slow
from runnel.frozen import frozen
from runnel.planner import physical
from runnel.planner.choose import needed_rows
from runnel.planner.physical import Physical, column_names
from runnel.processors.result import result_sink
from runnel.relation import JoinKind
from runnel.streams import WINDOW_COLUMNS

if TYPE_CHECKING:
    from runnel.planner.lower_shared import SharedVertices

BUILD_PRIORITY = 0
PROBE_PRIORITY = 1


def lower(plan: Physical, parallelism: int) -> DAG:
    """The DAG that runs a physical plan on `parallelism` worker threads and hands its rows to the job's results."""
    lowering = _Lowering(parallelism)
    rows = lowering.lower(plan)
    lowering.follow(rows, "result", result_sink(), 1)
    if lowering.shared is not None:
        lowering.shared.connect(lowering.dag)
    lowering.dag.validate()
    return lowering.dag


@frozen
class _Output:
    """What comes out of a vertex: whether more than one processor gives it, and how its columns are called."""

    vertex: Vertex
    is_parallel: bool
    names: tuple[str, ...]


class _Lowering:
    """The DAG under construction."""

    def __init__(self, parallelism: int) -> None:
        self.dag = DAG()
        self.parallelism = parallelism
        self.shared: SharedVertices | None = None
        self._used: dict[str, int] = {}

    def lower(self, node: Physical) -> _Output:
        rule = _RULES.get(type(node))
        if rule is None:
            raise internal(f"no vertex for {type(node).__name__}")
        return rule(self, node)

    def vertex(self, name: str, supplier: Supplier, parallelism: int | None) -> Vertex:
        """A vertex of that name, with a number behind it if there is one already."""
        self._used[name] = number = self._used.get(name, 0) + 1
        return self.dag.vertex(name if number == 1 else f"{name} {number}", supplier, parallelism)

    def source(self, name: str, supplier: Supplier, names: tuple[str, ...], is_parallel: bool = False) -> _Output:
        """A vertex without inputs; a parallel one runs as many processors as its supplier prefers."""
        may_split = is_parallel and self.parallelism > 1
        return _Output(self.vertex(name, supplier, None if may_split else 1), may_split, names)

    def follow(
        self, rows: _Output, name: str, supplier: Supplier, parallelism: int, names: tuple[str, ...] | None = None
    ) -> _Output:
        """A vertex behind `rows`: processor by processor if it is parallel too, else all into one."""
        vertex = self.vertex(name, supplier, parallelism)
        self.connect(rows, vertex, parallelism)
        return _Output(vertex, parallelism > 1, rows.names if names is None else names)

    def connect(
        self, rows: _Output, target: Vertex, parallelism: int, ordinal: int = 0, watermarks: Mapping[int, int] | None = None
    ) -> Edge:
        """`watermarks`: those that the edge brings, by their numbers, and the numbers they get; None: all as they are."""
        edge = between(rows.vertex, target).to_input(ordinal)
        if watermarks is not None:
            edge = edge.with_watermarks(watermarks)
        if rows.is_parallel and parallelism > 1:
            edge = edge.isolated()
        self.dag.edge(edge)
        return edge

    def in_pieces(self, rows: _Output, expressions: Iterable[Expression]) -> _Output:
        """The rows, in batches small enough for an operator that works out `expressions` over each."""
        if not any(map(is_slow, expressions)):
            return rows
        from runnel.processors.calc import in_pieces

        return self.follow(rows, "pieces", in_pieces(), self.beside(rows))

    def beside(self, rows: _Output) -> int:
        """The parallelism of a vertex that works on each row by itself."""
        return self.parallelism if rows.is_parallel else 1


def _scan(to: _Lowering, node: physical.SourceScan) -> _Output:
    from runnel.processors.scan import scan

    names = column_names(node.fields)
    supplier = scan(source_of(node), node.condition, node.projections, names, node.time)
    return to.source(f"scan {node.table.name}", supplier, names, is_parallel=True)


def source_of(node: physical.SourceScan) -> Source:
    """What a scan reads."""
    source = node.table.scan(node.request)
    if node.divert is None:
        return source
    from runnel.processors.divert import DivertingSource

    return DivertingSource(source, node.divert)


def _shared(to: _Lowering, node: physical.Shared) -> _Output:
    if to.shared is None:
        # Loaded on first use: few queries read a stream twice.
        from runnel.planner.lower_shared import SharedVertices

        to.shared = SharedVertices()
    return to.shared.use(to, node)


def _hold(to: _Lowering, node: physical.Hold) -> _Output:
    from runnel.processors.hold import hold

    rows = to.lower(node.input)
    return to.follow(rows, "hold", hold(), to.beside(rows))


def _impose_order(to: _Lowering, node: physical.ImposeOrder) -> _Output:
    from runnel.processors.impose_order import impose_order

    rows = to.lower(node.input)
    return to.follow(rows, "impose order", impose_order(node.time), to.beside(rows))


def _assign_windows(to: _Lowering, node: physical.AssignWindows) -> _Output:
    from runnel.processors.assign_windows import assign_windows

    rows = to.lower(node.input)
    names = column_names(node.fields)
    supplier = assign_windows(node.shape, node.time, names, node.columns)
    return to.follow(rows, node.shape.kind.value, supplier, to.beside(rows), names)


def _session_rows(to: _Lowering, node: physical.SessionRows) -> _Output:
    from runnel.processors.session_rows import session_rows

    rows = to.lower(node.input)
    names = column_names(node.fields)
    width = len(node.fields) - len(WINDOW_COLUMNS)
    keys = tuple(dict.fromkeys(key.index for key in node.keys))
    supplier = session_rows(node.gap, node.time, keys, width, names, node.bound, node.passes_late)
    if not rows.is_parallel or not keys:
        return to.follow(rows, "session", supplier, 1, names)
    vertex = to.vertex("session", supplier, to.parallelism)
    to.dag.edge(between(rows.vertex, vertex).partitioned(*(rows.names[key] for key in keys)))
    return _Output(vertex, True, names)


def _index_scan(to: _Lowering, node: physical.IndexScan) -> _Output:
    from runnel.processors.scan import scan

    names = column_names(node.fields)
    source = node.indexed_table.index_scan(node.request, node.lookup)
    supplier = scan(source, node.condition, node.projections, names)
    name = f"scan {node.table.name} using {node.lookup.index.name}"
    return to.source(name, supplier, names, is_parallel=not node.lookup.ordered)


def _fragment(to: _Lowering, node: physical.Fragment) -> _Output:
    from runnel.processors.scan import scan

    names = column_names(node.fields)
    return to.source(f"fragment on {node.source.engine}", scan(node.source, None, None, names), names)


def _values(to: _Lowering, node: physical.Values) -> _Output:
    from runnel.processors.values import values

    names = column_names(node.fields)
    return to.source("values", values(node.values, names), names)


def _generate(to: _Lowering, node: physical.Generate) -> _Output:
    from runnel.processors.generate import generate

    names = column_names(node.fields)
    return to.source(node.function, generate(node.function, node.arguments, names), names)


def _calc(to: _Lowering, node: physical.Calc) -> _Output:
    from runnel.processors.calc import calc

    rows = to.lower(node.input)
    names = column_names(node.fields)
    supplier = calc(node.condition, node.projections, names)
    return to.follow(rows, "calc", supplier, to.beside(rows), names)


def _aggregate(to: _Lowering, node: physical.HashAggregate) -> _Output:
    from runnel.processors.aggregate import aggregate
    from runnel.processors.aggregation import Stage

    expressions = (*node.keys, *(item for call in node.aggregates for item in call.expressions))
    rows = to.in_pieces(to.lower(node.input), expressions)
    names = column_names(node.fields)
    if not rows.is_parallel:
        supplier = aggregate(node.keys, node.aggregates, names, Stage.SINGLE)
        return to.follow(rows, "aggregate", supplier, 1, names)
    if not node.two_stage:
        return _aggregate_by_key(to, node, rows, names)
    first = aggregate(node.keys, node.aggregates, names, Stage.ACCUMULATE)
    keys = tuple(f"k{i}" for i in range(len(node.keys)))
    partial = to.follow(rows, "accumulate", first, to.parallelism, keys)
    last = aggregate(node.keys, node.aggregates, names, Stage.COMBINE)
    if not keys:
        return to.follow(partial, "combine", last, 1, names)
    combine = to.vertex("combine", last, to.parallelism)
    to.dag.edge(between(partial.vertex, combine).partitioned(*keys))
    return _Output(combine, True, names)


def _aggregate_by_key(to: _Lowering, node: physical.HashAggregate, rows: _Output, names: tuple[str, ...]) -> _Output:
    """One stage: the rows of a group meet in the processor that its keys' hash names."""
    from runnel.processors.aggregate import aggregate
    from runnel.processors.aggregation import Stage

    supplier = aggregate(node.keys, node.aggregates, names, Stage.SINGLE)
    keys = _key_names(node.keys, rows.names)
    if not keys:
        return to.follow(rows, "aggregate", supplier, 1, names)
    vertex = to.vertex("aggregate", supplier, to.parallelism)
    to.dag.edge(between(rows.vertex, vertex).partitioned(*keys))
    return _Output(vertex, True, names)


def _stream_aggregate(
    to: _Lowering, node: physical.TimedAggregate | physical.FramedAggregate | physical.SessionAggregate
) -> _Output:
    from runnel.planner.lower_aggregates import lower_stream_aggregate

    expressions = (*node.keys, *(item for call in node.aggregates for item in call.expressions))
    rows = to.in_pieces(to.lower(node.input), expressions)
    return _Output(*lower_stream_aggregate(to, node, rows))


def _join(to: _Lowering, node: physical.HashJoin) -> _Output:
    if node.refresh is not None:
        from runnel.planner.lower_refreshed import lower_refreshed_join

        return _Output(*lower_refreshed_join(to, node))
    from runnel.processors.join import JoinShape, join

    build = to.lower(node.build)
    probe = to.in_pieces(to.lower(node.probe), (*node.probe_keys, *(() if node.condition is None else (node.condition,))))
    names = column_names(node.fields)
    keys, fields = (node.probe_keys, node.build_keys), (node.probe.fields, node.build.fields)
    shape = JoinShape(node.kind, node.condition, node.columns, node.null_safe, position=node.position)
    supplier = join(shape, keys, fields, names)
    build_keys, probe_keys = _key_names(node.build_keys, build.names), _key_names(node.probe_keys, probe.names)
    can_divide = node.is_partitioned and bool(build_keys) and bool(probe_keys)
    whole_build = node.kind not in (JoinKind.RIGHT, JoinKind.FULL)
    is_parallel = to.parallelism > 1 and (
        (can_divide and (probe.is_parallel or build.is_parallel)) or (whole_build and probe.is_parallel)
    )
    parallelism = to.parallelism if is_parallel else 1
    vertex = to.vertex("join", supplier, parallelism)
    build_edge = between(build.vertex, vertex).with_priority(BUILD_PRIORITY)
    probe_edge = between(probe.vertex, vertex).to_input(1).with_priority(PROBE_PRIORITY)
    if is_parallel and can_divide:
        build_edge, probe_edge = build_edge.partitioned(*build_keys), probe_edge.partitioned(*probe_keys)
    elif is_parallel:
        build_edge, probe_edge = build_edge.broadcast(), probe_edge.isolated()
    to.dag.edge(build_edge).edge(probe_edge)
    return _Output(vertex, is_parallel, names)


def _interval_join(to: _Lowering, node: physical.IntervalJoin) -> _Output:
    from runnel.planner.lower_streams import lower_interval_join

    return _Output(*lower_interval_join(to, node, to.lower(node.left), to.lower(node.right)))


def _timed_join(to: _Lowering, node: physical.TimedJoin) -> _Output:
    from runnel.planner.lower_streams import lower_timed_join

    return _Output(*lower_timed_join(to, node, to.lower(node.left), to.lower(node.right)))


def _lookup_join(to: _Lowering, node: physical.LookupJoin) -> _Output:
    from runnel.processors.join_table import JoinShape
    from runnel.processors.lookup_join import lookup_join

    rows = to.lower(node.input)
    names = column_names(node.fields)
    shape = JoinShape(node.kind, node.condition, node.columns)
    supplier = lookup_join(node.lookup, shape, node.keys, (node.input.fields, node.right), names)
    return to.follow(rows, f"look-up {node.lookup.table.name}", supplier, to.beside(rows), names)


def _as_of_join(to: _Lowering, node: physical.AsOfJoin) -> _Output:
    from runnel.planner.lower_streams import lower_as_of_join

    return _Output(*lower_as_of_join(to, node, to.lower(node.left), to.lower(node.right)))


def _sort(to: _Lowering, node: physical.Sort) -> _Output:
    from runnel.processors.sort import sort

    rows = to.lower(node.input)
    return to.follow(rows, "sort", sort(node.keys, None, None), 1)


def _timed_sort(to: _Lowering, node: physical.TimedSort) -> _Output:
    from runnel.planner.lower_streams import timed_sort_of

    return _with_late(to, node.late, to.follow(to.lower(node.input), "sort", timed_sort_of(node), 1))


def _top(to: _Lowering, node: physical.TopN) -> _Output:
    from runnel.processors.sort import sort

    rows = to.lower(node.input)
    if rows.is_parallel:
        first = sort(node.keys, needed_rows(node.count, node.offset), None)
        rows = to.follow(rows, "top per processor", first, to.parallelism)
    return to.follow(rows, "top", sort(node.keys, node.count, node.offset), 1)


def _limit(to: _Lowering, node: physical.Limit) -> _Output:
    from runnel.processors.limit import limit

    rows = to.lower(node.input)
    return to.follow(rows, "limit", limit(node.count, node.offset), 1)


def _union(to: _Lowering, node: physical.Union) -> _Output:
    from runnel.processors.union import union

    parts = [to.lower(part) for part in node.parts]
    names = column_names(node.fields)
    is_parallel = any(part.is_parallel for part in parts)
    parallelism = to.parallelism if is_parallel else 1
    vertex = to.vertex("union", union(names), parallelism)
    for ordinal, part in enumerate(parts):
        to.connect(part, vertex, parallelism, ordinal, None if node.watermarks is None else node.watermarks[ordinal])
    return _Output(vertex, is_parallel, names)


def _set_operation(to: _Lowering, node: physical.SetOperation) -> _Output:
    from runnel.processors.set_operation import set_operation

    inputs = (to.lower(node.left), to.lower(node.right))
    names = column_names(node.fields)
    vertex = to.vertex(node.operation, set_operation(node.operation, node.all), 1)
    for ordinal, rows in enumerate(inputs):
        to.connect(rows, vertex, 1, ordinal)
    return _Output(vertex, False, names)


def _unnest(to: _Lowering, node: physical.Unnest) -> _Output:
    from runnel.processors.unnest import unnest

    rows = to.lower(node.input)
    names = column_names(node.fields)
    supplier = unnest(node.array, node.outer, node.ordinality, names, node.columns, node.more)
    return to.follow(rows, "unnest", supplier, to.beside(rows), names)


def _expand(to: _Lowering, node: physical.Expand) -> _Output:
    from runnel.processors.expand import expand

    rows = to.lower(node.input)
    names = column_names(node.fields)
    return to.follow(rows, "expand", expand(node.projections, names), to.beside(rows), names)


def _window(to: _Lowering, node: physical.Window) -> _Output:
    from runnel.processors.window import window

    rows = to.lower(node.input)
    names = column_names(node.fields)
    most = None if node.most is None else (node.most.call, node.most.number)
    supplier = window(node.calls, node.width, names, most, node.input.fields)
    keys = _key_names(node.keys, rows.names)
    if not rows.is_parallel or not keys:
        return to.follow(rows, "window", supplier, 1, names)
    vertex = to.vertex("window", supplier, to.parallelism)
    to.dag.edge(between(rows.vertex, vertex).partitioned(*keys))
    return _Output(vertex, True, names)


def _timed_window(to: _Lowering, node: physical.TimedWindow) -> _Output:
    from runnel.planner.lower_streams import timed_window_of

    rows = to.lower(node.input)
    names = column_names(node.fields)
    supplier = timed_window_of(node, names)
    keys = _key_names(node.keys, rows.names)
    if not rows.is_parallel or not keys:
        return _with_late(to, node.late, to.follow(rows, "window", supplier, 1, names))
    vertex = to.vertex("window", supplier, to.parallelism)
    to.dag.edge(between(rows.vertex, vertex).partitioned(*keys))
    return _with_late(to, node.late, _Output(vertex, True, names))


def _with_late(to: _Lowering, late: physical.LateRows | None, rows: _Output) -> _Output:
    """What an operator gives, beside the way of its late rows."""
    if late is not None:
        # Loaded on first use: few queries have it.
        from runnel.planner.lower_late import write_late_rows

        write_late_rows(to, late, rows.vertex, rows.is_parallel)
    return rows


def _series(to: _Lowering, node: physical.Series) -> _Output:
    from runnel.processors.series import series

    rows = to.lower(node.input)
    names = column_names(node.fields)
    has_ordinality = node.ordinality is not None
    supplier = series(node.arguments, names, outer=node.outer, ordinality=has_ordinality, columns=node.columns)
    return to.follow(rows, "series", supplier, to.beside(rows), names)


def _group_limit(to: _Lowering, node: physical.GroupLimit) -> _Output:
    from runnel.processors.group_limit import group_limit

    rows = to.lower(node.input)
    supplier = group_limit(node.keys, node.order, node.count, node.offset)
    keys = _key_names(node.keys, rows.names)
    if not rows.is_parallel or not keys:
        return to.follow(rows, "limit per group", supplier, 1)
    vertex = to.vertex("limit per group", supplier, to.parallelism)
    to.dag.edge(between(rows.vertex, vertex).partitioned(*keys))
    return _Output(vertex, True, rows.names)


def _recursion(to: _Lowering, node: physical.Recursion) -> _Output:
    from runnel.planner.recursion import schema_of, stage_definitions
    from runnel.processors.recursion import recursion

    inputs = [to.lower(item) for item in (*node.sides, node.anchor)]
    schema = schema_of(node)
    vertex = to.vertex("recursion", recursion(stage_definitions(node), schema, node.distinct), 1)
    for ordinal, rows in enumerate(inputs):
        priority = BUILD_PRIORITY if ordinal < len(node.sides) else PROBE_PRIORITY
        to.dag.edge(between(rows.vertex, vertex).to_input(ordinal).with_priority(priority))
    return _Output(vertex, False, tuple(schema.names))


def _write(to: _Lowering, node: physical.Write) -> _Output:
    from runnel.processors.write import write

    rows = to.lower(node.input)
    return to.follow(rows, f"write {node.table.name}", write(node.table, node.request), 1, column_names(node.fields))


def _key_names(keys: tuple[Expression, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of key columns; () where a key isn't a plain column, or there is none."""
    found = tuple(names[key.index] for key in keys if isinstance(key, Column))
    return found if len(found) == len(keys) else ()


_RULES: dict[type[Physical], Callable[[_Lowering, Any], _Output]] = {
    physical.SourceScan: _scan,
    physical.IndexScan: _index_scan,
    physical.Shared: _shared,
    physical.Hold: _hold,
    physical.Fragment: _fragment,
    physical.ImposeOrder: _impose_order,
    physical.AssignWindows: _assign_windows,
    physical.SessionRows: _session_rows,
    physical.Values: _values,
    physical.Generate: _generate,
    physical.Calc: _calc,
    physical.HashAggregate: _aggregate,
    physical.TimedAggregate: _stream_aggregate,
    physical.FramedAggregate: _stream_aggregate,
    physical.SessionAggregate: _stream_aggregate,
    physical.HashJoin: _join,
    physical.IntervalJoin: _interval_join,
    physical.AsOfJoin: _as_of_join,
    physical.TimedJoin: _timed_join,
    physical.LookupJoin: _lookup_join,
    physical.Sort: _sort,
    physical.TimedSort: _timed_sort,
    physical.TopN: _top,
    physical.Limit: _limit,
    physical.Union: _union,
    physical.SetOperation: _set_operation,
    physical.Unnest: _unnest,
    physical.Expand: _expand,
    physical.Window: _window,
    physical.TimedWindow: _timed_window,
    physical.Series: _series,
    physical.Recursion: _recursion,
    physical.GroupLimit: _group_limit,
    physical.Write: _write,
}
