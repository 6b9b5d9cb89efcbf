"""The order that an aggregate call takes its rows in, as it stands in the text: in the brackets, or
in WITHIN GROUP."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlglot import exp

from runnel.errors import Position, ProgrammingError


class OrderedCall(NamedTuple):
    """The arguments of a call without its ORDER BY, and the items of that."""

    arguments: list[Any]
    order: list[Any]
    within_group: bool


def ordered_call(tree: Any, arguments: list[Any], position: Position | None) -> OrderedCall:
    """Takes the order out of a call, `tree`, whose arguments are given as parsed."""
    order: list[Any] = []
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1].expressions
        if arguments[-1].this is None:
            raise ProgrammingError("ORDER BY in brackets follows an argument", position=position)
        arguments = [*arguments[:-1], arguments[-1].this]
    if not isinstance(tree, exp.WithinGroup):
        return OrderedCall(arguments, order, False)
    if order:
        raise ProgrammingError(
            "ORDER BY stands both in the brackets and in WITHIN GROUP", position=position
        )
    return OrderedCall(arguments, tree.expression.expressions, True)
