"""How the columns of a node's inputs are called where rows of them are kept as state.

A name alone doesn't tell columns of the two sides of a join apart, and which of them is called `v`
and which `v_2` changes with what is selected. So a column of a join below is called after its side,
too.
"""

from __future__ import annotations

from runnel.columns.type_records import type_spelling
from runnel.planner.operators.passes import STATE_COLUMNS
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical, unique_names


def state_columns(node: Physical) -> tuple[tuple[str, ...], ...]:
    """For each input its columns, each a name that no other one of that input has, and the type."""
    return tuple(_columns(item) for item in node.inputs)


def _columns(node: Physical) -> tuple[str, ...]:
    names = unique_names(
        f"{_side(node, place)}{field.name}" for place, field in enumerate(node.fields)
    )
    return tuple(
        f"{name} {type_spelling(field.type)}"
        for name, field in zip(names, node.fields, strict=True)
    )


def _side(node: Physical, place: int) -> str:
    """The sides of joins that a column comes from, outermost first, each followed by a dot. The
    stream's side of a join with a table, which may come and go, isn't named."""
    found = _below(node, place)
    if found is None:
        return ""
    name, below, index = found
    return name + _side(below, index)


def _below(node: Physical, place: int) -> tuple[str, Physical, int] | None:
    """Where a column of a node comes from: the name of the side, the input and the column there;
    None where it is made here."""
    rule = STATE_COLUMNS.find(node)
    return None if rule is None else rule(node, place)


Side = tuple[str, Physical, int]
"""The name of the side of a join, the input, and the index of the column there."""


def of_input(node: physical.SingleInput, index: int) -> Side:
    """For a node with the columns of its input."""
    return "", node.input, index


def of_join(
    left: tuple[str, Physical],
    right: tuple[str, Physical],
    columns: tuple[int, ...] | None,
    place: int,
) -> tuple[str, Physical, int] | None:
    index = place if columns is None else columns[place]
    width = len(left[1].fields)
    if index < width:
        return (*left, index)
    return (*right, index - width) if index - width < len(right[1].fields) else None
