"""The ORDER BY of an aggregate call, as parsed: within the parentheses or in WITHIN GROUP."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlglot import exp

from runnel.errors import Position, ProgrammingError


class OrderedCall(NamedTuple):
    """A call of an aggregate function and its ORDER BY.

    arguments: the arguments, without the ORDER BY.
    order: the items of the ORDER BY.
    within_group: whether the ORDER BY was written in WITHIN GROUP.
    """

    arguments: list[Any]
    order: list[Any]
    within_group: bool


def ordered_call(tree: Any, arguments: list[Any], position: Position | None) -> OrderedCall:
    """Separates the ORDER BY of a call, `tree`, from its arguments as parsed."""
    order: list[Any] = []
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1].expressions
        if arguments[-1].this is None:
            raise ProgrammingError(
                "ORDER BY in parentheses needs an argument before it", position=position
            )
        arguments = [*arguments[:-1], arguments[-1].this]
    if not isinstance(tree, exp.WithinGroup):
        return OrderedCall(arguments, order, False)
    if order:
        raise ProgrammingError(
            "ORDER BY is written both in the parentheses and in WITHIN GROUP", position=position
        )
    return OrderedCall(arguments, tree.expression.expressions, True)
