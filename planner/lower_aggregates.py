"""Vertices of aggregations over inputs without end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runnel.dag import Supplier, Vertex, between
from runnel.expressions.nodes import Column, Expression
from runnel.frozen import frozen
from runnel.planner import physical
from runnel.planner.physical import column_names
from runnel.processors.aggregation import Stage

if TYPE_CHECKING:
    from runnel.planner.lower import _Lowering, _Output

StreamAggregate = physical.TimedAggregate | physical.FramedAggregate | physical.SessionAggregate


@frozen
class _Stages:
    """The processors of an aggregation. In one stage its rows are divided by `divided_by`, in two its states by the columns
    `state_keys`; `state_names` are all key columns of the states."""

    make: Callable[[Stage], Supplier]
    divided_by: tuple[Expression, ...]
    two_stage: bool = False
    state_names: tuple[str, ...] = ()
    state_keys: tuple[str, ...] = ()


def lower_stream_aggregate(to: _Lowering, node: StreamAggregate, rows: _Output) -> tuple[Vertex, bool, tuple[str, ...]]:
    """The vertex that gives the results, whether several processors run it, and the names of its columns; beside it the way of
    late rows, where they are to be written."""
    names = column_names(node.fields)
    stages = _STAGES[type(node)](node, names)
    if rows.is_parallel and stages.two_stage:
        partial = to.follow(rows, "accumulate", stages.make(Stage.ACCUMULATE), to.parallelism, stages.state_names)
        is_parallel = bool(stages.state_keys)
        vertex = to.vertex("combine", stages.make(Stage.COMBINE), to.parallelism if is_parallel else 1)
        edge = between(partial.vertex, vertex)
        to.dag.edge(edge.partitioned(*stages.state_keys) if is_parallel else edge)
        return vertex, is_parallel, names
    keys = tuple(rows.names[key.index] for key in stages.divided_by if isinstance(key, Column))
    is_parallel = rows.is_parallel and bool(keys) and len(keys) == len(stages.divided_by)
    vertex = to.vertex("aggregate", stages.make(Stage.SINGLE), to.parallelism if is_parallel else 1)
    edge = between(rows.vertex, vertex)
    to.dag.edge(edge.partitioned(*keys) if is_parallel else edge)
    if node.late is not None:
        # Loaded on first use: few queries have it.
        from runnel.planner.lower_late import write_late_rows

        write_late_rows(to, node.late, vertex, is_parallel)
    return vertex, is_parallel, names


def _timed(node: physical.TimedAggregate, names: tuple[str, ...]) -> _Stages:
    from runnel.processors.timed_aggregate import Timing, timed_aggregate

    timing = Timing(node.bounds, node.late is not None, node.every, node.lateness)
    keys = tuple(f"k{i}" for i in range(len(node.keys)))

    def make(stage: Stage) -> Supplier:
        return timed_aggregate(node.keys, node.aggregates, names, stage, timing)

    return _Stages(make, node.keys, node.two_stage, keys, keys)


def _framed(node: physical.FramedAggregate, names: tuple[str, ...]) -> _Stages:
    """A group's frames meet in one processor: the frame, which is the first key, doesn't divide."""
    from runnel.processors.framed_aggregate import FramedKeys, framed_aggregate

    framed = FramedKeys(shape=node.shape, time=node.time, keys=node.keys, columns=node.columns, bound=node.bound)
    keys = tuple(f"k{i}" for i in range(1 + len(node.keys)))

    def make(stage: Stage) -> Supplier:
        return framed_aggregate(framed, node.aggregates, names, stage, node.late is not None)

    return _Stages(make, node.keys, node.two_stage, keys, keys[1:])


def _sessions(node: physical.SessionAggregate, names: tuple[str, ...]) -> _Stages:
    from runnel.processors.session_aggregate import SessionKeys, session_aggregate

    keys = SessionKeys(
        gap=node.gap, time=node.time, keys=node.keys, partition=node.partition, columns=node.columns, bound=node.bound
    )

    def make(stage: Stage) -> Supplier:
        return session_aggregate(keys, node.aggregates, names, node.late is not None, node.every)

    return _Stages(make, tuple(node.keys[i] for i in node.partition))


_STAGES: dict[type[physical.Physical], Callable[..., _Stages]] = {
    physical.TimedAggregate: _timed,
    physical.FramedAggregate: _framed,
    physical.SessionAggregate: _sessions,
}
