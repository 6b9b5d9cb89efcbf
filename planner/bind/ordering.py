"""Sort keys of ORDER BY, and the ordinals of ORDER BY and GROUP BY."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions.nodes import Expression, SortKey
from runnel.planner.environment import NULLS_LARGEST, NULLS_SMALLEST, Environment
from runnel.planner.parse.query.allow_list import unwrapped
from runnel.sqltypes import Kind, contains

_BY_VALUE = (NULLS_SMALLEST, NULLS_LARGEST)


def sort_key(expression: Expression, ordered: Any, environment: Environment) -> SortKey:
    """The sort key of an ORDER BY item. Unless the text says otherwise, NULLs are ordered by the
    setting default_null_order; in a job, which outlives the session, NULL is the smallest value.
    MAP can't be ordered, nor an array or a row that contains one."""
    if contains(expression.type, Kind.MAP):
        raise NotSupportedError(
            f"ORDER BY on a value of type {expression.type} is not supported",
            hint="sort by a value of it, as in m['key']",
            position=expression.position,
        )
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    # WITH FILL stands for a written NULLS FIRST or NULLS LAST: `parse/query/query_end.py`.
    if ordered.args.get("with_fill") is None:
        order = NULLS_SMALLEST if environment.in_job else environment.null_order
        largest = order in ("nulls_last", NULLS_LARGEST)
        # The first two orders are the same for ASC and DESC.
        nulls_first = largest is descending if order in _BY_VALUE else not largest
    return SortKey(expression, descending, bool(nulls_first))


def ordinal(tree: Any) -> int | None:
    """The number, if the item is a bare integer literal as in ORDER BY 2 or ORDER BY (2); else
    None."""
    tree = unwrapped(tree)
    if isinstance(tree, exp.Literal) and not tree.is_string and tree.this.isdigit():
        return int(tree.this)
    return None


def checked_ordinal(number: int, width: int, clause: str, position: Position | None) -> int:
    """The column's index for an ordinal; ProgrammingError if there is no such column."""
    if not 1 <= number <= width:
        raise ProgrammingError(
            f"{clause} position {number} is not in the select list", position=position
        )
    return number - 1


def is_all(items: list[Any]) -> bool:
    """Whether the items of ORDER BY are the word ALL alone."""
    return len(items) == 1 and is_word_all(items[0].this)


def is_word_all(tree: Any) -> bool:
    """Whether an item of ORDER BY is the word ALL."""
    return isinstance(tree, exp.Var) and tree.name.upper() == "ALL"
