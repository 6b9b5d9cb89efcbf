"""Binding of `x IN (SELECT …)` and its synonym `x = ANY (SELECT …)`: both sides are converted to
the type in which `=` compares them."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Expression
from runnel.planner.bind.convert import changed, converted, decimal_key
from runnel.relation.nodes import Relation, references
from runnel.relation.subqueries import InSubquery
from runnel.sqltypes import BOOLEAN, SqlType, common_type, loses_digits


def in_subquery(
    operands: Sequence[Expression], relation: Relation, symbol: str, position: Position | None
) -> InSubquery:
    """Binds IN; there is one operand for each column of the relation.

    If no DECIMAL type can hold both sides, they are compared by keys.
    """
    sides: list[Expression] = []
    types: list[SqlType] = []
    keyed: set[int] = set()
    for number, (operand, column) in enumerate(
        zip(operands, references(relation.fields), strict=True)
    ):
        shared = comparison_type(operand.type, column.type, symbol, position)
        if loses_digits(operand.type, column.type):
            build.call("eq", [operand, column], position)  # refuses nested types
            keyed.add(number)
            shared = column.type
        types.append(shared)
        sides.append(
            decimal_key(operand) if number in keyed else build.cast(operand, shared, implicit=True)
        )
    relation = changed(converted(relation, tuple(types)), dict.fromkeys(keyed, decimal_key))
    return InSubquery(operands=tuple(sides), relation=relation, type=BOOLEAN, position=position)


def comparison_type(
    left: SqlType, right: SqlType, symbol: str, position: Position | None
) -> SqlType:
    """The common type of two types that are compared; ProgrammingError if there is none."""
    shared = common_type(left, right)
    if shared is None:
        raise ProgrammingError(
            f"cannot apply '{symbol}' operator to [{left}, {right}]",
            hint="consider adding an explicit CAST",
            position=position,
        )
    return shared
