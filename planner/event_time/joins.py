"""Joins with an unbounded input: which are allowed, and how they run.

A stream joins a bounded relation as the probe side; the other side is read first. Two streams can
be joined if each row waits for a limited time: if their times bound each other, or if they are
joined window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from runnel.catalog import Table
from runnel.connector import KeyedTable
from runnel.errors import NotSupportedError
from runnel.expressions import build
from runnel.expressions.nodes import Cast, Column, Expression, conjuncts
from runnel.foreign.fragment import Fragment
from runnel.planner.estimates import estimate
from runnel.planner.event_time.bounds import side_bounds, time_bounds
from runnel.planner.event_time.expressions import Bounds, bound_of
from runnel.planner.event_time.join_bounds import interval_shape, window_join_shape
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.planner.rewriting import column, conjunction, shift, substitute
from runnel.relation.nodes import (
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    references,
    walk,
)
from runnel.relation.stream_joins import AsOfShape
from runnel.relation.streams import AsOfJoin, event_times
from runnel.sqltypes import SqlType

Choose = Callable[[Relation], Physical]

_STREAM_ON_THE_LEFT = frozenset(JoinKind) - {JoinKind.RIGHT, JoinKind.FULL}
_NULL_AWARE = (JoinKind.MARK, JoinKind.NULL_ANTI)


def check_join(node: Join | AsOfJoin, unbounded_state: bool = False) -> None:
    """Raises NotSupportedError if a join would wait for the end of an unbounded input, or would
    retain its rows without bound and is not allowed to (`unbounded_state`)."""
    if isinstance(node, AsOfJoin):
        _check_as_of_join(node, unbounded_state)
    else:
        _check_join(node, unbounded_state)


def _check_join(node: Join, unbounded_state: bool) -> None:
    left, right = node.left.never_ends, node.right.never_ends
    if left and right:
        _check_two_streams(node, unbounded_state)
    elif right:
        name = _NAMES.get(node.kind)
        raise NotSupportedError(
            f"the right side of {name} cannot be a streaming source"
            if name
            else "a subquery cannot read a streaming source",
            detail="that side is read to its end before the first row is emitted",
            hint="put the stream on the left side of the join"
            if name
            else "put a LIMIT into the subquery",
            position=node.right.position or node.position,
        )
    elif left and node.kind not in _STREAM_ON_THE_LEFT:
        raise NotSupportedError(
            f"the left side of {_NAMES[node.kind]} cannot be a streaming source",
            detail="the rows of the other side without a match are known only at the end",
            hint="use an INNER or a LEFT JOIN",
            position=node.left.position or node.position,
        )


_NAMES = {
    JoinKind.INNER: "an INNER JOIN",
    JoinKind.CROSS: "a CROSS JOIN",
    JoinKind.LEFT: "a LEFT JOIN",
    JoinKind.RIGHT: "a RIGHT JOIN",
    JoinKind.FULL: "a FULL JOIN",
}


def _check_two_streams(node: Join, unbounded_state: bool) -> None:
    if node.kind in _NULL_AWARE and window_join_shape(node, side_bounds(node)) is None:
        raise NotSupportedError(
            "NOT IN and IN as a value need windows that are equal on both sides, "
            "where both are streams",
            detail=(
                "a NULL in the rows of the subquery, which has no end, "
                "would change the result for all rows"
            ),
            hint=(
                "add a condition such as a.window_end = b.window_end to the subquery; or use [NOT] "
                "EXISTS with a condition that bounds the difference of the times of both"
            ),
            position=node.position,
        )
    if unbounded_state:
        return
    left, right = time_bounds(node.left), time_bounds(node.right)
    names = [_times(node.left, left), _times(node.right, right)]
    for known, side in zip(names, (node.left, node.right), strict=True):
        if not known:
            raise NotSupportedError(
                "for stream-to-stream join, both joined sides must have an order imposed",
                detail=(
                    "without a watermark on both sides, the state of the join would grow without "
                    "bound"
                ),
                hint=(
                    "add WATERMARK FOR to the mapping, or read TABLE(IMPOSE_ORDER(TABLE t, "
                    "DESCRIPTOR(ts), lag)); or end the "
                    "SELECT with OPTIONS ('allowUnboundedState'='true')"
                ),
                position=side.position or node.position,
            )
    shape, _ = interval_shape(node, side_bounds(node))
    if shape.left.watermark is None or shape.right.watermark is None:
        raise NotSupportedError(
            "a stream-to-stream join must have a join condition constraining the maximum "
            "difference between time values of the joined tables in both directions",
            detail=f"time columns on the left side: [{_listed(names[0])}], "
            f"on the right side: [{_listed(names[1])}]"
            f"{_missing(shape.left.watermark, shape.right.watermark)}",
            hint=_remedy(*names),
            position=node.position,
        )


_Times = list[tuple[str, SqlType]]


def _times(side: Relation, bounds: Bounds) -> _Times:
    """The time columns of one side of a join; if none of them is bounded at the join, the time
    columns further down."""
    fields = [side.fields[index] for index in sorted(bounds)] if bounds else event_times(side)
    return [(field.name, field.type) for field in fields]


def _listed(times: _Times) -> str:
    return ", ".join(name for name, _ in times)


def _missing(for_left: int | None, for_right: int | None) -> str:
    if for_left is None and for_right is None:
        return ""
    side = "left" if for_left is None else "right"
    return f"; no condition limits the times that a row of the {side} side may match"


def _remedy(left: _Times, right: _Times) -> str:
    (first, kind), (second, _) = left[0], right[0]
    some = "10" if kind.is_integer else "INTERVAL '10' SECOND"
    return (
        f"add a condition such as right.{second} BETWEEN left.{first} - {some} AND left.{first} + "
        f"{some}, or "
        "end the SELECT with OPTIONS ('allowUnboundedState'='true')"
    )


def choose_stream_join(node: Join, choose: Choose) -> Physical | None:
    """The operator that joins a stream with another stream, or with a table by look-up; None if a
    side is bounded and is read first."""
    if not node.left.never_ends:
        return None
    if not node.right.never_ends:
        return _look_up(node, choose)
    if node.kind in _NULL_AWARE:
        return _window_join(node, choose)
    shape, rest = interval_shape(node, side_bounds(node))
    late = _late(node)
    return physical_streams.IntervalJoin(
        fields=node.fields,
        rows=estimate(node),
        kind=node.kind,
        left=choose(node.left),
        right=choose(node.right),
        left_keys=node.left_keys,
        right_keys=node.right_keys,
        condition=rest,
        null_safe=node.null_safe,
        times=replace(shape, emits_late=_with_late_output(late)),
        late=late,
    )


def _with_late_output(
    late: tuple[physical.LateOutput | None, physical.LateOutput | None],
) -> tuple[bool, bool]:
    return late[0] is not None, late[1] is not None


def _late(
    node: Join | AsOfJoin,
) -> tuple[physical.LateOutput | None, physical.LateOutput | None]:
    """The late outputs of the two sides."""
    if node.late is None:
        return None, None
    # Loaded on first use: few joins have late outputs.
    from runnel.planner.physical.stream_aggregates import late_rows_into

    left, right = (
        late_rows_into(node.late.table, node.late.columns, side)
        for side in (node.late.left, node.late.right)
    )
    return left, right


def _window_join(node: Join, choose: Choose) -> Physical:
    times = window_join_shape(node, side_bounds(node))
    assert times is not None
    return physical_streams.WindowJoin(
        fields=node.fields,
        rows=estimate(node),
        kind=node.kind,
        left=choose(node.left),
        right=choose(node.right),
        left_keys=node.left_keys,
        right_keys=node.right_keys,
        condition=node.condition,
        null_safe=node.null_safe,
        times=times,
    )


def _computed_look_up(node: Join, right: Project, scan: Scan, choose: Choose) -> Physical | None:
    """The join of a stream with a mapping that has computed columns: they are computed from the row
    that the look-up finds. In a row without a match they are NULL."""
    width = len(node.left.fields)
    left = references(node.left.fields)
    both = (*left, *(shift(item, width) for item in right.expressions))
    found = _look_up(
        replace(
            node,
            right=scan,
            right_keys=tuple(substitute(key, right.expressions) for key in node.right_keys),
            condition=None if node.condition is None else substitute(node.condition, both),
        ),
        choose,
    )
    if found is None or len(node.fields) != len(both):
        return None
    key = scan.columns.index(scan.table.key_columns[0])
    is_found = build.call("is_not_null", [column(found.fields, width + key)])
    values = [
        item
        if isinstance(item, Column) or node.kind is JoinKind.INNER
        else build.case([is_found], [item])
        for item in both
    ]
    return physical.Calc(
        fields=node.fields, rows=estimate(node), input=found, projections=tuple(values)
    )


def _look_up(node: Join, choose: Choose) -> Physical | None:
    """The join of a stream with a table by the table's key; None for any other join."""
    scan = node.right
    if isinstance(scan, Project) and isinstance(scan.input, Scan) and scan.input.table.computed:
        return _computed_look_up(node, scan, scan.input, choose)
    if (
        not isinstance(scan, Scan)
        or not isinstance(scan.table, KeyedTable)
        or node.null_safe
        or scan.limit is not None
    ):
        return None
    # Loaded on first use: it loads the operator.
    from runnel.processors.joins.lookup import KINDS, Lookup

    keys: dict[int, Expression] = {}
    rest = []
    for left, right in zip(node.left_keys, node.right_keys, strict=True):
        index = _stored_column(right)
        if (
            index is not None
            and scan.columns[index] in scan.table.key_columns
            and scan.columns[index] not in keys
        ):
            keys[scan.columns[index]] = left
        else:
            rest.append(build.call("eq", [left, shift(right, len(node.left.fields))]))
    if node.kind not in KINDS or set(keys) != set(scan.table.key_columns):
        return None
    return physical_streams.LookupJoin(
        fields=node.fields,
        rows=estimate(node),
        input=choose(node.left),
        kind=node.kind,
        lookup=Lookup(table=scan.table, columns=scan.columns, predicate=scan.predicate),
        right=scan.fields,
        keys=tuple(keys[index] for index in scan.table.key_columns),
        condition=conjunction([*rest, *conjuncts(node.condition)]),
    )


def refreshed(chosen: physical.HashJoin, node: Join) -> physical.HashJoin:
    """The join of a stream with a table that is read again at intervals, if all its tables have
    such an interval, and its rows are scanned from them or come from another engine."""
    times = [table.refresh_millis for table in _tables(node.right)]
    known = [time for time in times if time is not None]
    if not node.left.never_ends or not known or len(known) < len(times):
        return chosen
    source = chosen.build
    while isinstance(source, physical.Calc):
        source = source.input
    if type(source) not in (physical.SourceScan, physical.PhysicalFragment):
        return chosen
    return replace(chosen, refresh=min(known), is_partitioned=False)


def _tables(relation: Relation) -> Iterator[Table]:
    for node in walk(relation):
        if isinstance(node, Scan):
            yield node.table
        elif isinstance(node, Fragment):
            yield from _tables(node.relation)


def _stored_column(key: Expression) -> int | None:
    """The index of a key that is a column, perhaps cast to a wider integer, which has the same
    hash; None for any other key."""
    if isinstance(key, Cast) and key.type.is_integer and key.operand.type.is_integer:
        key = key.operand
    return key.index if isinstance(key, Column) else None


def _check_as_of_join(node: AsOfJoin, unbounded_state: bool) -> None:
    """Checks that an as-of join of streams can determine the version for a row, and when a version
    is no longer needed."""
    if not node.right.never_ends:
        return
    if not node.left.never_ends:
        raise NotSupportedError(
            "the right side of ASOF JOIN cannot be a streaming source where the left side ends",
            detail="the versions of the right side would be read indefinitely",
            hint="put the stream on the left side of the join",
            position=node.right.position or node.position,
        )
    if node.forward:
        raise NotSupportedError(
            "ASOF JOIN between two streams can only look back",
            hint="write ON a.ts >= b.ts",
            position=node.position,
        )
    if bound_of(node.right_time, time_bounds(node.right)) is None:
        raise NotSupportedError(
            "the right side of an ASOF JOIN between streams must have an order imposed on the "
            "column that is compared",
            detail="no watermark shows when the version for a row is known",
            hint=(
                "add WATERMARK FOR to its mapping, or read TABLE(IMPOSE_ORDER(TABLE t, "
                "DESCRIPTOR(ts), lag))"
            ),
            position=node.right.position or node.position,
        )
    if bound_of(node.left_time, time_bounds(node.left)) is None and not unbounded_state:
        raise NotSupportedError(
            "the left side of an ASOF JOIN between streams must have an order imposed on the "
            "column that is compared",
            detail="no watermark shows which versions of the right side are no longer needed",
            hint=(
                "add WATERMARK FOR to its mapping, or read TABLE(IMPOSE_ORDER(TABLE t, "
                "DESCRIPTOR(ts), lag)); or end the "
                "SELECT with OPTIONS ('allowUnboundedState'='true')"
            ),
            position=node.left.position or node.position,
        )


def choose_as_of_join(node: AsOfJoin, choose: Choose) -> Physical:
    """The operator of an as-of join."""
    left, late = time_bounds(node.left), _late(node)
    version = bound_of(node.right_time, time_bounds(node.right)) if node.right.never_ends else None
    shape = AsOfShape(
        outer=node.outer,
        strict=node.strict,
        forward=node.forward,
        version=version,
        # All versions of a table are retained, so no row is too late for them.
        due=None if version is None else bound_of(node.left_time, left),
        bounds=tuple(sorted(left.items())),
        emits_late=_with_late_output(late),
    )
    return physical_streams.PhysicalAsOfJoin(
        fields=node.fields,
        rows=estimate(node.left),
        left=choose(node.left),
        right=choose(node.right),
        left_keys=node.left_keys,
        right_keys=node.right_keys,
        left_time=node.left_time,
        right_time=node.right_time,
        shape=shape,
        late=late,
    )
