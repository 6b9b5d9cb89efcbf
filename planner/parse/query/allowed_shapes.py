"""The second half of the allow-list: nodes on the list that are refused in some positions or
combinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlglot import exp

from runnel.planner.parse.query.clauses import FRAME_UNITS, VARIABLES


class Complaint(NamedTuple):
    """The reason why a node is refused.

    is_wrong: whether it is wrong in SQL (ProgrammingError); otherwise it is SQL that Runnel does
        not support (NotSupportedError).
    message: the error's message.
    hint: the error's hint, or None.
    """

    is_wrong: bool
    message: str
    hint: str | None


Verdict = Complaint | None


def complaint(node: Any) -> Verdict:
    """The reason why the shape of a node is refused; None if it is allowed."""
    judge = _JUDGES.get(type(node).__name__)
    return None if judge is None else judge(node)


def _wrong(message: str, hint: str | None = None) -> Complaint:
    return Complaint(True, message, hint)


def _unsupported(what: str, hint: str | None = None) -> Complaint:
    return Complaint(False, f"{what} is not supported", hint)


def _select(node: Any) -> Verdict:
    return (
        None if node.expressions else _wrong("SELECT lists no columns", "write * for all columns")
    )


def _group(node: Any) -> Verdict:
    if node.args.get("all") is False:
        return _unsupported("GROUP BY DISTINCT", "list each grouping set once")
    if node.args.get("all"):
        return None
    return None if node.expressions else _wrong("GROUP BY lists nothing")


def _tuple(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Group | exp.GroupingSets):
        return None
    return None if node.expressions else _wrong("an empty list in parentheses")


def _in(node: Any) -> Verdict:
    has_values = bool(node.expressions) or node.args.get("query") is not None
    return None if has_values else _wrong("IN needs at least one value")


def _is(node: Any) -> Verdict:
    if isinstance(node.expression, exp.Null | exp.Boolean | exp.JSON):
        return None
    return _wrong("IS needs NULL, TRUE, FALSE or DISTINCT FROM")


def _grouping_sets(node: Any) -> Verdict:
    name = {"Rollup": "ROLLUP", "Cube": "CUBE"}.get(type(node).__name__, "GROUPING SETS")
    if not isinstance(node.parent, exp.Group | exp.GroupingSets):
        return _wrong(f"{name} is only allowed in GROUP BY")
    return None if node.expressions else _wrong(f"{name} lists nothing")


def _window(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
        return None
    return None if node.args.get("over") else _wrong("a window is not allowed here")


def _window_spec(node: Any) -> Verdict:
    kind = str(node.args.get("kind") or "").upper()
    if kind not in FRAME_UNITS:
        return _wrong("a frame begins with ROWS, RANGE or GROUPS")
    for name in ("start", "end"):
        value, side = node.args.get(name), str(node.args.get(f"{name}_side") or "").upper()
        if value is None and name == "end":
            continue
        if value is None or (value != "CURRENT ROW" and side not in ("PRECEDING", "FOLLOWING")):
            return _wrong(
                "the bounds of a frame are UNBOUNDED, "
                "CURRENT ROW or an offset with PRECEDING or FOLLOWING"
            )
    return None


def _nulls_option(node: Any) -> Verdict:
    parent = node.parent
    while isinstance(parent, exp.Anonymous | exp.Filter):
        parent = parent.parent
    return (
        None
        if isinstance(parent, exp.Window)
        else _wrong("IGNORE NULLS and RESPECT NULLS need a window function")
    )


def _distinct(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Select):
        return None
    if not node.expressions:
        return _wrong("DISTINCT needs an argument")
    star = any(isinstance(item, exp.Star) for item in node.expressions)
    return _wrong("DISTINCT * is not an argument", "name the columns") if star else None


def _star(node: Any) -> Verdict:
    parent = node.parent
    if not all(isinstance(item, exp.Alias) for item in node.args.get("replace") or ()):
        return _wrong(
            "REPLACE lists expressions with the columns' names",
            "write REPLACE (expression AS column)",
        )
    if isinstance(parent, exp.Column):
        return (
            None
            if isinstance(parent.parent, exp.Select)
            else _unsupported("t.* here", "name the columns")
        )
    if isinstance(parent, exp.Select | exp.Distinct):
        return None
    if isinstance(parent, exp.Dot):
        above = parent.parent
        return (
            None
            if isinstance(above, exp.Select)
            else _unsupported("(row).* here", "name the fields")
        )
    if (
        isinstance(parent, exp.Anonymous)
        and parent.name.upper() == "COUNT"
        and len(parent.expressions) == 1
    ):
        return None
    return _wrong("* is not allowed here", "* is for SELECT * and COUNT(*)")


def _array(node: Any) -> Verdict:
    in_brackets = node.args.get("value_constructor") is not None or node.args.get(
        "bracket_notation"
    )
    if (
        not in_brackets
        and len(node.expressions) != 1
        and any(isinstance(item, exp.Query) for item in node.expressions)
    ):
        return _wrong("ARRAY accepts one query", "write ARRAY(SELECT …)")
    return None


def _explode(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Window | exp.Filter | exp.WithinGroup):
        return _wrong("UNNEST is not an aggregate or window function")
    return None


def _bracket(node: Any) -> Verdict:
    return None if len(node.expressions) == 1 else _wrong("a subscript is one number")


def _join(node: Any) -> Verdict:
    kind, side = str(node.args.get("kind") or ""), str(node.args.get("side") or "")
    if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT", "RIGHT", "FULL"):
        return _unsupported(
            f"{side} {kind} JOIN".strip(), "use IN or EXISTS" if kind in ("SEMI", "ANTI") else None
        )
    method = str(node.args.get("method") or "")
    if method not in ("", "NATURAL", "ASOF"):
        return _unsupported(f"{method} JOIN")
    condition = node.args.get("on") is not None or bool(node.args.get("using"))
    if kind == "CROSS" and condition:
        return _wrong("CROSS JOIN has no condition", "use JOIN … ON")
    if method == "ASOF" and not condition:
        return _wrong(
            "ASOF JOIN needs ON or USING", "write ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts"
        )
    if method == "NATURAL" and condition:
        return _wrong("NATURAL JOIN has no condition", "use JOIN … USING")
    if (
        not condition
        and not method
        and kind != "CROSS"
        and (kind or side)
        and not isinstance(node.this, exp.Unnest)
    ):
        return _wrong("this JOIN needs ON or USING", "or write CROSS JOIN")
    return None


def _set_operation(node: Any) -> Verdict:
    for operand in (node.this, node.expression):
        if not isinstance(operand, exp.Query | exp.Values):
            return _wrong("both sides of a set operation must be queries")
        if isinstance(operand, exp.Subquery):
            continue
        for clause, name in (
            ("order", "ORDER BY"),
            ("limit", "LIMIT"),
            ("offset", "OFFSET"),
            ("with_", "WITH"),
        ):
            if operand.args.get(clause) is not None:
                return _wrong(
                    f"{name} in an operand of {node.key.upper()} needs parentheses around that "
                    "operand"
                )
    return None


def _interval(node: Any) -> Verdict:
    if not isinstance(node.this, exp.Literal):
        return _unsupported("INTERVAL of an expression", "write a literal: INTERVAL '1' DAY")
    if node.args.get("unit") is None:
        return _unsupported(
            "INTERVAL without a unit", "write INTERVAL '1' DAY or INTERVAL '1:30' HOUR TO MINUTE"
        )
    return None


def _alias(node: Any) -> Verdict:
    return (
        None
        if isinstance(node.parent, exp.Select | exp.Star)
        else _wrong("an alias is not allowed here")
    )


def _table(node: Any) -> Verdict:
    if isinstance(node.this, exp.Identifier | exp.Anonymous):
        return None
    return _wrong("a table or a table function was expected")


def _exists(node: Any) -> Verdict:
    return None if isinstance(node.this, exp.Query | exp.Values) else _wrong("EXISTS needs a query")


def _escape(node: Any) -> Verdict:
    return (
        None
        if isinstance(node.this, exp.Like | exp.ILike | exp.SimilarTo)
        else _wrong("ESCAPE belongs to LIKE")
    )


def _filter(node: Any) -> Verdict:
    is_call = isinstance(node.this, exp.Anonymous | exp.WithinGroup)
    return None if is_call else _wrong("FILTER belongs to an aggregate function")


def _within_group(node: Any) -> Verdict:
    return (
        None
        if isinstance(node.this, exp.Anonymous)
        else _wrong("WITHIN GROUP belongs to an aggregate function")
    )


def _kwarg(node: Any) -> Verdict:
    return (
        None
        if isinstance(node.parent, exp.Anonymous)
        else _wrong("a named argument is not allowed here")
    )


def _limit(node: Any) -> Verdict:
    return (
        _unsupported("LIMIT within a function") if isinstance(node.parent, exp.Anonymous) else None
    )


def _order(node: Any) -> Verdict:
    if node.args.get("this") is None or isinstance(node.parent, exp.Anonymous):
        return None
    return _wrong("ORDER BY is not allowed here")


def _data_type(node: Any) -> Verdict:
    # sqlglot parses DATE 5 as a typed literal. The types that can precede a literal were parsed
    # from the tokens before, and carry "sql_type".
    return (
        None
        if "sql_type" in node.meta
        else _wrong("a type is not allowed here", "write CAST(… AS type)")
    )


def _var(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Kwarg | exp.Interval | exp.IntervalSpan):
        return None
    parent = type(node.parent).__name__
    if node.name.upper() in VARIABLES.get(parent, ()):
        return None
    clause = {"Ordered": "ORDER BY ", "Limit": "LIMIT "}.get(parent, "")
    return _unsupported(f"{clause}{node.name.upper()}")


_JUDGES: dict[str, Callable[[Any], Verdict]] = {
    "Select": _select,
    "Group": _group,
    "Tuple": _tuple,
    "In": _in,
    "Is": _is,
    "Rollup": _grouping_sets,
    "Cube": _grouping_sets,
    "GroupingSets": _grouping_sets,
    "Window": _window,
    "WindowSpec": _window_spec,
    "IgnoreNulls": _nulls_option,
    "RespectNulls": _nulls_option,
    "Distinct": _distinct,
    "Star": _star,
    "Array": _array,
    "Explode": _explode,
    "Bracket": _bracket,
    "Join": _join,
    "Union": _set_operation,
    "Intersect": _set_operation,
    "Except": _set_operation,
    "Interval": _interval,
    "Alias": _alias,
    "Table": _table,
    "Exists": _exists,
    "Escape": _escape,
    "Filter": _filter,
    "WithinGroup": _within_group,
    "Kwarg": _kwarg,
    "Limit": _limit,
    "Order": _order,
    "Var": _var,
    "DataType": _data_type,
}
