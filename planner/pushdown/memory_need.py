"""How many bytes of its input a plan must hold at a time, roughly: whether an engine has room for
it.

Filters are taken to keep every row, and groups to be as many as rows: a plan that is thought too
large still runs, on operators that write to files what they have no room for.
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
    Single,
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
"""Bytes that a hash table takes for a row beside its values, about."""

SPILLING_ROOM = 256_000_000
"""From so many bytes of memory on DuckDB joins by way of files, too; with 50 MB it ran out of
memory, as measured."""

SPILLED = 8
"""The hash tables of its joins may then take so many times its memory."""

SMALL_SORT = 10_000
"""The first rows of a sort, up to so many, are kept alone."""


def too_large(relation: Relation, room: int) -> str | None:
    """Says what in the plan needs more than `room` bytes at a time; None where nothing does, as far
    as is known."""
    # Where it runs out of memory all the same, our operators begin anew, as long as no row was
    # given.
    spills = room >= SPILLING_ROOM and _gives_at_end(relation)
    kept = {
        id(node.input) for node in walk(relation) if isinstance(node, Limit) and _keeps_few(node)
    }
    hashed = 0
    for node in walk(relation):
        action = None if id(node) in kept else _action(node)
        if action is None:
            continue
        held = sum(map(_bytes, node.inputs))
        if isinstance(node, Join) and node.kind is JoinKind.INNER and node.left_keys:
            # Those of all joins are in memory at the same time.
            hashed += min(_bytes(side, HASHED) for side in node.inputs)
            held = hashed // SPILLED if spills else hashed
        if held > room:
            return (
                f"about {_megabytes(held)} to {action}, more than the {_megabytes(room)} that "
                "memory_limit leaves it"
            )
    return None


def _gives_at_end(relation: Relation) -> bool:
    """Whether no row comes before all of the input was read."""
    while isinstance(relation, Filter | Limit | Project | Sort):
        relation = relation.input
    return isinstance(relation, Aggregate)


def _keeps_few(node: Limit) -> bool:
    count, offset = (
        literal_count(node.count),
        0 if node.offset is None else literal_count(node.offset),
    )
    return count is not None and offset is not None and count + offset <= SMALL_SORT


def _action(node: Relation) -> str | None:
    """The verb for what is done with the whole input of a node in memory; None if nothing is."""
    rule = BLOCKING.find(node)
    return None if rule is None else rule(node)


def is_small(item: AggregateCall) -> bool:
    """Whether the state of a group has a fixed size. Groups of small states are all that DuckDB
    writes to files with very little memory, as measured.
    """
    if item.function == WINDOW_FINAL or item.distinct or item.order:
        return False
    return not any(state.grows for state in states_of(item))


def _bytes(relation: Relation, more: int = 0) -> int:
    """Those of all rows, each with so many `more`."""
    return (most_rows(relation) or 0) * (more + sum(_width(item.type) for item in relation.fields))


def _width(sql_type: SqlType) -> int:
    return _WIDTHS.get(sql_type.kind, _OTHER_WIDTH)


def most_rows(relation: Relation) -> int | None:
    """How many rows can come out at most, as far as that goes without knowing values; None if
    nothing is known."""
    rule = MOST_ROWS.find(relation)
    return estimate(relation) if rule is None else rule(relation)


def of_input(node: Single) -> int | None:
    """The most rows of a node that has no more rows than its input."""
    return most_rows(node.input)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
