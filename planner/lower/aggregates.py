"""Vertices of aggregations over streams."""

from __future__ import annotations

from collections.abc import Callable

from runnel.base.frozen import frozen
from runnel.dag import Supplier
from runnel.expressions.nodes import Expression
from runnel.planner.lower.dag_builder import (
    ACCUMULATE,
    AGGREGATE,
    COMBINE,
    Lowering,
    VertexOutput,
    key_names,
)
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import column_names
from runnel.processors.grouping.aggregation import AggregationStage

StreamAggregate = (
    physical_streams.EventTimeAggregate
    | physical_streams.FramedAggregate
    | physical_streams.SessionAggregate
)


@frozen
class _Stages:
    """The processors of an aggregation.

    make: returns the supplier of the processors of a stage.
    divided_by: with one stage, the keys by which rows are partitioned.
    two_stage: whether to accumulate states in each processor of the input, and combine them.
    state_names: with two stages, the names of all key columns of the states.
    state_keys: with two stages, the key columns by which the states are partitioned.
    """

    make: Callable[[AggregationStage], Supplier]
    divided_by: tuple[Expression, ...]
    two_stage: bool = False
    state_names: tuple[str, ...] = ()
    state_keys: tuple[str, ...] = ()


def lower_stream_aggregate(to: Lowering, node: StreamAggregate, rows: VertexOutput) -> VertexOutput:
    """Adds the vertices of the stages, and with one stage the sink of late rows, if the plan has
    one."""
    names = column_names(node.fields)
    stages = _STAGES[type(node)](node, names)
    if rows.is_parallel and stages.two_stage:
        partial = to.follow(
            rows,
            ACCUMULATE,
            stages.make(AggregationStage.ACCUMULATE),
            to.parallelism,
            stages.state_names,
        )
        return to.by_key(
            partial, COMBINE, stages.make(AggregationStage.COMBINE), stages.state_keys, names
        )
    keys = key_names(stages.divided_by, rows.names)
    return to.with_late(
        to.by_key(rows, AGGREGATE, stages.make(AggregationStage.SINGLE), keys, names), node.late
    )


def _event_time_aggregate(
    node: physical_streams.EventTimeAggregate, names: tuple[str, ...]
) -> _Stages:
    """Groups that differ only in bounded keys are aggregated in the same processor, which emits
    them in the order of these keys."""
    from runnel.processors.time_windows.timed_aggregate import Timing, timed_aggregate

    timing = Timing(node.bounds, node.late is not None, node.every, node.lateness, node.counted)
    bounded = {key for key, _ in node.bounds}
    lasting = [i for i in range(len(node.keys)) if i not in bounded]
    keys = tuple(f"k{i}" for i in range(len(node.keys)))

    def make(stage: AggregationStage) -> Supplier:
        return timed_aggregate(node.keys, node.aggregates, names, stage, timing)

    return _Stages(
        make,
        tuple(node.keys[i] for i in lasting),
        node.two_stage,
        keys,
        tuple(keys[i] for i in lasting),
    )


def _framed(node: physical_streams.FramedAggregate, names: tuple[str, ...]) -> _Stages:
    """All panes of a group are aggregated in the same processor: states are partitioned by all keys
    but the first, which is the pane."""
    from runnel.processors.time_windows.framed_aggregate import FramedKeys, framed_aggregate

    framed = FramedKeys(
        shape=node.shape, time=node.time, keys=node.keys, columns=node.columns, bound=node.bound
    )
    keys = tuple(f"k{i}" for i in range(1 + len(node.keys)))

    def make(stage: AggregationStage) -> Supplier:
        return framed_aggregate(framed, node.aggregates, names, stage, node.late is not None)

    return _Stages(make, node.keys, node.two_stage, keys, keys[1:])


def _sessions(node: physical_streams.SessionAggregate, names: tuple[str, ...]) -> _Stages:
    from runnel.processors.sessions.session_aggregate import (
        SessionEmission,
        SessionKeys,
        session_aggregate,
    )

    keys = SessionKeys(
        gap=node.gap,
        time=node.time,
        keys=node.keys,
        partition=node.partition,
        columns=node.columns,
        bound=node.bound,
    )
    emission = SessionEmission(
        every=node.every, lateness=node.lateness, diverts=node.late is not None
    )

    def make(stage: AggregationStage) -> Supplier:
        return session_aggregate(keys, node.aggregates, names, emission)

    return _Stages(make, tuple(node.keys[i] for i in node.partition))


_STAGES: dict[type[physical.Physical], Callable[..., _Stages]] = {
    physical_streams.EventTimeAggregate: _event_time_aggregate,
    physical_streams.FramedAggregate: _framed,
    physical_streams.SessionAggregate: _sessions,
}
