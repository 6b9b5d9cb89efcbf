"""Where rows of an aggregation, or a window, on a stream are found to be late, for LATE DATA INTO.

As a rule the operator itself finds them. Below GROUPING SETS a filter does, before each row comes
once per set: each copy may go to another processor, at another watermark, but the row is late for
all sets or for none, and is written once. SESSION emits its rows when their session is complete;
which of them were late only SESSION knows. It passes these on with bounds behind its watermark, and
a filter of the same processor finds them by that.

The filter's watermark is at least that of the operator above. So what it lets through is in time
there; only after a restart, from a snapshot that was taken at different moments, the operator may
find more. It then writes one of the copies of a row."""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.planner.rewriting import substitute
from runnel.relation.streams import TimeBound

Bounded = tuple[tuple[Expression, TimeBound], ...]
"""Expressions over an input, each with its bound."""


def with_late_filter(
    rows: Physical, bounded: Bounded, late: physical_streams.LateRows, lateness: int = 0
) -> Physical:
    """The input of an operator with a filter for its late rows, where it needs one; else the very
    same."""
    found = _below_sets(rows, bounded, late, lateness)
    if found is not None:
        return found
    passing = passing_late(rows)
    return rows if passing is rows else _filter(passing, bounded, late, lateness)


def _below_sets(
    rows: Physical, bounded: Bounded, late: physical_streams.LateRows, lateness: int
) -> Physical | None:
    """The input with a filter below its grouping sets; None where it has none. A column that a row
    has in all sets is the same in the lists of all."""
    if isinstance(rows, physical.Calc):
        columns, below = rows.projections, rows.input
    elif isinstance(rows, physical.Expand) and rows.of_sets:
        columns, below = rows.projections[0], rows.input
    else:
        return None
    if columns is not None:
        bounded = tuple((substitute(item, columns), bound) for item, bound in bounded)
        late = replace(
            late, expressions=tuple(substitute(item, columns) for item in late.expressions)
        )
    if isinstance(rows, physical.Expand):
        return replace(rows, input=_filter(passing_late(below), bounded, late, lateness))
    made = _below_sets(below, bounded, late, lateness)
    return None if made is None else replace(rows, input=made)


def _filter(
    rows: Physical, bounded: Bounded, late: physical_streams.LateRows, lateness: int
) -> physical_streams.LateFilter:
    return physical_streams.LateFilter(
        fields=rows.fields,
        rows=rows.rows,
        input=rows,
        bounded=bounded,
        lateness=lateness,
        late=late,
        is_beside=_is_of_sessions(rows),
    )


def _is_of_sessions(rows: Physical) -> bool:
    """Whether rows come from SESSION on the shortest way, processor by processor."""
    while isinstance(rows, physical.Calc):
        rows = rows.input
    return isinstance(rows, physical_streams.SessionRows)


def passing_late(rows: Physical) -> Physical:
    """The rows, among them those that are late for a SESSION below; the very same node where there
    is none. Joins with tables and UNION ALL pass them on."""
    if isinstance(rows, physical_streams.SessionRows):
        return rows if rows.bound is None else replace(rows, passes_late=True)
    if isinstance(rows, physical.Union):
        parts = tuple(map(passing_late, rows.parts))
        return (
            rows
            if all(new is old for new, old in zip(parts, rows.parts, strict=True))
            else replace(rows, parts=parts)
        )
    if isinstance(rows, physical.HashJoin):
        probe = passing_late(rows.probe)
        return rows if probe is rows.probe else replace(rows, probe=probe)
    if isinstance(
        rows, physical.Calc | physical.Expand | physical.Unnest | physical_streams.LookupJoin
    ):
        below = passing_late(rows.input)
        return rows if below is rows.input else replace(rows, input=below)
    return rows


def set_number(rows: Physical, keys: tuple[Expression, ...]) -> int | None:
    """Which of the keys of an aggregation over grouping sets is the number of the set; None without
    sets."""
    while isinstance(rows, physical.Calc):
        if rows.projections is not None:
            keys = tuple(substitute(key, rows.projections) for key in keys)
        rows = rows.input
    if not isinstance(rows, physical.Expand) or not rows.of_sets:
        return None
    for number, key in enumerate(keys):
        if isinstance(key, Column):
            values = [items[key.index] for items in rows.projections]
            if all(
                isinstance(item, Literal) and item.value == at for at, item in enumerate(values)
            ):
                return number
    return None
