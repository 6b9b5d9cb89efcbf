"""A relational subplan as Spark's SELECT.

Constructs that Spark lacks, or plans with another result, are refused or written in another way.
"""

from __future__ import annotations

from runnel.expressions.nodes import Expression, Literal
from runnel.foreign.fragment import Unrenderable
from runnel.relation import nodes
from runnel.relation.nodes import JoinKind
from runnel.rendering.relations import Block, RelationRendering

_MOST_ROWS = 2**31 - 1


class SparkRelations(RelationRendering):
    """Spark's SELECT of one relation."""

    same = "<=>"
    never_negative = "rand()"
    semi, anti = "LEFT SEMI", "LEFT ANTI"

    def exists(self, node: nodes.Join, left: Block, right: Block) -> Block:
        if node.kind is JoinKind.EXISTS_MARK:
            _check_left(node)
        return super().exists(node, left, right)

    def found_in(self, operand: str, key: str, node: nodes.Join, right: Block) -> str:
        if node.kind is JoinKind.NULL_ANTI:
            return super().found_in(operand, key, node, right)
        _check_left(node)
        # Outside WHERE, Spark's IN over a query ignores NULL.
        found = f"EXISTS (SELECT 1 FROM {right.source} WHERE {key} = {operand})"
        unknown = f"{operand} IS NULL AND EXISTS (SELECT 1 FROM {right.source})"
        has_nulls = f"EXISTS (SELECT 1 FROM {right.source} WHERE {key} IS NULL)"
        return f"CASE WHEN {found} THEN TRUE WHEN {unknown} OR {has_nulls} THEN NULL ELSE FALSE END"

    def row_count(self, expression: Expression) -> str:
        """Spark has only INT for it."""
        if isinstance(expression, Literal) and (expression.value or 0) > _MOST_ROWS:
            raise Unrenderable(f"LIMIT and OFFSET above {_MOST_ROWS}", expression.position)
        return f"CAST({super().row_count(expression)} AS INT)"

    def numbered_by(self, keys: str, order: str) -> str:
        """Spark numbers no rows without an order."""
        return super().numbered_by(keys, order or "NULL")

    def union(self, node: nodes.Union) -> Block:
        # Spark 4 can't always plan an ORDER BY right above it.
        return self.around(super().union(node))


def _check_left(node: nodes.Join) -> None:
    """Spark computes the columns of a SELECT in the operands of a UNION ALL, where it loses the
    outer references of a subquery."""
    if any(isinstance(item, (nodes.Union, nodes.Values)) for item in nodes.walk(node.left)):
        raise Unrenderable("EXISTS or IN as a value over a UNION ALL or VALUES", node.position)
