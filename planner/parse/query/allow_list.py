"""The allow-list: one pass over sqlglot's tree, which refuses every node and argument that
`clauses.CLAUSES` does not list.

Therefore a clause that the binder does not read (for example one that only a new sqlglot release
parses) is an error, and never ignored. The functions at the end of the module read nodes of a tree
that has passed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Sequence
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.tokenizer_core import Token

from runnel.errors import Error, NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.query.clauses import Grammar
from runnel.planner.parse.query.shapes import CHAINS
from runnel.planner.parse.query.token_pass import MAX_DEPTH, TYPE, too_deep
from runnel.planner.parse.tokens import position_at, word_of
from runnel.planner.parse.types import sql_type_of

_REFUSED = (
    (
        "Pivot Select.pivots Values.pivots Unnest.pivots",
        "PIVOT here",
        "put it into a derived table",
    ),
    ("Pivot.default_on_null", "DEFAULT ON NULL", "use COALESCE over the columns"),
    ("PivotAny", "IN (ANY)", "leave IN out: PIVOT t ON column …"),
    ("National", "N before a string", "leave it out: every string is Unicode"),
    ("BitwiseXor", "operator XOR", None),
    ("RegexpFullMatch", "operator ~", None),
    (
        "Collate",
        "COLLATE",
        "leave it out: texts are compared by code point; use LOWER to ignore case",
    ),
    ("Values.sample Unnest.sample Lateral.sample", "TABLESAMPLE", "put it into a derived table"),
    ("HexString", "a hexadecimal string", None),
    ("BitString", "a bit string", None),
    ("Hint Select.hint", "a hint", None),
    ("Into Select.into", "SELECT INTO", "use INSERT INTO … SELECT …"),
    ("Lock Select.locks", "FOR UPDATE", "leave it out: rows are not locked"),
    ("Select.shared-locks", "FOR SHARE", "leave it out: rows are not locked"),
    ("Aliases", "a list of aliases", None),
    ("Unicode", "a Unicode string", None),
    ("Concat", "a string literal in several segments", "use ||"),
    ("ColumnDef", "a column list with types", None),
    ("HavingMax", "HAVING within a function", None),
    ("PositionalColumn", "a column by #", None),
    ("Insert", "INSERT within a query", None),
    ("ParseJSON", "JSON before a literal", "use CAST('…' AS JSON)"),
    ("Placeholder", "a named parameter", None),
    ("Select.laterals", "LATERAL", None),
    ("Select.connect", "CONNECT BY", None),
    ("Select.kind", "SELECT AS", None),
    ("Select.cluster", "CLUSTER BY", None),
    ("Select.distribute", "DISTRIBUTE BY", None),
    ("Select.sort", "SORT BY", None),
    ("Select.match", "MATCH_RECOGNIZE", None),
    ("Group.rollup", "WITH ROLLUP", "write ROLLUP (…)"),
    ("Group.cube", "WITH CUBE", "write CUBE (…)"),
    ("Window.first", "KEEP", None),
    ("Group.totals", "WITH TOTALS", None),
    ("Intersect.by_name Except.by_name", "BY NAME", "list the columns in the same order"),
    ("Union.kind Union.side Union.on", "CORRESPONDING", "use UNION BY NAME"),
    ("LimitOptions.with_ties", "FETCH WITH TIES", None),
    ("In.unnest", "IN UNNEST", None),
    ("Table.only", "ONLY", None),
    ("Table.rows_from", "ROWS FROM", None),
    ("Table.hints", "a table hint", None),
    ("Limit.expressions", "LIMIT … BY", None),
    ("Join.hint", "a join hint", None),
    ("Join.match_condition", "ASOF JOIN", None),
)
"""Node classes and arguments that are not listed: their names in SQL, and what to write instead.
A node or argument without an entry is reported by the name of its class."""

_NAMES = {key: (name, hint) for keys, name, hint in _REFUSED for key in keys.split()}
_CLAUSES_OF_VARIABLES = {"Ordered": "ORDER BY ", "Limit": "LIMIT "}


def check(
    tree: Any, sql: str, tokens: Sequence[Token], written: Sequence[Token], grammar: Grammar
) -> None:
    """Raises an error, in the words of SQL and with a position, for

    - a node or an argument that is not on the list, or a shape that its clause refuses;
    - a token that has no node in the tree;
    - a tree that is too deep, where a chain of AND, of OR, of || or of set operations counts as one
      level.

    tokens: of the text.
    written: the tokens that sqlglot parsed.
    """
    starts: set[int | None] = set()
    deepest = 1
    queue = deque([(tree, 1)])
    while queue:
        node, depth = queue.popleft()
        deepest = max(deepest, depth)
        error = _error(node, sql, grammar)
        if error is not None:
            error.position = _clause_position(error.message, tokens, sql, error.position)
            raise error
        starts.add(node.meta_get("start"))
        chain = type(node) if isinstance(node, CHAINS) else None
        for child in node.iter_expressions():
            queue.append((child, depth if type(child) is chain else depth + 1))
    _check_nothing_lost(written, starts, sql, grammar.dropped)
    if deepest > MAX_DEPTH:
        raise too_deep(position_of(tree, sql))


def _error(node: Any, sql: str, grammar: Grammar) -> Error | None:
    """The error of one node; None if it is allowed."""
    name = type(node).__name__
    allowed = grammar.allowed.get(name)
    if allowed is None:
        what = str(node.sql_name()) if isinstance(node, exp.Func) else name.upper()
        return _refused(name, what, _position_of(node, sql))
    for key, value in node.args.items():
        if value and key not in allowed:
            first = value[0] if isinstance(value, list) else value
            at = position_of(first, sql) if isinstance(first, exp.Expr) else None
            what = f"{key.strip('_').upper()} in {name.upper()}"
            is_shared = key == "locks" and not first.args.get("update")
            known = f"{name}.shared-locks" if is_shared else f"{name}.{key}"
            return _refused(known, what, at or _position_of(node, sql))
    if name == "Var":
        return _variable_error(node, sql, grammar)
    shape = grammar.shapes.get(name)
    complaint = None if shape is None else shape(node)
    if complaint is None:
        return None
    kind = ProgrammingError if complaint.is_wrong else NotSupportedError
    return kind(complaint.message, hint=complaint.hint, position=_position_of(node, sql))


def _refused(key: str, what: str, position: Position | None) -> NotSupportedError:
    name, hint = _NAMES.get(key, (what, None))
    return NotSupportedError(f"{name} is not supported", hint=hint, position=position)


def _variable_error(node: Any, sql: str, grammar: Grammar) -> Error | None:
    parent, word = type(node.parent).__name__, node.name.upper()
    words = grammar.variables.get(parent, ())
    if words is None or word in words or (word == "DEFAULT" and parent == "Tuple"):
        return None
    clause = _CLAUSES_OF_VARIABLES.get(parent, "")
    return NotSupportedError(f"{clause}{word} is not supported", position=_position_of(node, sql))


_CLAUSE = re.compile(r"([A-Z ]+) (is not supported|lists )")


def _clause_position(
    message: str, tokens: Sequence[Token], sql: str, near: Position | None
) -> Position | None:
    """The position of the keywords that a message names ("FOR UPDATE is not supported"): of several
    occurrences, the one nearest to `near`. Without an occurrence, the result is `near`. The tokens
    are searched because sqlglot's nodes have no positions of keywords."""
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


_NAMED = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER}


_AFTER_NAMES = {TokenType.FARROW, TokenType.COLON, TokenType.COLON_EQ}
"""The tokens after the name of an argument or a field, whose position sqlglot drops."""


def _check_nothing_lost(
    tokens: Sequence[Token], starts: set[int | None], sql: str, dropped: Container[str]
) -> None:
    """Raises ProgrammingError for a name, a number or a string at which no node begins: sqlglot
    skips some.

    A keyword that no node of the tree retains belongs in `clauses.CLAUSES`, under `dropped`.
    Otherwise a query with this clause fails with a "syntax error" at the keyword.
    """
    for index, token in enumerate(tokens):
        if token.token_type not in _NAMED or token.start in starts or word_of(token) in dropped:
            continue
        # sqlglot drops the position of `.5`, and splits the text of INTERVAL '1 day'.
        if token.text.startswith(TYPE) or (
            index > 0 and word_of(tokens[index - 1]) in ("INTERVAL", ".")
        ):
            continue
        following = tokens[index + 1].token_type if index + 1 < len(tokens) else None
        if following in _AFTER_NAMES:
            continue
        raise ProgrammingError(
            f'syntax error at "{sql[token.start : token.end + 1]}"',
            position=position_at(token, sql),
        )


def position_of(node: Any, sql: str) -> Position | None:
    """The range of the text from a node's first to its last descendant with a position; None if no
    descendant has a position (NULL and TRUE have none)."""
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

    TRIM([LEADING | TRAILING | BOTH] [c FROM] s) is LTRIM, RTRIM or BTRIM with (s) or (s, c). An
    argument may be an exp.Star, exp.Distinct or exp.Kwarg: see `shapes.py`.
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
    "check",
    "function_call",
    "position_of",
    "sql_type_of",
    "unwrapped",
]
