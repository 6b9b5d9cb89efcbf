"""The allow-list: the sqlglot nodes and arguments that the binder understands.

Everything else is refused with its position. A clause that the binder ignores, for example one that
a new sqlglot release parses, can therefore never run as if it were absent.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.query.allowed_shapes import complaint
from runnel.planner.parse.types import sql_type_of

_QUERY = "with_ order limit offset"
_BINARY = "this expression"
_ALLOWED_ARGUMENTS: dict[str, str] = {
    # queries
    "Select": f"expressions from_ joins where group having qualify windows distinct {_QUERY}",
    "Union": f"this expression distinct {_QUERY}",
    "Intersect": f"this expression distinct {_QUERY}",
    "Except": f"this expression distinct {_QUERY}",
    "Subquery": f"this alias joins {_QUERY}",
    "Values": "expressions alias order limit offset",
    "With": "expressions recursive",
    "CTE": "this alias materialized",
    "From": "this",
    "Table": "this db catalog alias joins ordinality version",
    "Version": "this kind expression",
    "TableAlias": "this columns",
    "Unnest": "expressions alias offset",
    "Lateral": "this alias ordinality",
    "Join": "this on using side kind method",
    "Where": "this",
    "Group": "expressions all",
    "Rollup": "expressions",
    "Cube": "expressions",
    "GroupingSets": "expressions",
    "Having": "this",
    "Qualify": "this",
    "Order": "this expressions",
    "Ordered": "this desc nulls_first",
    "Limit": "this expression limit_options",
    "Fetch": "count direction limit_options",
    "LimitOptions": "rows",
    "Offset": "expression",
    "Distinct": "expressions on",
    "Star": "except_ replace",
    "Alias": "this alias",
    # scalars
    "Column": "this table db catalog",
    "Identifier": "this quoted",
    "Literal": "this is_string",
    "Boolean": "this",
    "Null": "",
    "Var": "this",
    "Parameter": "this",
    "Paren": "this",
    "Tuple": "expressions",
    "Array": "expressions value_constructor bracket_notation",
    "Bracket": "this expressions",
    "Explode": "this expressions",
    "Dot": "this expression",
    "Slice": "this expression",
    "JSONExtract": "this expression only_json_types",
    "JSONExtractScalar": "this expression only_json_types scalar_only",
    "JSON": "this",
    **dict.fromkeys(
        ("RegexpLike", "RegexpILike", "SimilarTo", "Overlaps", "Pow", "IntDiv"), _BINARY
    ),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseLeftShift", "BitwiseRightShift"), _BINARY),
    **dict.fromkeys(("ArrayContainsAll", "ArrayOverlaps"), _BINARY),
    "BitwiseNot": "this",
    "TryCast": "this to safe",
    "Neg": "this",
    "Not": "this",
    **dict.fromkeys(("Add", "Sub", "Mul", "Mod"), _BINARY),
    "Div": "this expression typed safe",
    "DPipe": "this expression safe",
    **dict.fromkeys(
        ("And", "Or", "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NullSafeEQ", "NullSafeNEQ", "Is"),
        _BINARY,
    ),
    "Between": "this low high symmetric",
    "In": "this expressions query",
    "Exists": "this",
    "Any": "this",
    "All": "this",
    "Like": "this expression negate",
    "ILike": "this expression negate",
    "Escape": "this expression",
    "Case": "this ifs default",
    "If": "this true",
    "Cast": "this to",
    "DataType": "this kind",
    "Interval": "this unit",
    "IntervalSpan": "this expression",
    "AtTimeZone": "this zone",
    "Trim": "this expression position",
    "Anonymous": "this expressions",
    "Filter": "this expression",
    "WithinGroup": "this expression",
    "Window": "this partition_by order spec alias over",
    "WindowSpec": "kind start start_side end end_side exclude",
    "IgnoreNulls": "this",
    "RespectNulls": "this",
    "Kwarg": "this expression",
}
ALLOWED: dict[str, frozenset[str]] = {
    name: frozenset(text.split()) for name, text in _ALLOWED_ARGUMENTS.items()
}
"""For each node class, by name, the arguments that may be set."""

_NODE_NAMES = {
    "Lateral": "LATERAL",
    "Window": "OVER",
    "Pivot": "PIVOT",
    "TryCast": "TRY_CAST",
    "Pow": "operator ^",
    "IntDiv": "operator //",
    "RawString": "a string between $$",
    "National": "N before a string",
    "JSONBExtract": "operator #>",
    "JSONBExtractScalar": "operator #>>",
    "BitwiseAnd": "operator &",
    "BitwiseOr": "operator |",
    "BitwiseXor": "operator XOR",
    "BitwiseNot": "operator ~",
    "BitwiseLeftShift": "operator <<",
    "BitwiseRightShift": "operator >>",
    "RegexpLike": "operator ~",
    "RegexpFullMatch": "operator ~",
    "SimilarTo": "SIMILAR TO",
    "Glob": "GLOB",
    "Lambda": "a lambda function",
    "Comprehension": "a list comprehension",
    "Struct": "a struct literal",
    "Slice": "an array slice",
    "Collate": "COLLATE",
    "TableSample": "TABLESAMPLE",
    "HexString": "a hexadecimal string",
    "BitString": "a bit string",
    "Hint": "a hint",
    "Into": "SELECT INTO",
    "Lock": "FOR UPDATE",
    "PropertyEQ": "a named argument with :=",
    "Aliases": "a list of aliases",
    "JSONExtract": "operator ->",
    "JSONExtractScalar": "operator ->>",
    "Overlaps": "OVERLAPS",
    "Unicode": "a Unicode string",
    "Concat": "a string literal in several segments",
    "ColumnDef": "a column list with types",
    "HavingMax": "HAVING within a function",
    "PositionalColumn": "a column by #",
    "Insert": "INSERT within a query",
    "ParseJSON": "JSON before a literal",
    "Placeholder": "a named parameter",
}
_ARGUMENT_NAMES = {
    ("Select", "laterals"): "LATERAL",
    ("Select", "sample"): "TABLESAMPLE",
    ("Select", "connect"): "CONNECT BY",
    ("Select", "locks"): "FOR UPDATE",
    ("Select", "into"): "SELECT INTO",
    ("Select", "hint"): "a hint",
    ("Select", "kind"): "SELECT AS",
    ("Select", "cluster"): "CLUSTER BY",
    ("Select", "distribute"): "DISTRIBUTE BY",
    ("Select", "sort"): "SORT BY",
    ("Select", "match"): "MATCH_RECOGNIZE",
    ("Select", "pivots"): "PIVOT",
    ("Group", "rollup"): "WITH ROLLUP",
    ("Group", "cube"): "WITH CUBE",
    ("Window", "first"): "KEEP",
    ("Group", "totals"): "WITH TOTALS",
    ("Star", "rename"): "* RENAME",
    ("Union", "by_name"): "UNION BY NAME",
    ("Ordered", "with_fill"): "WITH FILL",
    ("LimitOptions", "percent"): "LIMIT with PERCENT",
    ("LimitOptions", "with_ties"): "FETCH WITH TIES",
    ("In", "unnest"): "IN UNNEST",
    ("In", "field"): "IN without parentheses",
    ("Table", "pivots"): "PIVOT",
    ("Table", "sample"): "TABLESAMPLE",
    ("Table", "only"): "ONLY",
    ("Table", "rows_from"): "ROWS FROM",
    ("Table", "hints"): "a table hint",
    ("Table", "ordinality"): "WITH ORDINALITY on anything but UNNEST",
    ("Limit", "expressions"): "LIMIT … BY",
    ("Subquery", "pivots"): "PIVOT",
    ("Subquery", "sample"): "TABLESAMPLE",
    ("Join", "hint"): "a join hint",
    ("Join", "match_condition"): "ASOF JOIN",
}
_HINTS = {
    "TRY_CAST": "use CAST",
    "operator ^": "use POWER(a, b)",
    "operator //": "use /, which truncates for integers",
    "a named argument with :=": "write name => value",
    "WITH ROLLUP": "write ROLLUP (…)",
    "WITH CUBE": "write CUBE (…)",
    "a string between $$": "write it between single quotes, and each quote in it twice",
    "N before a string": "leave it out: every string is Unicode",
    "operator #>": "use JSON_QUERY(json, path)",
    "operator #>>": "use JSON_VALUE(json, path)",
    "a struct literal": "use ROW(…)",
    "SIMILAR TO": "use LIKE or REGEXP_LIKE",
    "a string literal in several segments": "use ||",
    "JSON before a literal": "use CAST('…' AS JSON)",
    "SELECT INTO": "use INSERT INTO … SELECT …",
    "TABLESAMPLE": "use WHERE RANDOM() < 0.1",
    "PIVOT": "use aggregates with FILTER (WHERE …) and GROUP BY",
}


def check(tree: Any, sql: str) -> None:
    """Raises an error, in SQL's words and with a position, for a node that is not on the list, has
    an argument that is not on the list, or has a shape that `allowed_shapes` refuses."""
    for node in tree.walk():
        name = type(node).__name__
        allowed = ALLOWED.get(name)
        if allowed is None:
            raise refused(_NODE_NAMES.get(name, _sql_name(node)), _position_of(node, sql))
        for key, value in node.args.items():
            if value and key not in allowed:
                first = value[0] if isinstance(value, list) else value
                at = position_of(first, sql) if isinstance(first, exp.Expr) else None
                what = _ARGUMENT_NAMES.get(
                    (name, key), f"{key.strip('_').upper()} in {name.upper()}"
                )
                raise refused(what, at or _position_of(node, sql))
        found = complaint(node)
        if found is not None:
            kind = ProgrammingError if found.is_wrong else NotSupportedError
            raise kind(found.message, hint=found.hint, position=_position_of(node, sql))


def depth_of(tree: Any) -> int:
    """The depth of a tree, where a chain of AND, of OR, of || or of set operations counts as one
    level."""
    deepest = 0
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        is_chain = isinstance(node, exp.And | exp.Or | exp.DPipe | exp.SetOperation)
        for child in node.iter_expressions():
            same = is_chain and type(child) is type(node)
            stack.append((child, depth if same else depth + 1))
    return deepest


def refused(what: str, position: Position | None) -> NotSupportedError:
    return NotSupportedError(f"{what} is not supported", hint=_HINTS.get(what), position=position)


def _sql_name(node: Any) -> str:
    return str(node.sql_name()) if isinstance(node, exp.Func) else type(node).__name__.upper()


def position_of(node: Any, sql: str) -> Position | None:
    """The range in the text from a node's first to its last descendant with a position; None if no
    descendant has one (NULL and TRUE have none)."""
    first, last = len(sql), -1
    for part in (node,) if isinstance(node, exp.Literal) else node.walk():
        start = part.meta_get("start")
        if start is not None:
            first = min(first, start)
            last = max(last, part.meta["end"])
    if last < 0:
        return None
    return Position.at(sql, first, last - first + 1)


def _position_of(node: Any, sql: str) -> Position | None:
    """The position of a node, or of its nearest ancestor that has one; else the statement's
    start."""
    while node is not None:
        position = position_of(node, sql)
        if position is not None:
            return position
        node = node.parent
    return Position.at(sql, len(sql) - len(sql.lstrip()))


def function_call(node: Any) -> tuple[str, list[Any]] | None:
    """The name (in upper case) and the arguments of a function call, as written; None for any other
    node.

    TRIM([LEADING | TRAILING | BOTH] [c FROM] s) is LTRIM, RTRIM or BTRIM with (s) or (s, c). The
    arguments may be exp.Star, exp.Distinct or exp.Kwarg: see `query`.
    """
    if isinstance(node, exp.Anonymous):
        return node.name.upper(), list(node.expressions)
    if isinstance(node, exp.Trim):
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(
            str(node.args.get("position") or ""), "BTRIM"
        )
        characters = node.args.get("expression")
        return name, [node.this] if characters is None else [node.this, characters]
    return None


def unwrapped(tree: Any) -> Any:
    """The tree without its enclosing parentheses."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


__all__ = [
    "ALLOWED",
    "check",
    "function_call",
    "position_of",
    "refused",
    "sql_type_of",
    "unwrapped",
]
