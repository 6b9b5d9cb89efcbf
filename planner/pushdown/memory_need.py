"""Estimates the bytes that a plan buffers at a time: whether an engine has enough memory for it.

The estimate assumes that filters drop no row and that there are as many groups as rows. A plan that
is wrongly found too large still runs, on operators that can spill.
"""

from __future__ import annotations

from runnel.expressions.aggregates.registry import states_of
from runnel.expressions.nodes import WINDOW_FINAL, AggregateCall
from runnel.planner.estimates import estimate, literal_count
from runnel.planner.operators.passes import BLOCKING, MOST_ROWS
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Sort,
    walk,
)
from runnel.sqltypes import Kind, SqlType

_WIDTHS = {
    **dict.fromkeys((Kind.NULL, Kind.BOOLEAN, Kind.TINYINT), 1),
    Kind.SMALLINT: 2,
    **dict.fromkeys((Kind.INTEGER, Kind.REAL, Kind.DATE), 4),
    **dict.fromkeys((Kind.DECIMAL, Kind.INTERVAL), 16),
    **dict.fromkeys((Kind.VARCHAR, Kind.VARBINARY, Kind.JSON, Kind.UUID), 32),
    **dict.fromkeys((Kind.ARRAY, Kind.MAP, Kind.ROW), 64),
}
_OTHER_WIDTH = 8

HASHED = 24
"""Approximate bytes that a hash table needs per row in addition to the row's values."""

SPILLING_ROOM = 256_000_000
"""Bytes of memory from which on DuckDB spills joins too; with 50 MB it ran out of memory, as
measured."""

SPILLED = 8
"""The hash tables of joins that spill may be this many times as large as the memory."""

SMALL_SORT = 10_000
"""A sort whose LIMIT is at most this number of rows buffers only these rows."""


def too_large(relation: Relation, room: int) -> str | None:
    """The reason why the plan needs more than `room` bytes at a time; None if no operator is known
    to."""
    # If the engine runs out of memory nevertheless, Runnel's operators run the query instead, as
    # long as no row was returned.
    spills = room >= SPILLING_ROOM and _emits_at_end(relation)
    few_rows = {
        id(node.input) for node in walk(relation) if isinstance(node, Limit) and _has_few_rows(node)
    }
    hashed = 0
    for node in walk(relation):
        action = None if id(node) in few_rows else _action(node)
        if action is None:
            continue
        needed = sum(map(_bytes, node.inputs))
        if isinstance(node, Join) and node.kind is JoinKind.INNER and node.left_keys:
            # The hash tables of all joins are in memory at the same time.
            hashed += min(_bytes(side, HASHED) for side in node.inputs)
            needed = hashed // SPILLED if spills else hashed
        if needed > room:
            return (
                f"about {_megabytes(needed)} to {action}, more than the {_megabytes(room)} that "
                "memory_limit leaves it"
            )
    return None


def _emits_at_end(relation: Relation) -> bool:
    """Whether no row is emitted before the whole input was read."""
    while isinstance(relation, Filter | Limit | Project | Sort):
        relation = relation.input
    return isinstance(relation, Aggregate)


def _has_few_rows(node: Limit) -> bool:
    count, offset = (
        literal_count(node.count),
        0 if node.offset is None else literal_count(node.offset),
    )
    return count is not None and offset is not None and count + offset <= SMALL_SORT


def _action(node: Relation) -> str | None:
    """The verb for the operation that buffers the whole input of a node; None if there is none."""
    rule = BLOCKING.find(node)
    return None if rule is None else rule(node)


def is_small(item: AggregateCall) -> bool:
    """Whether the state of a group has a fixed size.

    With very little memory, DuckDB spills only groups whose states are all small, as measured.
    """
    if item.function == WINDOW_FINAL or item.distinct or item.order:
        return False
    return not any(state.grows for state in states_of(item))


def _bytes(relation: Relation, more: int = 0) -> int:
    """The bytes of all rows, plus `more` bytes for each row."""
    return (most_rows(relation) or 0) * (more + sum(_width(item.type) for item in relation.fields))


def _width(sql_type: SqlType) -> int:
    return _WIDTHS.get(sql_type.kind, _OTHER_WIDTH)


def most_rows(relation: Relation) -> int | None:
    """An upper bound of the number of result rows that is known without values; None if unknown."""
    rule = MOST_ROWS.find(relation)
    return estimate(relation) if rule is None else rule(relation)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
