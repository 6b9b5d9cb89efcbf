"""Queries and scalar expressions: from tokens to the sqlglot trees that the binder reads.

`allow_list` has every node class and argument that can occur. Shapes that are not obvious:

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
- `exp.Ordered` has `desc` and `nulls_first`; if the text says nothing about NULLs, `nulls_first`
  has Runnel's default (NULL is the smallest value).
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

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token

from runnel.base.frozen import frozen
from runnel.errors import Error, NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.query import allow_list as supported
from runnel.planner.parse.query.clauses import DROPPED, RULES
from runnel.planner.parse.query.token_pass import (
    MARK,
    MAX_DEPTH,
    TYPE,
    EmissionTokens,
    TokenPass,
    too_deep,
)
from runnel.planner.parse.syntax import EmissionClauses
from runnel.planner.parse.tokens import DIALECT, position_at, word_of
from runnel.sqltypes import SqlType


@frozen
class ParsedQuery:
    """A query as the token pass and sqlglot's parser read it.

    tree: exp.Select, SetOperation, Values or Subquery.
    unbounded_state: whether its OPTIONS allow unbounded state.
    """

    tree: Any
    emission: EmissionClauses | None
    unbounded_state: bool


def parse_query(tokens: Sequence[Token], sql: str, parameters: Mapping[int, int]) -> ParsedQuery:
    """Parses a query. All errors have a position."""
    to = TokenPass(tokens, sql, parameters, is_query=True)
    tree = _parse(to, None)
    if not isinstance(tree, exp.Query | exp.Values):
        raise ProgrammingError("a query was expected", position=position_at(tokens[0], sql))
    emission = None if to.emission is None else _emission(to.emission, to)
    return ParsedQuery(tree, emission, to.unbounded_state)


def _emission(clauses: EmissionTokens, to: TokenPass) -> EmissionClauses:
    every, lateness = (
        found and parse_expression(found[0], to.sql, to.parameters, found[1])
        for found in (clauses.every, clauses.lateness)
    )
    return EmissionClauses(every, lateness, clauses.late_table, clauses.position)


def parse_expression(
    tokens: Sequence[Token], sql: str, parameters: Mapping[int, int], end: Position
) -> Any:
    """Parses a scalar expression; `end` is the position of the error if there are no tokens."""
    if not tokens:
        raise ProgrammingError("an expression is missing", position=end)
    return _parse(TokenPass(tokens, sql, parameters, is_query=False), exp.Condition)


def _parse(to: TokenPass, into: Any) -> Any:
    tokens, sql = to.tokens, to.sql
    rewritten = to.run(RULES)
    parser = DIALECT.parser()
    try:
        trees = (
            parser.parse(rewritten, sql)
            if into is None
            else parser.parse_into(into, rewritten, sql)
        )
    except SqlglotError as error:
        raise _syntax_error(error, tokens, sql) from None
    except RecursionError:
        raise too_deep(Position.at(sql, tokens[0].start)) from None
    except (TypeError, ValueError, AttributeError, IndexError, KeyError) as error:
        # sqlglot's compiled build raises these for some malformed texts.
        raise ProgrammingError(
            "syntax error", detail=str(error), position=position_at(tokens[0], sql)
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise ProgrammingError("syntax error", position=position_at(tokens[0], sql))
    tree = _finish_tree(trees[0], to.types, to.parameters)
    try:
        supported.check(tree, sql)
    except (NotSupportedError, ProgrammingError) as error:
        error.position = _clause_position(error.message, tokens, sql, error.position)
        raise
    check_nothing_lost(rewritten, tree, sql)
    if supported.depth_of(tree) > MAX_DEPTH:
        raise too_deep(supported.position_of(tree, sql))
    return tree


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _finish_tree(tree: Any, types: Sequence[SqlType], parameters: Mapping[int, int]) -> Any:
    """Turns sqlglot's tree into the one that the binder reads.

    Parameters become exp.Parameter, types are filled in, marks are removed from names, the column
    names of UNNEST … WITH ORDINALITY are collected, and VALUES after IN becomes a query.
    """
    offsets = {number: offset for offset, number in parameters.items()}
    for node in list(tree.walk()):
        if isinstance(node, exp.Identifier):
            if node.this.startswith(MARK):
                node.set("this", node.this[len(MARK) :])
        elif isinstance(node, exp.Anonymous):
            node.set("this", node.name.removeprefix(MARK))
            if node.arg_key == "expression" and isinstance(node.parent, _COMPARISONS):
                _restore_quantifier(node)
        elif isinstance(node, exp.Placeholder):
            parameter = exp.Parameter(this=exp.Literal.number(node.name))
            parameter.meta["start"] = parameter.meta["end"] = offsets[int(node.name)]
            if node is tree:
                return parameter
            _replace(node, parameter)
        elif isinstance(node, exp.DataType):
            _restore_type(node, types)
        elif (
            isinstance(node, exp.In)
            and len(node.expressions) == 1
            and isinstance(node.expressions[0], exp.Values)
        ):
            node.set("query", exp.Subquery(this=node.expressions[0]))
            node.set("expressions", None)
        elif isinstance(node, exp.Unnest) and isinstance(node.args.get("offset"), exp.Identifier):
            holder = node.parent if isinstance(node.parent, exp.Lateral) else node
            holder.args["alias"].append("columns", node.args["offset"])
            node.set("offset", True)
    return tree


def _replace(old: Any, new: Any) -> None:
    """As sqlglot's `replace`, whose time is proportional to the number of siblings: a list may
    have thousands of parameters."""
    parent, key, index = old.parent, old.arg_key, old.index
    if index is None:
        old.replace(new)
        return
    parent.args[key][index] = new
    new.parent, new.arg_key, new.index = parent, key, index


def _restore_quantifier(node: Any) -> None:
    """Replaces a call of ALL, ANY or SOME: sqlglot parses them as functions if no query follows."""
    quantifier = {"ALL": exp.All, "ANY": exp.Any, "SOME": exp.Any}.get(node.name.upper())
    if quantifier is not None and len(node.expressions) == 1:
        node.replace(quantifier(this=node.expressions[0]))


def _restore_type(node: Any, types: Sequence[SqlType]) -> None:
    kind = node.args.get("kind")
    if isinstance(kind, str) and kind.startswith(TYPE) and kind[len(TYPE) :].isdecimal():
        sql_type = types[int(kind[len(TYPE) :])]
        node.set("kind", str(sql_type))
        node.meta["sql_type"] = sql_type


_CLAUSE = re.compile(r"([A-Z ]+) (is not supported|lists )")


def _clause_position(
    message: str, tokens: Sequence[Token], sql: str, near: Position | None
) -> Position | None:
    """The position of the keywords that a message names ("FOR UPDATE is not supported"), else
    `near`: the nodes of a tree have no positions of keywords. Of several matches, the nearest to
    `near`."""
    match = _CLAUSE.match(message)
    if match is None or near is None:
        return near
    # Some tokens have two words.
    words = [(word, token) for token in tokens for word in word_of(token).split() or [""]]
    keywords = match[1].split()
    found = [
        Position.at(
            sql, words[at][1].start, words[at + len(keywords) - 1][1].end + 1 - words[at][1].start
        )
        for at in range(len(words) - len(keywords) + 1)
        if [word for word, _ in words[at : at + len(keywords)]] == keywords
    ]
    return min(found, key=lambda match: _distance(match.offset, near), default=near)


def _distance(offset: int, near: Position) -> int:
    """The distance of an offset from a range of the text; 0 inside it."""
    return max(near.offset - offset, offset - (near.offset + near.length), 0)


_EXPECTING = re.compile(r"^(?:Expecting|Expected) (.+?)(?: but got .*)?$")


def _syntax_error(error: SqlglotError, tokens: Sequence[Token], sql: str) -> Error:
    """A sqlglot error in Runnel's words, at the token that sqlglot blames."""
    details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    description = str(details.get("description") or str(error).partition("\n")[0])
    blamed = _blamed_token(details, tokens)
    if description.endswith("does not support CTE"):
        return NotSupportedError(
            "WITH is not supported here",
            hint="write SELECT * FROM (VALUES …)",
            position=position_at(blamed or tokens[0], sql),
        )
    expected = _EXPECTING.match(description)
    detail: str | None
    if description.startswith("Required keyword"):
        detail = "an expression or a name is missing"
        blamed = None if blamed is None else _next_token(blamed, tokens)
    elif expected:
        detail = f"expected {expected.group(1).rstrip('.')}"
        blamed = None if blamed is None else _next_token(blamed, tokens)
    elif description.startswith("Invalid expression"):
        detail = None
    else:
        detail = description
    if blamed is None:
        return ProgrammingError(
            "the statement ends too early",
            detail=detail,
            position=Position.at(sql, tokens[-1].end + 1),
        )
    text = sql[blamed.start : blamed.end + 1]
    return ProgrammingError(
        f'syntax error at "{text}"', detail=detail, position=position_at(blamed, sql)
    )


def _blamed_token(details: Mapping[str, Any], tokens: Sequence[Token]) -> Token | None:
    for token in tokens:
        if token.line == details.get("line") and token.col == details.get("col"):
            return token
    return tokens[0] if not details else None


def _next_token(token: Token, tokens: Sequence[Token]) -> Token | None:
    """The token after the last one that sqlglot accepted."""
    index = tokens.index(token) + 1
    return tokens[index] if index < len(tokens) else None


_NAMED = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER}


def check_nothing_lost(tokens: Sequence[Token], tree: Any, sql: str) -> None:
    """Raises ProgrammingError unless every name, number and string of the rewritten tokens is in
    the tree: sqlglot skips some.

    A keyword of a clause that no node of the tree retains belongs in `clauses.CLAUSES`, under
    `dropped`. Otherwise the clause is a "syntax error" at that word.
    """
    known = {node.meta_get("start") for node in tree.walk()}
    for index, token in enumerate(tokens):
        if token.token_type not in _NAMED or token.start in known or word_of(token) in DROPPED:
            continue
        # sqlglot drops the position of `.5`, and splits the text of INTERVAL '1 day'.
        if token.text.startswith(TYPE) or (
            index > 0 and word_of(tokens[index - 1]) in ("INTERVAL", ".")
        ):
            continue
        if index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.FARROW:
            continue
        raise ProgrammingError(
            f'syntax error at "{sql[token.start : token.end + 1]}"',
            position=position_at(token, sql),
        )
