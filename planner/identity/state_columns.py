"""Names of the columns of state, for operators whose state consists of rows of their inputs.

Two sides of a join may have a column of the same name. Which of the two is called `v` and which
`v_2` depends on the selected columns, so another query may exchange them. The name of a column in
state therefore includes the side of each join below that it comes from, such as `left.v`.
"""

from __future__ import annotations

from runnel.columns.type_records import type_spelling
from runnel.expressions.nodes import stored_name
from runnel.planner.operators.passes import STATE_COLUMNS
from runnel.planner.physical import nodes as physical
from runnel.planner.physical.nodes import Physical, unique_names


def state_columns(node: Physical) -> tuple[tuple[str, ...], ...]:
    """For each input its columns, each as a name that is unique in the input, and its type."""
    return tuple(_columns(item) for item in node.inputs)


def _columns(node: Physical) -> tuple[str, ...]:
    names = unique_names(
        f"{_side(node, index)}{stored_name(field.name)}" for index, field in enumerate(node.fields)
    )
    return tuple(
        f"{name} {type_spelling(field.type)}"
        for name, field in zip(names, node.fields, strict=True)
    )


def _side(node: Physical, index: int) -> str:
    """The sides of joins that column `index` comes from, outermost first, each followed by a dot.
    The stream's side of a join with a table has no name, because a query may add or remove such a
    join."""
    found = _below(node, index)
    if found is None:
        return ""
    name, below, column = found
    return name + _side(below, column)


def _below(node: Physical, index: int) -> Side | None:
    """The origin of column `index` of a node; None if the node computes the column."""
    rule = STATE_COLUMNS.find(node)
    return None if rule is None else rule(node, index)


Side = tuple[str, Physical, int]
"""The origin of a column: the name of the side of a join, the input, and the index in the input."""


def of_input(node: physical.SingleInput, index: int) -> Side:
    """The rule for a node with the columns of its input."""
    return "", node.input, index


def of_join(
    left: tuple[str, Physical],
    right: tuple[str, Physical],
    columns: tuple[int, ...] | None,
    index: int,
) -> Side | None:
    """The rule for a join. `left` and `right`: name and input of each side; `columns`: the columns
    of both sides, one after the other, that the join returns; None: all."""
    column = index if columns is None else columns[index]
    width = len(left[1].fields)
    if column < width:
        return (*left, column)
    return (*right, column - width) if column - width < len(right[1].fields) else None
