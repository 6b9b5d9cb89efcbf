"""Long chains of ||. Loaded on first use."""

from __future__ import annotations

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.coercion import convert
from runnel.expressions.nodes import Expression
from runnel.sqltypes import VARCHAR, Kind, can_cast


def long_concatenation(
    operands: list[Expression], position: Position | None, limit: int
) -> Expression:
    """A chain of || with more than `limit` operands as a balanced tree. The result is the same,
    because concatenation of texts is associative."""
    build.call("concat", operands[:2], position)  # for its checks
    for item in operands:
        if (
            item.type.is_nested
            or item.type.kind is operands[0].type.kind is Kind.JSON
            or item.type.kind is Kind.VARBINARY
            or not can_cast(item.type, VARCHAR)
        ):
            raise ProgrammingError(
                f"|| of more than {limit} values needs texts, not {item.type}",
                position=item.position or position,
            )
    operands = [convert(item, VARCHAR) for item in operands]
    while len(operands) > 1:
        pairs = [operands[at : at + 2] for at in range(0, len(operands), 2)]
        operands = [
            build.call("concat", pair, pair[0].position) if len(pair) == 2 else pair[0]
            for pair in pairs
        ]
    return operands[0]
