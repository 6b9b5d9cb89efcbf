"""Rules of two kinds: some write expressions, joins and ROLLUP so that sqlglot parses them as the
user meant them, others refuse texts that sqlglot accepts or misreads.

Each function is a `token_pass.Rule`; `clauses.CLAUSES` lists the words for which it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError, ProgrammingError
from runnel.planner.parse.query.json_clauses import PAIRS
from runnel.planner.parse.query.shapes import LAMBDA_FUNCTIONS
from runnel.planner.parse.query.token_pass import MARK, TokenPass, is_first_item, opening_of
from runnel.planner.parse.tokens import is_word, like, position_at

_JOIN_WORDS = tuple("INNER OUTER LEFT RIGHT FULL CROSS NATURAL SEMI ANTI ASOF POSITIONAL".split())


def whole_query(to: TokenPass, token: Token) -> bool:
    """`TABLE t` as a query becomes SELECT * FROM t."""
    if to.index or not to.is_query or to.peek(1) == "(":
        return False
    to.put(token, TokenType.SELECT, "SELECT")
    to.put(token, TokenType.STAR, "*")
    to.put(to.next(), TokenType.FROM, "FROM")
    return True


def select(to: TokenPass, token: Token) -> bool:
    """Writes SELECT with its index among the tokens as a comment, which sqlglot copies to the node:
    `shapes.finish` reads it there."""
    if token.token_type is not TokenType.SELECT:
        return False
    comments = [*token.comments, f"{MARK}{to.index}"]
    to.output.append(
        Token(token.token_type, token.text, token.line, token.col, token.start, token.end, comments)
    )
    to.index += 1
    return True


def plain_join(to: TokenPass, token: Token) -> bool:
    """JOIN without a word before it becomes INNER JOIN, so that the tree distinguishes it from a
    comma."""
    if to.previous() in _JOIN_WORDS or (to.peek(1) == "(" and not _follows_table(to)):
        return False
    to.put(token, TokenType.INNER, "INNER")
    to.copy()
    return True


_BEFORE_OPERANDS = frozenset(
    "SELECT DISTINCT ALL WHERE AND OR NOT ON BY HAVING QUALIFY CASE WHEN THEN ELSE IN LIKE ILIKE "
    "BETWEEN IS SET RETURNING VALUES LIMIT OFFSET AS FROM".split()
) | {"GROUP BY", "ORDER BY", "PARTITION BY"}


def _follows_table(to: TokenPass) -> bool:
    """Whether the JOIN before a parenthesis comes after a table, and is not the name of a
    function."""
    before = to.tokens[to.index - 1] if to.index else None
    if before is None:
        return False
    kind = before.token_type
    return kind in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.R_PAREN) or (
        is_word(before) and to.previous() not in _BEFORE_OPERANDS
    )


def direction(to: TokenPass, token: Token) -> bool:
    """Refuses ASC DESC: sqlglot would skip the first word."""
    if to.peek(1) not in ("ASC", "DESC"):
        return False
    following = to.tokens[to.index + 1]
    raise ProgrammingError(
        f'syntax error at "{to.sql[following.start : following.end + 1]}"',
        detail="expected one of ASC and DESC",
        position=position_at(following, to.sql),
    )


def parameter(to: TokenPass, token: Token) -> bool:
    """A parameter becomes $n, where n is its offset: `finish` replaces it by its index."""
    to.put(token, TokenType.PARAMETER, "$")
    to.put(to.next(), TokenType.NUMBER, str(token.start))
    return True


def cast_type(to: TokenPass, token: Token) -> bool:
    """The type after `::`, or after the AS of a CAST, becomes a word with the type's number:
    sqlglot would drop everything after the type's name."""
    to.copy()
    to.type_word()
    return True


def typed_literal(to: TokenPass, token: Token) -> bool:
    """DATE '…' becomes a CAST of the string: in sqlglot a following `::` would bind more
    tightly."""
    is_zoned = to.peek(1) in ("WITH", "WITHOUT") and (to.peek(2), to.peek(3)) == ("TIME", "ZONE")
    at = to.index + (4 if is_zoned else 1)
    if at >= len(to.tokens) or to.tokens[at].token_type is not TokenType.STRING:
        return False
    to.cast()
    return True


def whole_interval(to: TokenPass, token: Token) -> bool:
    """In INTERVAL '1 day 2 hours', a mark is written before every character of the string.
    Otherwise sqlglot would read only the first number and unit."""
    if to.previous() != "INTERVAL":
        return False
    from runnel.planner.bind.scalars.intervals import has_units

    if not has_units(token.text, to.peek(1)):
        return False
    to.put(token, TokenType.STRING, MARK.join(["", *token.text]))
    to.put(to.next(), TokenType.VAR, "SECOND")
    return True


def opening(to: TokenPass, token: Token) -> bool:
    """`TABLE(f(…))` becomes `f(…)`; the field of EXTRACT and the unit of TIMESTAMPADD become
    strings."""
    before = to.previous()
    if (to.previous(2), before) == (")", ",") and to.closed == "VALUES":
        before = "VALUES"  # of the next row
    to.index += 1
    if before == "TABLE" and to.peek(1) == "(" and to.peek() not in ("SELECT", "WITH", "FROM"):
        to.output.pop()
        to.enter("TABLE")
        return True
    to.enter(before)
    to.output.append(token)
    if (before == "EXTRACT" and to.peek(1) == "FROM") or (
        before in ("TIMESTAMPADD", "TIMESTAMPDIFF") and to.peek(1) == ","
    ):
        field = to.next()
        to.put(field, TokenType.STRING, field.text)
    return True


def unit_of_rounding(to: TokenPass, token: Token) -> bool:
    """`FLOOR(x TO HOUR)` becomes `FLOOR(x, 'HOUR')`."""
    if to.peek(2) != ")":
        return False
    to.put(to.next(), TokenType.COMMA, ",")
    unit = to.next()
    to.put(unit, TokenType.STRING, unit.text)
    return True


def closing(to: TokenPass, token: Token) -> bool:
    is_table = bool(to.open) and to.leave() == "TABLE"
    to.index += 1
    if not is_table:
        to.output.append(token)
    return True


def opening_bracket(to: TokenPass, token: Token) -> bool:
    """`MAP[k, v]` becomes a call of "MAP[". The bracket of a subscript or an array is unchanged."""
    is_map = to.previous() == "MAP"
    if is_map:
        to.output[-1] = like(to.output[-1], TokenType.VAR, MARK + "MAP[")
    to.enter("MAP[" if is_map else "[")
    to.output.append(like(token, TokenType.L_PAREN, "(") if is_map else token)
    to.index += 1
    if to.peek() == ":":
        # sqlglot would read `[:n` as a parameter called n.
        to.put(token, TokenType.NUMBER, "1")
    return True


def closing_bracket(to: TokenPass, token: Token) -> bool:
    is_map = to.inside in BRACKETS and to.leave() == "MAP["
    to.output.append(like(token, TokenType.R_PAREN, ")") if is_map else token)
    to.index += 1
    return True


def opening_brace(to: TokenPass, token: Token) -> bool:
    """Begins `{'a': 1}`. `MAP {'a': 1}` gets parentheses: in `MAP {'a': 1}['a']` sqlglot would take
    the subscript of the braces."""
    is_map = to.previous() == "MAP"
    if is_map:
        to.output.insert(-1, like(token, TokenType.L_PAREN, "("))
    to.enter("MAP{" if is_map else "{")
    to.copy()
    return True


def field_name(to: TokenPass, token: Token) -> bool:
    """The name of a field that is written as a string becomes a quoted name."""
    if to.previous() not in ("{", ",") or to.peek(1) != ":":
        return False
    to.put(to.next(), TokenType.IDENTIFIER, token.text)
    return True


def closing_brace(to: TokenPass, token: Token) -> bool:
    is_map = to.inside in BRACES and to.leave() == "MAP{"
    to.copy()
    if is_map:
        to.put(token, TokenType.R_PAREN, ")")
    return True


BRACKETS = frozenset({"[", "MAP["})
"""The words of `TokenPass.open` for brackets."""

BRACES = frozenset({"{", "MAP{"})
"""The words of `TokenPass.open` for braces."""


def separator(to: TokenPass, token: Token) -> bool:
    """The keywords within EXTRACT, SUBSTRING, POSITION and OVERLAY become commas."""
    word = to.peek()
    if word == "FROM" and to.previous() == "DISTINCT":
        return False
    if word == "FOR" and to.inside == "SUBSTRING" and not _has_start(to.tokens, to.words, to.index):
        # SUBSTRING(s FOR n) starts at 1.
        to.put(token, TokenType.COMMA, ",")
        to.put(token, TokenType.NUMBER, "1")
    to.put(to.next(), TokenType.COMMA, ",")
    return True


def _has_start(tokens: Sequence[Token], words: Sequence[str], index: int) -> bool:
    """Whether the SUBSTRING around the token at `index` already had its FROM or comma."""
    start = opening_of(tokens, index)
    depth = 0
    for at in range(start + 1, index):
        depth += (words[at] == "(") - (words[at] == ")")
        if depth == 0 and words[at] in ("FROM", ","):
            return True
    return False


def hexadecimal(to: TokenPass, token: Token) -> bool:
    """`X'ff'` becomes a call of "X'"."""
    following = to.tokens[to.index + 1] if to.index + 1 < len(to.tokens) else None
    if (
        following is None
        or following.token_type is not TokenType.STRING
        or following.start != token.end + 1
    ):
        return False
    to.index += 1
    to.put(token, TokenType.VAR, MARK + "X'")
    to.put(token, TokenType.L_PAREN, "(")
    to.copy()
    to.put(token, TokenType.R_PAREN, ")")
    return True


_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def escaped_string(to: TokenPass, token: Token) -> bool:
    """`E'a\\n'` becomes the string that it denotes. The rule reads the text, because the tokenizer
    has already replaced some escapes in the token."""
    body = to.sql[token.start : token.end + 1].strip()[2:-1].replace("''", "'")
    try:
        text = _ESCAPE.sub(_escaped, body)
    except (ValueError, OverflowError):
        raise ProgrammingError(
            "an escape sequence in a string is not a valid character",
            position=position_at(token, to.sql),
        ) from None
    to.put(to.next(), TokenType.STRING, text)
    return True


def _escaped(match: re.Match[str]) -> str:
    short, long, digits, octal, letter = match.groups()
    if letter is not None:
        return _ESCAPES.get(letter, letter)
    character = chr(int(octal, 8) if octal else int(short or long or digits, 16))
    character.encode()
    return character


_BEFORE_ROW = frozenset(
    "SELECT DISTINCT WHERE AND OR NOT HAVING WHEN THEN ELSE = < > <= >= <> != || ( , [ : "
    "+ - * / % ^ ** // & | BY BETWEEN LIKE ILIKE".split()
)  # `(x,)` after them is a row
_STAR_WORDS = ("EXCLUDE", "EXCEPT", "REPLACE", "RENAME")
_BEFORE_STAR = ("SELECT", "DISTINCT", "ALL", ",", ".")


def star_list(to: TokenPass, token: Token) -> bool:
    """Writes EXCLUDE, REPLACE and RENAME without a mark after the * of a select list, where they
    are no functions. Refuses them without a list: sqlglot would skip the word."""
    if to.previous() == "*" and (
        to.index + 1 == len(to.tokens) or to.peek(1) in (")", ",", *_CLAUSES)
    ):
        raise to.syntax_error(token, f"list columns: * {to.peek()} (…)")
    if not _follows_star(to.tokens, to.words, to.index):
        return False
    to.copy()
    return True


def unpacked_columns(to: TokenPass, token: Token) -> bool:
    """`f(*COLUMNS(…))` becomes `f("*COLUMNS"(…))`, a call with another name."""
    if (
        (to.peek(1), to.peek(2)) != ("COLUMNS", "(")
        or to.previous() not in ("(", ",")
        or to.inside in BRACKETS
    ):
        return False
    to.index += 1
    to.put(to.next(), TokenType.VAR, MARK + "*COLUMNS")
    return True


def comma_at_the_end(to: TokenPass, token: Token) -> bool:
    """Leaves out the comma after the last item, as DuckDB does; refuses `,x` and the row `(x,)`."""
    following = to.peek(1)
    has_item = to.previous() not in ("SELECT", "DISTINCT", "(", "[", "{")
    if not has_item or following == ",":
        to.index += has_item
        raise to.error("an expression")
    if to.index + 1 < len(to.tokens) and following not in ("FROM", ")", "]", "}"):
        return False
    is_row = following == ")" and to.inside in _BEFORE_ROW and to.open[-2:-1] != ["GROUPING SETS"]
    if is_row and is_first_item(to.words, to.index):
        raise NotSupportedError(
            "a row of one value is not supported",
            hint="write ROW(x), or x without the comma",
            position=position_at(token, to.sql),
        )
    to.index += 1
    return True


_NO_OPERAND = ("SELECT", "DISTINCT", "ALL", ",", "(", "BY", "WHERE", "HAVING", "ON", "QUALIFY")


def missing_before_as(to: TokenPass, token: Token) -> bool:
    """Refuses AS without an expression before it: sqlglot would skip the word."""
    if to.previous() in _NO_OPERAND and to.previous(2) != ".":
        raise to.syntax_error(token)
    return False


def end_of_limit(to: TokenPass, token: Token) -> bool:
    """Refuses ROWS and ONLY after a LIMIT: sqlglot would skip them. FETCH ends with ROWS ONLY."""
    if to.peek() != "ONLY" and to.previous(2) != "LIMIT":
        return False
    for at in range(to.index - 1, -1, -1):
        if to.words[at] == "LIMIT":
            raise to.syntax_error(token, "write LIMIT n, or FETCH FIRST n ROWS ONLY")
        if to.words[at] in ("FETCH", "SELECT", "FROM"):
            break
    return False


def _follows_star(tokens: Sequence[Token], words: Sequence[str], index: int) -> bool:
    """Whether the word at `index` belongs to the * of a select list, and not to a product or to the
    expressions of DISTINCT ON (…)."""
    index -= 1
    if index < 1:
        return False
    if words[index] == "*":
        if words[index - 1] == "(":
            return words[index - 2] == "COLUMNS"
        return words[index - 1] in _BEFORE_STAR or _closes_distinct_on(tokens, words, index - 1)
    if words[index] == ")":
        index = opening_of(tokens, index)
    elif tokens[index].token_type is not TokenType.IDENTIFIER and not is_word(tokens[index]):
        return False
    # The token or list before `index` belongs to another EXCLUDE or REPLACE, as in
    # `* EXCLUDE (a) REPLACE (…)`.
    return index > 0 and words[index - 1] in _STAR_WORDS and _follows_star(tokens, words, index - 1)


def _closes_distinct_on(tokens: Sequence[Token], words: Sequence[str], index: int) -> bool:
    """Whether the token at `index` is the bracket that closes a DISTINCT ON (…)."""
    if words[index] != ")":
        return False
    at = opening_of(tokens, index)
    return at > 1 and words[at - 1] == "ON" and words[at - 2] == "DISTINCT"


_CONDITIONS = {
    getattr(TokenType, name)
    for name in (
        "LT GT LTE GTE EQ NEQ NULLSAFE_EQ IS ISNULL NOTNULL IN BETWEEN LIKE ILIKE SIMILAR_TO "
        "AND OR NOT"
    ).split()
}
_ENDS = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_BEGINS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}


def grouping_element(to: TokenPass, token: Token) -> bool:
    """Writes parentheses around a condition that is an element of ROLLUP, CUBE or GROUPING SETS:
    sqlglot reads a condition only there. ROLLUP(a, b > 1) becomes ROLLUP(a, (b > 1))."""
    output = to.output
    depth, is_condition = 0, False
    for start in range(len(output) - 1, -1, -1):
        kind = output[start].token_type
        if depth == 0 and (kind is TokenType.COMMA or kind in _BEGINS):
            break
        depth += (kind in _ENDS) - (kind in _BEGINS)
        is_condition = is_condition or (depth == 0 and kind in _CONDITIONS)
    if is_condition:
        output.insert(start + 1, like(output[start + 1], TokenType.L_PAREN, "("))
        to.put(output[-1], TokenType.R_PAREN, ")")
    return False


_CLAUSES = (
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "INTERSECT",
    "EXCEPT",
)
_TIGHTER = ("||", "+", "-", "*", "/", "%", "^", "::", "[")
_MAIN = ("SELECT", "VALUES", "TABLE", "FROM", "WITH", "(", "INSERT", "UPDATE", "DELETE", "MERGE")


def comma(to: TokenPass, token: Token) -> bool:
    """Refuses a comma before a closing bracket, a clause or the end."""
    after = to.peek(1)
    if to.index + 1 == len(to.tokens):
        raise to.syntax_error(token)
    if after in (")", "]", "}") or (after in _CLAUSES and to.peek(2) != "=>"):
        raise to.syntax_error(to.tokens[to.index + 1])
    return False


def end_of_test(to: TokenPass, token: Token) -> bool:
    """Refuses `a IS NULL + b`: sqlglot would drop the IS, or read `a IS (NULL + b)`."""
    is_test = (
        to.peek() in ("ISNULL", "NOTNULL")
        or to.previous() == "IS"
        or (to.previous(2), to.previous()) == ("IS", "NOT")
    )
    if is_test and to.peek(1) in _TIGHTER:
        raise to.syntax_error(to.tokens[to.index + 1], "put the test in parentheses")
    return False


def colon(to: TokenPass, token: Token) -> bool:
    """Refuses `name: expression` except in the lists of SELECT and FROM, where the name is an
    alias."""
    if to.inside in BRACKETS or to.inside in PAIRS | BRACES or _is_prefixed_alias(to):
        return False
    raise to.syntax_error(token)


def _is_prefixed_alias(to: TokenPass) -> bool:
    """Whether the word before the colon is the first one of an item of SELECT or FROM."""
    if to.previous(2) in ("SELECT", "DISTINCT", "ALL", "FROM", "JOIN"):
        return True
    depth = 0
    for word in reversed(to.words[: to.index - 1]):
        depth += (word == ")") - (word == "(")
        if depth < 0:
            return False
        if depth == 0 and word in ("SELECT", "FROM"):
            return to.previous(2) == ","
    return False


def frame(to: TokenPass, token: Token) -> bool:
    """Refuses a frame that has BETWEEN but no AND before the enclosing bracket closes."""
    if to.peek(1) != "BETWEEN":
        return False
    depth = 0
    for other in to.tokens[to.index + 2 :]:
        if other.token_type is TokenType.AND and depth == 0:
            return False
        depth += (other.token_type is TokenType.L_PAREN) - (other.token_type is TokenType.R_PAREN)
        if depth < 0:
            break
    raise to.syntax_error(to.tokens[to.index + 1])


def common_tables(to: TokenPass, token: Token) -> bool:
    """Refuses WITH OFFSET (of BigQuery), and records the depth of a WITH that begins a query."""
    if to.peek(1) == "OFFSET":
        raise to.syntax_error(to.tokens[to.index + 1])
    if to.index == 0 or to.previous() == "(":
        to.common_tables.append(len(to.open))
    return False


def end_of_common_table(to: TokenPass, token: Token) -> bool:
    """Refuses a WITH without a following query: sqlglot would only write a warning to its log."""
    waiting, depth = to.common_tables, len(to.open) - 1
    while waiting and waiting[-1] > depth:
        waiting.pop()
    if (
        not waiting
        or waiting[-1] != depth
        or to.index + 1 == len(to.tokens)
        or to.peek(1) in ("AS", ",")
    ):
        return False
    waiting.pop()
    if to.peek(1) in _MAIN:
        return False
    following = to.tokens[to.index + 1]
    raise ProgrammingError(
        f'syntax error at "{to.sql[following.start : following.end + 1]}"',
        detail="expected a query after WITH",
        position=position_at(following, to.sql),
    )


LAMBDA_CALLS = (*LAMBDA_FUNCTIONS, "COLUMNS", "*COLUMNS")
"""The functions with a lambda function among their arguments."""
_NAME_TYPES = (TokenType.VAR, TokenType.IDENTIFIER)
_PATHS = (TokenType.STRING, TokenType.NUMBER, TokenType.PLACEHOLDER, TokenType.PARAMETER)


def lambda_colon(to: TokenPass, token: Token) -> bool:
    """Writes the colon of `lambda x:`, which may follow several names."""
    at = to.index - 1
    while at > 0 and (to.words[at] == "," or to.tokens[at].token_type in _NAME_TYPES):
        if to.words[at] == "LAMBDA" and to.words[at - 1] in (",", "("):
            to.copy()
            return True
        at -= 1
    return False


def arrow(to: TokenPass, token: Token) -> bool:
    """Writes `((j)) -> 'a'` for `j -> 'a'`, because sqlglot would read a lambda function."""
    if to.inside in LAMBDA_FUNCTIONS or len(to.output) < 2 or to.index + 1 == len(to.tokens):
        return False
    name = to.output[-1]
    is_first = to.output[-2].token_type in (TokenType.L_PAREN, TokenType.COMMA)
    is_path = to.tokens[to.index + 1].token_type in _PATHS
    if not (is_first and is_path and name.token_type in _NAME_TYPES):
        return False
    to.output.pop()
    for _ in range(2):
        to.put(name, TokenType.L_PAREN, "(")
    to.output.append(name)
    for _ in range(2):
        to.put(name, TokenType.R_PAREN, ")")
    to.copy()
    return True


_OPERATORS = {"|": "sqrt(x)", "||": "cbrt(x)", "#": "xor(x, y)", "!": "factorial(x)"}
_AFTER_OPERAND = ("", ")", ",", ";", "+", "-", "*", "/", "=", "FROM", "AS", "WHERE")
"""The functions that stand for operators of PostgreSQL: |/, ||/, ! and #."""


def absent_operator(to: TokenPass, token: Token) -> bool:
    """Refuses the operators |/, ||/, # and, after an operand, ! of PostgreSQL."""
    is_root = token.text in ("|", "||")
    before = to.output[-1].token_type if to.output else None
    is_after = before in (TokenType.NUMBER, TokenType.VAR, TokenType.R_PAREN)
    if token.text == "!" and not (is_after and to.peek(1) in _AFTER_OPERAND):
        return False
    if is_root and to.peek(1) != "/":
        return False
    raise NotSupportedError(
        f"the operator {token.text}{'/' if is_root else ''} is not supported",
        hint=f"write {_OPERATORS[token.text]}",
        position=position_at(token, to.sql),
    )


def postgresql_name(to: TokenPass, token: Token) -> bool:
    """Leaves out what `qualified` describes around names of PostgreSQL."""
    # Loaded on first use: few queries have such names.
    from runnel.planner.parse.query.qualified import RULES

    return RULES[token.text.upper()](to, token)
