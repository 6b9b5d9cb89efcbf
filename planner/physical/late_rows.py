"""The operator that finds the late rows of an aggregation or window on a stream, for LATE DATA
INTO.

As a rule the operator itself finds them. Two cases need a filter below it:

- Below GROUPING SETS, a filter finds them before each row is repeated once per set. The copies may
  go to different processors, with different watermarks, but a row is late for all sets or for none,
  and is written once.
- SESSION emits its rows when their session is complete, and only SESSION knows which of them were
  late. It passes them on with times below its watermark, by which a filter in the same processor
  finds them.

The watermark of the filter is at least the operator's, so rows that pass the filter are in time for
the operator. Only after a restart from a snapshot that the two took at different times can the
operator find more; it then writes one of the copies of a row.
"""

from __future__ import annotations

from dataclasses import replace

from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.operators.passes import LATE_ROWS
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes as physical_streams
from runnel.planner.physical.nodes import Physical
from runnel.planner.rewriting import substitute
from runnel.relation.streams import TimeBound

Bounded = tuple[tuple[Expression, TimeBound], ...]
"""Expressions over an input, each with its bound."""


def with_late_filter(
    rows: Physical, bounded: Bounded, late: physical.LateOutput, lateness: int = 0
) -> Physical:
    """The input of an operator, with a filter for its late rows if it needs one; else the input
    itself."""
    found = _below_sets(rows, bounded, late, lateness)
    if found is not None:
        return found
    passing = passing_late(rows)
    return rows if passing is rows else _filter(passing, bounded, late, lateness)


def _below_sets(
    rows: Physical, bounded: Bounded, late: physical.LateOutput, lateness: int
) -> Physical | None:
    """The input with a filter below its grouping sets; None if it has none. A column that all sets
    have is the same in the lists of all sets."""
    if isinstance(rows, physical.Calc):
        columns, below = rows.projections, rows.input
    elif isinstance(rows, physical.PhysicalExpand) and rows.of_sets:
        columns, below = rows.projections[0], rows.input
    else:
        return None
    if columns is not None:
        bounded = tuple((substitute(item, columns), bound) for item, bound in bounded)
        late = replace(
            late, expressions=tuple(substitute(item, columns) for item in late.expressions)
        )
    if isinstance(rows, physical.PhysicalExpand):
        return replace(rows, input=_filter(passing_late(below), bounded, late, lateness))
    made = _below_sets(below, bounded, late, lateness)
    return None if made is None else replace(rows, input=made)


def _filter(
    rows: Physical, bounded: Bounded, late: physical.LateOutput, lateness: int
) -> physical_streams.LateFilter:
    return physical_streams.LateFilter(
        fields=rows.fields,
        rows=rows.rows,
        input=rows,
        bounded=bounded,
        lateness=lateness,
        late=late,
        is_aligned=_is_of_sessions(rows),
    )


def _is_of_sessions(rows: Physical) -> bool:
    """Whether the rows come from SESSION processor by processor, without an exchange."""
    while isinstance(rows, physical.Calc):
        rows = rows.input
    return isinstance(rows, physical_streams.SessionRows)


def passing_late(rows: Physical) -> Physical:
    """The rows, including rows that are late for a SESSION below; the same node if there is none.
    Joins with tables and UNION ALL pass such rows on."""
    rule = LATE_ROWS.find(rows)
    return rows if rule is None else rule(rows)


def of_input(node: physical.SingleInput) -> Physical:
    """For a node that passes the late rows of its input on."""
    below = passing_late(node.input)
    return node if below is node.input else replace(node, input=below)


def set_number(rows: Physical, keys: tuple[Expression, ...]) -> int | None:
    """The index of the key that is the number of the grouping set; None without grouping sets."""
    while isinstance(rows, physical.Calc):
        if rows.projections is not None:
            keys = tuple(substitute(key, rows.projections) for key in keys)
        rows = rows.input
    if not isinstance(rows, physical.PhysicalExpand) or not rows.of_sets:
        return None
    for number, key in enumerate(keys):
        if isinstance(key, Column):
            values = [items[key.index] for items in rows.projections]
            if all(
                isinstance(item, Literal) and item.value == at for at, item in enumerate(values)
            ):
                return number
    return None
