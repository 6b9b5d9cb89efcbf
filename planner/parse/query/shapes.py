"""The trees that the binder reads: sqlglot's, changed by `finish`, in the shapes that the checks
below allow.

`clauses.CLAUSES` lists every node class and argument that can occur. Shapes that are not obvious:

- A parameter is `exp.Parameter(this=Literal)`; its number (from 0) is `int(node.name)`.
- A function call, also of an aggregate, is `exp.Anonymous(this=name as written,
  expressions=arguments as written)`, or one of a few node classes with a syntax of their own;
  `allow_list.function_call(node)` returns (NAME, arguments) for all of them. `COUNT(*)` has an
  `exp.Star` argument. `f(DISTINCT a, b)` has a single argument `exp.Distinct(expressions=[a, b])`.
  `f(a, b ORDER BY c)` has `exp.Order(this=b, expressions=[exp.Ordered])` as its last argument
  (around the exp.Distinct, if there is one). `f(a) WITHIN GROUP (ORDER BY c)` is
  `exp.WithinGroup(this=f(a), expression=exp.Order)`. `f(…) FILTER (WHERE c)` is
  `exp.Filter(this=f(…), expression=exp.Where(this=c))`. `f(name => x)` has
  `exp.Kwarg(this=Var, expression=x)`.
- `ROW(a, b)` is a call of ROW, `(a, b)` an `exp.Tuple`. CURRENT_DATE and similar words are calls
  without arguments.
- `EXTRACT(year FROM t)` is EXTRACT('year', t), `SUBSTRING(s FROM i FOR n)` is SUBSTRING(s, i, n),
  `POSITION(x IN s)` is POSITION(x, s).
- `CAST(x AS t)` and `x::t` are `exp.Cast`; `types.sql_type_of(cast.args["to"])` is the type. A
  typed literal such as DATE '2020-01-01' is also an exp.Cast of a string literal.
  `INTERVAL '1' DAY` is `exp.Interval(this=Literal, unit=Var)`; with HOUR TO MINUTE, the unit is
  `exp.IntervalSpan(this=Var, expression=Var)`.
- `a[i]` is `exp.Bracket(this=a, expressions=[i])`, i as written (from 1).
- `exp.Ordered` has `desc` and `nulls_first`; `with_fill` is set if the text says NULLS FIRST or
  NULLS LAST.
- `a NOT LIKE b` is `exp.Like` with `negate`, and ILIKE likewise. ESCAPE is an
  `exp.Escape(this=Like, expression)` around it. NOT IN, NOT BETWEEN and IS NOT are `exp.Not` around
  the positive form. IS [NOT] DISTINCT FROM is NullSafeNEQ / NullSafeEQ.
- A call with OVER is `exp.Window(this=call, partition_by, order, spec=exp.WindowSpec, alias=base,
  over="OVER")`. The call may be inside exp.Filter, exp.IgnoreNulls or exp.RespectNulls (the last
  two may also be around its last argument). A definition in the WINDOW clause is an exp.Window
  whose `this` is its name. The bounds of a frame are texts ("UNBOUNDED", "CURRENT ROW") or trees.
- GROUP BY has exp.Rollup, exp.Cube, exp.GroupingSets and exp.Tuple (which may be empty) among its
  `expressions`, or `all`.
- A table function is `exp.Table(this=Anonymous, alias)`. `UNNEST(a) [WITH ORDINALITY] AS t(w[, o])`
  is `exp.Unnest(expressions=[a], alias=TableAlias(this=t, columns=[w, o]), offset=True)`.
- A comma in FROM is a Join without kind, side, `on` and `using`; a plain JOIN has the kind INNER.
  A parenthesised join is `exp.Subquery(this=Table with joins)`.
- LIMIT is `exp.Limit(expression)` or `exp.Fetch(count)`, both under `limit`; `count` is absent for
  one row.
- AND, OR and set operations lean to the left and can be thousands of levels deep: flatten them
  instead of recursing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from runnel.planner.parse.query.token_pass import MARK, TYPE, TokenPass, item_texts
from runnel.planner.parse.types import TypeLimit
from runnel.sqltypes import SqlType

TEXT = "text"
"""The key of the text of an item of a select list in its `meta`."""

CHAINS = (exp.And, exp.Or, exp.DPipe, exp.SetOperation)
"""The nodes of which a chain counts as one level of depth."""

ROW_FUNCTIONS = frozenset({"STRUCT_PACK", "STRUCT_INSERT", "STRUCT_UPDATE"})
"""The functions whose arguments may have names: the names of fields."""

WORDED = ROW_FUNCTIONS | {
    *("MAP[", "X'", "STRUCT_CONCAT", "STRUCT_KEYS", "FROM_JSON", "FROM_JSON_STRICT")
}
"""Functions that are bound from their trees, besides the ones that begin with JSON_."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


_PIVOT_COLUMNS = (
    *("columns", "identify_pivot_strings", "prefixed_pivot_columns"),
    *("pivot_column_naming", "value_columns_first"),
)
"""The arguments of an exp.Pivot with the columns that sqlglot computes."""


def finish(tree: Any, to: TokenPass) -> Any:
    """Changes sqlglot's tree into the tree that the binder reads.

    Parameters become exp.Parameter, types are filled in, marks are removed from names, the column
    names of UNNEST … WITH ORDINALITY are collected, VALUES after IN becomes a query, and items of
    select lists have their texts.
    """
    for node in list(tree.walk()):
        if isinstance(node, exp.Identifier):
            if node.this.startswith(MARK):
                node.set("this", node.this[len(MARK) :])
        elif isinstance(node, exp.Anonymous):
            node.set("this", node.name.removeprefix(MARK))
            if isinstance(node.parent, (exp.Table, exp.Lateral)):
                # Loaded on first use: few statements call a table function.
                from runnel.planner.parse.query.set_functions import as_unnest

                as_unnest(node)
            elif node.arg_key == "expression" and isinstance(node.parent, _COMPARISONS):
                _restore_quantifier(node)
        elif isinstance(node, exp.Placeholder):
            offset = int(node.name)
            parameter = exp.Parameter(this=exp.Literal.number(to.parameters[offset]))
            parameter.meta.update(node.meta)
            parameter.meta["start"] = parameter.meta["end"] = offset
            if node is tree:
                return parameter
            _replace(node, parameter)
        elif isinstance(node, exp.DataType):
            _restore_type(node, to.types)
        elif (
            isinstance(node, exp.In)
            and len(node.expressions) == 1
            and isinstance(node.expressions[0], exp.Values)
        ):
            node.set("query", exp.Subquery(this=node.expressions[0]))
            node.set("expressions", None)
        elif isinstance(node, exp.Pivot):
            for key in _PIVOT_COLUMNS:
                node.set(key, None)
        elif isinstance(node, exp.UDTF) and isinstance(node.args.get("offset"), exp.Identifier):
            holder = node.parent if isinstance(node.parent, exp.Lateral) else node
            holder.args["alias"].append("columns", node.args["offset"])
            node.set("offset", True)
        elif isinstance(node, exp.Select):
            _name_items(node, to)
    return tree


def _name_items(node: Any, to: TokenPass) -> None:
    """Stores the text of each item of a SELECT's list, if some have no name, in its `meta`."""
    if not node.comments or not node.comments[-1].startswith(MARK):
        return
    start = int(node.comments.pop()[len(MARK) :])
    if all(isinstance(item, (exp.Column, exp.Alias, exp.Star)) for item in node.expressions):
        return
    for item, text in zip(node.expressions, item_texts(to, start), strict=False):
        item.meta[TEXT] = text


def _replace(old: Any, new: Any) -> None:
    """Replaces a node in constant time. (The time of sqlglot's `replace` is proportional to the
    number of siblings, and a list may have thousands of parameters.)"""
    parent, key, index = old.parent, old.arg_key, old.index
    if index is None:
        old.replace(new)
        return
    parent.args[key][index] = new
    new.parent, new.arg_key, new.index = parent, key, index


def _restore_quantifier(node: Any) -> None:
    """Replaces a call of ALL, ANY or SOME by its node: without a query in the parentheses, sqlglot
    parses a function call."""
    quantifier = {"ALL": exp.All, "ANY": exp.Any, "SOME": exp.Any}.get(node.name.upper())
    if quantifier is None:
        return
    if len(node.expressions) == 1:
        node.replace(quantifier(this=node.expressions[0]))
    elif node.expressions and isinstance(node.parent, exp.Like | exp.ILike):
        node.replace(quantifier(this=exp.Tuple(expressions=node.expressions)))


def _restore_type(node: Any, types: Sequence[tuple[SqlType, int | str | TypeLimit | None]]) -> None:
    kind = node.args.get("kind")
    if isinstance(kind, str) and kind.startswith(TYPE) and kind[len(TYPE) :].isdecimal():
        sql_type, size = types[int(kind[len(TYPE) :])]
        node.set("kind", str(sql_type))
        node.meta["sql_type"] = sql_type
        if size is not None:
            node.meta["size"] = size


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
Shape = Callable[[Any], Verdict]
"""The check of a node; None if its shape is allowed."""


def _wrong(message: str, hint: str | None = None) -> Complaint:
    return Complaint(True, message, hint)


def _unsupported(what: str, hint: str | None = None) -> Complaint:
    return Complaint(False, f"{what} is not supported", hint)


def _under(*parents: type, wrong: str) -> Shape:
    """Allows a node only directly under one of these classes."""
    complaint = _wrong(wrong)
    return lambda node: None if isinstance(node.parent, parents) else complaint


def _over(argument: str, *classes: type, wrong: str) -> Shape:
    """Allows a node only if its argument is of one of these classes."""
    complaint = _wrong(wrong)
    return lambda node: None if isinstance(node.args.get(argument), classes) else complaint


def _lists(wrong: str, hint: str) -> Shape:
    """Allows a node only if it has expressions."""
    complaint = _wrong(wrong, hint)
    return lambda node: None if node.expressions else complaint


select = _lists("SELECT lists no columns", "write * for all columns")
alias = _under(exp.Select, exp.Star, exp.Pivot, wrong="an alias is not allowed here")
kwarg = _under(exp.Anonymous, exp.Explode, wrong="a named argument is not allowed here")


def struct(node: Any) -> Verdict:
    if all(isinstance(item, exp.PropertyEQ) for item in node.expressions):
        return None
    return _wrong("a field of {…} has a name and a value", "write {name: value}")


def struct_field(node: Any) -> Verdict:
    parent = node.parent
    if isinstance(parent, exp.Struct):
        return None
    if isinstance(parent, exp.Anonymous):
        return None
    if isinstance(parent, exp.Explode):
        return None
    return _unsupported("a named argument with :=", "write name => value")


test = _over(
    "expression",
    *(exp.Null, exp.Boolean, exp.JSON),
    wrong="IS needs NULL, TRUE, FALSE or DISTINCT FROM",
)
table = _over(
    "this",
    exp.Identifier,
    exp.Anonymous,
    exp.Values,
    wrong="a table or a table function was expected",
)
exists = _over("this", exp.Query, exp.Values, wrong="EXISTS needs a query")
escape = _over("this", exp.Like, exp.ILike, exp.SimilarTo, wrong="ESCAPE belongs to LIKE")
filter_of_call = _over(
    "this", exp.Anonymous, exp.WithinGroup, wrong="FILTER belongs to an aggregate function"
)
within_group = _over("this", exp.Anonymous, wrong="WITHIN GROUP belongs to an aggregate function")


def bracket(node: Any) -> Verdict:
    return None if len(node.expressions) == 1 else _wrong("a subscript must be one number")


def group(node: Any) -> Verdict:
    if node.args.get("all") is False:
        return _unsupported("GROUP BY DISTINCT", "list each grouping set once")
    if node.args.get("all"):
        return None
    return None if node.expressions else _wrong("GROUP BY lists no expressions")


def list_of_values(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Group | exp.GroupingSets):
        return None
    return None if node.expressions else _wrong("a list in parentheses must not be empty")


def membership(node: Any) -> Verdict:
    has_values = bool(node.expressions) or any(map(node.args.get, ("query", "field")))
    return None if has_values else _wrong("IN needs at least one value")


def grouping_sets(node: Any) -> Verdict:
    name = {"Rollup": "ROLLUP", "Cube": "CUBE"}.get(type(node).__name__, "GROUPING SETS")
    if not isinstance(node.parent, exp.Group | exp.GroupingSets):
        return _wrong(f"{name} is only allowed in GROUP BY")
    return None if node.expressions else _wrong(f"{name} lists no expressions")


def window(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Select) and node.arg_key == "windows":
        return None
    return None if node.args.get("over") else _wrong("a window is not allowed here")


def frame(units: Collection[str]) -> Shape:
    """Checks the unit and the bounds of a frame."""

    def check(node: Any) -> Verdict:
        if str(node.args.get("kind") or "").upper() not in units:
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

    return check


def nulls_option(node: Any) -> Verdict:
    parent = node.parent
    while isinstance(parent, exp.Anonymous | exp.Filter):
        parent = parent.parent
    return (
        None
        if isinstance(parent, exp.Window)
        else _wrong("IGNORE NULLS and RESPECT NULLS need a window function")
    )


def distinct(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Select):
        return None
    if not node.expressions:
        return _wrong("DISTINCT needs an argument")
    star = any(isinstance(item, exp.Star) for item in node.expressions)
    return _wrong("DISTINCT * is not an argument", "name the columns") if star else None


def star(node: Any) -> Verdict:
    parent = node.parent
    if not all(isinstance(item, exp.Alias) for item in node.args.get("replace") or ()):
        return _wrong(
            "REPLACE lists expressions with the columns' names",
            "write REPLACE (expression AS column)",
        )
    if not all(
        isinstance(item, exp.Alias) and isinstance(item.this, exp.Column)
        for item in node.args.get("rename") or ()
    ):
        return _wrong("RENAME lists columns with new names", "write RENAME (column AS name)")
    if isinstance(parent, exp.Column):
        return (
            None
            if isinstance(parent.parent, exp.Select) or _lists_columns(parent)
            else _unsupported("t.* here", "name the columns")
        )
    if isinstance(parent, exp.Select | exp.Distinct) or _lists_columns(node):
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
        if any(node.args.get(key) for key in ("except_", "replace", "rename")):
            return _wrong(
                "COUNT(*) counts rows, and accepts no list of columns",
                "write COUNT(*), or COUNT(COLUMNS(* EXCLUDE (…))) for a count of each column",
            )
        return None
    return _wrong("* is not allowed here", "* is for SELECT * and COUNT(*)")


def _lists_columns(node: Any) -> bool:
    """Whether a * or t.* is the argument of COLUMNS, or is filtered by LIKE in a select list."""
    parent = node.parent
    if isinstance(parent, exp.Anonymous):
        return parent.name.upper() in ("COLUMNS", "*COLUMNS") and len(parent.expressions) == 1
    if isinstance(parent, exp.In) and isinstance(parent.parent, exp.Pivot):
        return bool(parent.parent.args.get("unpivot"))
    if not isinstance(parent, exp.Like | exp.ILike | exp.SimilarTo) or node.arg_key != "this":
        return False
    above = parent.parent
    if isinstance(above, exp.Not) and isinstance(parent, exp.SimilarTo):
        above = above.parent
    return isinstance(above, exp.Select)


def pivot(node: Any) -> Verdict:
    if not isinstance(node.parent, exp.Table | exp.Subquery):
        return _unsupported("PIVOT here", "put it into a derived table")
    if not node.args.get("fields"):
        return _wrong("PIVOT needs FOR column IN (…)")
    if node.args.get("unpivot") and (len(node.args["fields"]) != 1 or len(node.expressions) != 1):
        return _wrong("UNPIVOT has one FOR", "write UNPIVOT (value FOR name IN (a, b))")
    group = node.args.get("group")
    if group is not None and (not group.expressions or group.args.get("all")):
        return _wrong("GROUP BY of PIVOT lists columns")
    return None


def pivot_alias(node: Any) -> Verdict:
    named = isinstance(node.args.get("alias"), exp.Identifier | exp.Literal)
    return None if named else _wrong("an alias of PIVOT must be a name")


def array(node: Any) -> Verdict:
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


def comprehension(node: Any) -> Verdict:
    parent = node.parent
    if not isinstance(parent, exp.Array) or len(parent.expressions) != 1:
        return _wrong(
            "a list comprehension stands alone in its brackets", "write [x + 1 FOR x IN list]"
        )
    if isinstance(node.expression, exp.Identifier):
        return None
    return _wrong("FOR of a list comprehension needs a name", "write [x + 1 FOR x IN list]")


def explode(node: Any) -> Verdict:
    if isinstance(node.parent, exp.Window | exp.Filter | exp.WithinGroup):
        return _wrong("UNNEST is not an aggregate or window function")
    return None


def join(node: Any) -> Verdict:
    kind, side = str(node.args.get("kind") or ""), str(node.args.get("side") or "")
    is_half = kind in ("SEMI", "ANTI")
    sides = ("", "LEFT") if is_half else ("", "LEFT", "RIGHT", "FULL")
    if kind not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI") or side not in sides:
        return _unsupported(
            f"{side} {kind} JOIN".strip(), "exchange the tables" if is_half else None
        )
    method = str(node.args.get("method") or "")
    if method not in ("", "NATURAL", "ASOF", "POSITIONAL") or (method == "ASOF" and is_half):
        return _unsupported(f"{method} {kind} JOIN".replace("  ", " "))
    condition = node.args.get("on") is not None or bool(node.args.get("using"))
    if method == "POSITIONAL":
        if not condition and not side and not kind:
            return None
        return _wrong("POSITIONAL JOIN has neither a condition nor a side", "use JOIN … ON")
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
        and (not isinstance(node.this, exp.UDTF) or isinstance(node.this, exp.Values | exp.Lateral))
    ):
        return _wrong("this JOIN needs ON or USING", "or write CROSS JOIN")
    return None


def set_operation(node: Any) -> Verdict:
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


def interval(node: Any) -> Verdict:
    if not isinstance(node.this, exp.Literal) and not isinstance(node.args.get("unit"), exp.Var):
        return _unsupported("INTERVAL of an expression", "write one unit: INTERVAL (x) DAY")
    if node.args.get("unit") is None:
        return _unsupported(
            "INTERVAL without a unit", "write INTERVAL '1' DAY or INTERVAL '1:30' HOUR TO MINUTE"
        )
    return None


def limit(node: Any) -> Verdict:
    return (
        _unsupported("LIMIT within a function") if isinstance(node.parent, exp.Anonymous) else None
    )


def order(node: Any) -> Verdict:
    if node.args.get("this") is None or isinstance(node.parent, exp.Anonymous):
        return None
    return _wrong("ORDER BY is not allowed here")


def data_type(node: Any) -> Verdict:
    # sqlglot parses DATE 5 as a typed literal. The types that can precede a literal were parsed
    # from the tokens before, and carry "sql_type".
    return (
        None
        if "sql_type" in node.meta
        else _wrong("a type is not allowed here", "write CAST(… AS type)")
    )


LAMBDA_FUNCTIONS = {
    **dict.fromkeys(
        ("LIST_TRANSFORM", "LIST_APPLY", "ARRAY_TRANSFORM", "ARRAY_APPLY", "APPLY"),
        "list_transform",
    ),
    **dict.fromkeys(("LIST_FILTER", "ARRAY_FILTER", "FILTER"), "list_filter"),
    **dict.fromkeys(("LIST_REDUCE", "ARRAY_REDUCE", "REDUCE"), "list_reduce"),
}
"""The functions with a lambda function as their second argument: the key of each name."""


def lambda_function(node: Any) -> Verdict:
    """A lambda function is the argument of COLUMNS, with one parameter, or the second argument of
    one of `LAMBDA_FUNCTIONS`."""
    call = node.parent
    name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
    if name in ("COLUMNS", "*COLUMNS"):
        if len(node.expressions) == 1:
            return None
        return Complaint(
            True, "the function in COLUMNS has one parameter", "write lambda c: c LIKE 'a%'"
        )
    key = LAMBDA_FUNCTIONS.get(name)
    if key is None:
        return Complaint(
            False,
            "a lambda function is not supported here",
            "LIST_TRANSFORM, LIST_FILTER and LIST_REDUCE accept one as their second argument",
        )
    if len(call.expressions) < 2 or call.expressions[1] is not node:
        return Complaint(
            True, f"the lambda function is not the second argument of {name}", _EXAMPLES[key]
        )
    least = 2 if key == "list_reduce" else 1
    if len(node.expressions) not in (least, least + 1):
        return Complaint(
            True,
            f"the lambda function of {name} needs {least} or {least + 1} parameters, "
            f"not {len(node.expressions)}",
            _EXAMPLES[key],
        )
    return None


_EXAMPLES = {
    "list_transform": "write LIST_TRANSFORM(list, x -> x + 1), or (x, i) -> … with the position",
    "list_filter": "write LIST_FILTER(list, x -> x > 1), or (x, i) -> … with the position",
    "list_reduce": "write LIST_REDUCE(list, (result, x) -> result + x)",
}
