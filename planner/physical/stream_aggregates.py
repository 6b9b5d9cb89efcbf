"""The choice of operators for aggregations over unbounded inputs."""

from __future__ import annotations

from collections.abc import Callable

from runnel.catalog import Table
from runnel.connector import SinkRequest, WritableTable, WriteMode
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.expressions.nodes import Column, Expression, columns_of
from runnel.planner.estimates import estimate
from runnel.planner.event_time.bounds import time_bounds
from runnel.planner.event_time.expressions import bound_of, constant_of
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.grouped_windows import GroupedWindows, grouped_windows
from runnel.planner.physical.late_rows import passing_late, set_number, with_late_filter
from runnel.planner.physical.nodes import Physical
from runnel.planner.rewriting import conjunction, renumber
from runnel.relation.emission import Emission
from runnel.relation.nodes import Aggregate, Field, Relation, references
from runnel.relation.streams import WindowKind

Choose = Callable[[Relation], Physical]


def choose_stream_aggregate(node: Aggregate, choose: Choose) -> Physical | None:
    """The aggregation by keys that watermarks bound; None if the input ends or no key is
    bounded."""
    windowed = grouped_windows(node)
    if windowed is not None and windowed.is_direct:
        chosen = (None if _gives_again(node) else _framed(node, windowed, choose)) or _by_sessions(
            node, windowed, choose
        )
        if chosen is not None:
            return chosen
    if not node.input.never_ends:
        return None
    below = time_bounds(node.input)
    found = ((number, bound_of(key, below)) for number, key in enumerate(node.keys))
    bounds = tuple((number, bound) for number, bound in found if bound is not None)
    if not bounds:
        return None
    late = late_rows(node.emission)
    lateness = _lateness(node, bounds[0][0])
    rows = choose(node.input)
    if _gives_again(node) and passing_late(rows) is not rows:
        raise _not_again(node)
    bounded = tuple((node.keys[number], bound) for number, bound in bounds)
    return physical_streams.EventTimeAggregate(
        fields=node.fields,
        rows=estimate(node),
        input=rows if late is None else with_late_filter(rows, bounded, late, lateness),
        keys=node.keys,
        aggregates=node.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates) and late is None,
        bounds=bounds,
        every=None if node.emission is None else node.emission.every,
        lateness=lateness,
        late=late,
        counted=set_number(rows, node.keys),
        windowed=None if windowed is None else _windowed_keys(windowed),
    )


def _windowed_keys(found: GroupedWindows) -> physical_streams.WindowedKeys | None:
    """None for sessions, and for grouping by only the start of windows that share it."""
    windows = found.windows
    if windows.shape.kind is WindowKind.SESSION:
        return None
    if windows.shape.kind is WindowKind.CUMULATE and not {-1, -2} & set(found.columns):
        return None
    return physical_streams.WindowedKeys(
        shape=windows.shape,
        time=windows.time,
        keys=found.keys,
        columns=found.columns,
        aggregates=found.moved.aggregates,
    )


def _gives_again(node: Aggregate) -> bool:
    """Whether groups are emitted more than once, which an aggregation by panes can't do."""
    return _lasts(node) or (node.emission is not None and node.emission.every is not None)


def _not_again(node: Aggregate) -> NotSupportedError:
    position = None if node.emission is None else node.emission.position
    clause = "ALLOWED LATENESS" if _lasts(node) else "EMIT EVERY"
    return NotSupportedError(
        f"{clause} is not supported over the rows of SESSION",
        detail=(
            "rows of sessions are emitted once, when a session is complete; only sessions directly "
            "below GROUP BY can emit results early or again"
        ),
        hint=(
            "group by a bound of the window and all PARTITION BY columns of SESSION, and filter "
            "below it, not above"
        ),
        position=position,
    )


def _lasts(node: Aggregate) -> bool:
    return node.emission is not None and bool(node.emission.lateness.value)


def _lateness(node: Aggregate, key: int) -> int:
    """The lateness in units of event time, the units of the bounded key."""
    if node.emission is None or not node.emission.lateness.value:
        return 0
    lateness, time = node.emission.lateness, node.keys[key].type
    if lateness.type.is_integer is not time.is_integer:
        raise ProgrammingError(
            f"ALLOWED LATENESS is of type {lateness.type}, but the windows are of type {time}",
            hint="write a number" if time.is_integer else "write INTERVAL '10' SECOND",
            position=node.emission.position,
        )
    found = constant_of(lateness)
    assert found is not None
    return found


def late_rows(emission: Emission | None) -> physical.LateOutput | None:
    """The output for the late rows of an operator; None if they are dropped."""
    if emission is None or emission.late_table is None:
        return None
    return late_rows_into(emission.late_table, emission.late_columns, emission.late)


def late_rows_into(
    table: Table, columns: tuple[int, ...], values: tuple[Expression, ...]
) -> physical.LateOutput | None:
    """The output of late rows to columns of a table; None without values."""
    if not values:
        return None
    assert isinstance(table, WritableTable)
    mode = WriteMode.SINK if WriteMode.SINK in table.write_modes else WriteMode.INSERT
    return physical.LateOutput(table=table, request=SinkRequest(mode, columns), expressions=values)


def _framed(node: Aggregate, found: GroupedWindows, choose: Choose) -> Physical | None:
    """The aggregation by the windows of HOP or CUMULATE, by panes."""
    windows = found.windows
    bound = time_bounds(windows.input).get(windows.time.index)
    if windows.shape.kind not in (WindowKind.HOP, WindowKind.CUMULATE) or (
        bound is None and found.source.never_ends
    ):
        return None
    if windows.shape.kind is WindowKind.CUMULATE and not {-1, -2} & set(found.columns):
        return None  # windows with the same start are one group
    late = None if bound is None else late_rows(found.moved.emission)
    columns, fields = _with_bounds(node, found)
    framed = physical_streams.FramedAggregate(
        fields=fields,
        rows=estimate(node),
        input=choose(found.source),
        shape=windows.shape,
        time=windows.time,
        keys=found.keys,
        columns=columns,
        aggregates=found.moved.aggregates,
        two_stage=not any(item.distinct for item in node.aggregates) and late is None,
        bound=bound,
        late=late,
    )
    return _filtered(node, found, framed, columns)


def _with_bounds(
    node: Aggregate, found: GroupedWindows
) -> tuple[tuple[int, ...], tuple[Field, ...]]:
    """The key columns, followed by the window bounds that only conditions on groups read, and the
    fields that result. A group has a single value of each bound, so the groups are the same."""
    width = len(found.windows.input.fields)
    read = {index for item in found.of_groups for index in columns_of(item) if index >= width}
    more = tuple(sorted({index - width - 3 for index in read} - set(found.columns)))
    fields, keys = node.fields, len(found.columns)
    added = tuple(found.windows.fields[bound] for bound in more)
    return (*found.columns, *more), (*fields[:keys], *added, *fields[keys:])


def _filtered(
    node: Aggregate, found: GroupedWindows, groups: Physical, columns: tuple[int, ...]
) -> Physical:
    """The groups for which the conditions on groups are true."""
    if not found.of_groups:
        return groups
    below, count = references(groups.fields), len(found.columns)
    positions = {
        index: number
        for number, key in enumerate(found.moved.keys)
        if isinstance(key, Column)
        for index in (key.index,)
    }
    positions |= {
        len(found.windows.fields) + bound: number
        for number, bound in enumerate(columns)
        if bound < 0
    }
    return physical.Calc(
        fields=node.fields,
        rows=estimate(node),
        input=groups,
        condition=conjunction(renumber(item, positions) for item in found.of_groups),
        projections=(*below[:count], *below[len(columns) :]),
    )


def _by_sessions(node: Aggregate, found: GroupedWindows, choose: Choose) -> Physical | None:
    """The aggregation by sessions; None if sessions of different keys are grouped together."""
    windows = found.windows
    bound = time_bounds(windows.input).get(windows.time.index)
    if windows.shape.kind is not WindowKind.SESSION or bound is None:
        return None
    if any(key not in found.keys for key in windows.partition):
        return None
    columns, fields = _with_bounds(node, found)
    sessions = physical_streams.SessionAggregate(
        fields=fields,
        rows=estimate(node),
        input=choose(found.source),
        gap=windows.shape.size,
        time=windows.time,
        keys=found.keys,
        partition=tuple(found.keys.index(key) for key in windows.partition),
        columns=columns,
        aggregates=found.moved.aggregates,
        bound=bound,
        late=late_rows(found.moved.emission),
        every=node.emission.every
        if node.emission is not None and found.source.never_ends
        else None,
        lateness=_lateness(
            node, next(number for number, column in enumerate(found.columns) if column < 0)
        ),
    )
    return _filtered(node, found, sessions, columns)
