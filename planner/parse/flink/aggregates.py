"""Flink's aggregates FIRST_VALUE and LAST_VALUE, which elsewhere are window functions alone.

    SELECT k, FIRST_VALUE(x) FROM t GROUP BY k

becomes FIRST(x) FILTER (WHERE x IS NOT NULL): the first value that is not NULL, in the order in
which rows arrive, or in the order of ORDER BY within the parentheses.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

NAMES = {"FIRST_VALUE": "FIRST", "LAST_VALUE": "LAST"}


def rewrite_aggregates(tree: Any) -> None:
    """Changes the calls without OVER."""
    for call in list(tree.find_all(exp.Anonymous)):
        name = NAMES.get(call.name.upper())
        if name is None or len(call.expressions) != 1 or _is_over(call):
            continue
        value = call.expressions[0]
        if isinstance(value, exp.Order):
            value = value.this
        if isinstance(value, exp.Distinct | exp.IgnoreNulls | exp.RespectNulls):
            continue
        call.set("this", name)
        condition: Any = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
        outer = call.parent
        if isinstance(outer, exp.Filter):
            where = outer.expression
            where.set("this", exp.And(this=where.this, expression=condition))
        else:
            filtered = exp.Filter(expression=exp.Where(this=condition))
            call.replace(filtered)
            filtered.set("this", call)


def _is_over(call: Any) -> bool:
    """Whether OVER follows, also after FILTER, IGNORE NULLS or RESPECT NULLS."""
    outer = call.parent
    while isinstance(outer, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        outer = outer.parent
    return isinstance(outer, exp.Window)
