"""PIVOT and UNPIVOT as statements, as in DuckDB: their tokens are written as a query with PIVOT or
UNPIVOT in FROM, before the pass over the tokens.

    PIVOT t ON a, b IN (1, 2) USING sum(c) GROUP BY d ORDER BY d
    SELECT * FROM t PIVOT (sum(c) FOR KEY(a) IN (VALUES()) KEY(b) IN (1, 2) GROUP BY d) ORDER BY d

    UNPIVOT t ON a, b INTO NAME n VALUE v
    SELECT * FROM t UNPIVOT (v FOR n IN (a, b))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import ProgrammingError
from runnel.planner.parse.query.token_pass import text_of
from runnel.planner.parse.tokens import is_word, like, position_at, word_of

KEY = "PIVOT_KEY"
"""The name of the call around an expression of ON, or around the text and an expression of GROUP
BY or USING."""

VALUES = "PIVOT_VALUES"
"""The name of the call that stands for all values of the expression."""

_PIVOT = ("PIVOT", "PIVOT_WIDER")
_UNPIVOT = ("UNPIVOT", "PIVOT_LONGER")
WORDS = frozenset((*_PIVOT, *_UNPIVOT))
_BEFORE = ("", "(", ")", "ALL", "DISTINCT", "NAME", "UNION", "EXCEPT", "INTERSECT")
_AFTER = frozenset("UNION EXCEPT INTERSECT LIMIT OFFSET FETCH EMIT ALLOWED OPTIONS".split()) | {
    "ORDER BY"
}
_QUERIES = ("SELECT", "FROM", "WITH", "VALUES", "TABLE", "(", *WORDS)
_OPENING = {TokenType.L_PAREN: 1, TokenType.L_BRACKET: 1, TokenType.L_BRACE: 1, TokenType.CASE: 1}
_CLOSING = {
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.R_BRACE: -1,
    TokenType.END: -1,
}
_DEPTH = {**_OPENING, **_CLOSING}


def with_queries(tokens: Sequence[Token], sql: str) -> Sequence[Token]:
    """The tokens with a query in place of each PIVOT and UNPIVOT statement."""
    found = list(tokens)
    for at in range(len(found) - 1, -1, -1):
        if word_of(found[at]) not in WORDS:
            continue
        if not _is_statement(found, at):
            if word_of(found[at]) == "PIVOT" and _opens(found, at + 1):
                _name_aggregates(found, at + 2, sql)
        else:
            words = _keywords(found, at)
            if words is None and at == 0:
                raise ProgrammingError(
                    f"{word_of(found[at])} needs ON",
                    hint="write PIVOT t ON column USING sum(amount), or UNPIVOT t ON a, b",
                    position=position_at(found[at], sql),
                )
            if words is not None:
                is_pivot = word_of(found[at]) in _PIVOT
                written = _pivot(found, words, sql) if is_pivot else _unpivot(found, words, sql)
                found[at : words.end] = written
    return found


def _opens(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and word_of(tokens[at]) == "("


def _name_aggregates(tokens: list[Token], start: int, sql: str) -> None:
    """Changes the expressions before the FOR of PIVOT (…), the first of which is at `start`."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += _DEPTH.get(tokens[at].token_type, 0)
        if depth < 0:
            return
        if not depth and word_of(tokens[at]) == "FOR":
            items = tokens[start:at]
            if all(_items(items)):
                tokens[start:at] = _named_aggregates(items, sql)
            return


def _named_aggregates(tokens: list[Token], sql: str) -> list[Token]:
    """`sum(a), max(b)::INT AS m` becomes sum(a), KEY('max(b)::INT', max(b)::INT) AS m: sqlglot
    reads calls only."""
    found: list[Token] = []
    for item in _items(tokens):
        if found:
            found.append(like(item[0], TokenType.COMMA, ","))
        end = _end_of_expression(item)
        written = item[:end]
        if not _is_call(written):
            written = _with_text(written, sql)
        found += [*written, *item[end:]]
    return found


def _end_of_expression(item: list[Token]) -> int:
    """The number of tokens before the alias of an item."""
    if len(item) > 2 and word_of(item[-2]) == "AS":
        return len(item) - 2
    is_name = is_word(item[-1]) or item[-1].token_type is TokenType.IDENTIFIER
    if (
        len(item) > 2
        and is_name
        and word_of(item[-2]) in (")", "END")
        and word_of(item[-1]) != "END"
    ):
        return len(item) - 1
    return len(item)


def _is_call(tokens: list[Token]) -> bool:
    """Whether tokens are f(…), with nothing after the parenthesis but FILTER (…) or WITHIN GROUP
    (…)."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += _DEPTH.get(token.token_type, 0)
        is_inner = depth > 0 or word_of(token) == ")"
        if at and not is_inner and word_of(token) not in ("FILTER", "WITHIN", "GROUP"):
            return False
    return len(tokens) > 2 and word_of(tokens[1]) == "("


class _Keywords(NamedTuple):
    """The offsets of the words of one statement among the tokens.

    at: of PIVOT or UNPIVOT.
    on, using, group, into: of these words; the end if one is missing.
    end: after the last token.
    """

    at: int
    on: int
    using: int
    group: int
    into: int
    end: int

    def after(self, start: int) -> int:
        """The offset of the next keyword after the one at `start`."""
        return min(i for i in (self.on, self.using, self.group, self.into, self.end) if i > start)


def _is_statement(tokens: Sequence[Token], at: int) -> bool:
    """Whether PIVOT begins a query, and does not follow a table."""
    before = word_of(tokens[at - 1]) if at else ""
    if at + 1 >= len(tokens) or (at and before == "") or before not in _BEFORE:
        return False
    following = tokens[at + 1]
    if before == ")" and word_of(following) == "(":
        return at + 2 < len(tokens) and word_of(tokens[at + 2]) in _QUERIES
    return (
        is_word(following)
        or following.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        or word_of(following) == "("
    )


def _keywords(tokens: Sequence[Token], at: int) -> _Keywords | None:
    """The words of the statement at `at`; None if it has neither ON nor USING."""
    found: dict[str, int] = {}
    depth = joins = 0
    end = len(tokens)
    for index in range(at + 1, len(tokens)):
        word = word_of(tokens[index])
        depth += _DEPTH.get(tokens[index].token_type, 0)
        if depth < 0 or (depth == 0 and word in _AFTER):
            end = index
            break
        if depth:
            continue
        if word == "JOIN" and "ON" not in found:
            joins += 1
        elif word in ("ON", "USING") and joins:
            joins -= 1
        elif word in ("ON", "USING", "GROUP BY", "INTO"):
            found.setdefault(word, index)
    if "ON" not in found and "USING" not in found:
        return None
    on, using, group, into = (found.get(w, end) for w in ("ON", "USING", "GROUP BY", "INTO"))
    return _Keywords(at, on, using, group, into, end)


def _pivot(tokens: list[Token], words: _Keywords, sql: str) -> list[Token]:
    first = tokens[words.at]
    source = _source(tokens[words.at + 1 : min(words.on, words.using, words.group)], first)
    aggregates = (
        tokens[words.using + 1 : words.after(words.using)] if words.using < words.end else []
    )
    group = tokens[words.group : words.end]
    _check_list(aggregates, tokens, words.using, words.end, sql)
    if words.on == words.end:
        # Without ON it is an aggregation.
        keys = [*group[1:], like(first, TokenType.COMMA, ",")] if group else []
        select = like(first, TokenType.SELECT, "SELECT")
        return [select, *keys, *aggregates, like(first, TokenType.FROM, "FROM"), *source, *group]
    aggregates = _named_aggregates(aggregates, sql) if aggregates else []
    if not aggregates:
        aggregates = [
            like(first, TokenType.VAR, "count"),
            like(first, TokenType.L_PAREN, "("),
            like(first, TokenType.STAR, "*"),
            like(first, TokenType.R_PAREN, ")"),
        ]
    fields: list[Token] = []
    on = tokens[words.on + 1 : words.after(words.on)]
    _check_list(on, tokens, words.on, words.end, sql)
    for item in _items(on):
        fields += _field(item, sql)
    return [
        *_whole(first),
        *source,
        like(first, TokenType.PIVOT, "PIVOT"),
        like(first, TokenType.L_PAREN, "("),
        *aggregates,
        like(first, TokenType.FOR, "FOR"),
        *fields,
        *_named_group(group, sql),
        like(tokens[words.end - 1], TokenType.R_PAREN, ")"),
    ]


def _named_group(group: list[Token], sql: str) -> list[Token]:
    """`GROUP BY a, year(b)` becomes GROUP BY a, KEY('year(b)', year(b))."""
    found = group[:1]
    for item in _items(group[1:]):
        if len(found) > 1:
            found.append(like(group[0], TokenType.COMMA, ","))
        if len(item) < 2:
            found += item
            continue
        found += _with_text(item, sql)
    return found


def _with_text(item: list[Token], sql: str) -> list[Token]:
    """KEY('text', expression)"""
    return [
        like(item[0], TokenType.VAR, KEY),
        like(item[0], TokenType.L_PAREN, "("),
        like(item[0], TokenType.STRING, text_of(item, sql)),
        like(item[0], TokenType.COMMA, ","),
        *item,
        like(item[-1], TokenType.R_PAREN, ")"),
    ]


_IN_OPERAND = {".", "::", "(", ")", "[", "]", ","}


def _field(item: list[Token], sql: str) -> list[Token]:
    """`a IN (1, 2)` becomes KEY(a) IN (1, 2), and `a` becomes KEY(a) IN (VALUES())."""
    depth, cut = 0, len(item)
    for index, token in enumerate(item):
        depth += _DEPTH.get(token.token_type, 0)
        if depth == 0 and word_of(token) == "IN":
            cut = index
            break
    if cut < len(item):
        _check_operand(item[:cut], sql)
    first, last = item[0], item[cut - 1]
    key = [
        like(first, TokenType.VAR, KEY),
        like(first, TokenType.L_PAREN, "("),
        *item[:cut],
        like(last, TokenType.R_PAREN, ")"),
    ]
    if cut < len(item):
        return [*key, *item[cut:]]
    return [
        *key,
        like(last, TokenType.IN, "IN"),
        like(last, TokenType.L_PAREN, "("),
        like(last, TokenType.VAR, VALUES),
        like(last, TokenType.L_PAREN, "("),
        like(last, TokenType.R_PAREN, ")"),
        like(last, TokenType.R_PAREN, ")"),
    ]


def _check_operand(key: list[Token], sql: str) -> None:
    """Refuses `ON a + b IN (1, 2)`, in which IN may belong to a condition."""
    depth = 0
    for token in key:
        depth += _DEPTH.get(token.token_type, 0)
        word = word_of(token)
        if depth == 0 and word and word not in _IN_OPERAND and not is_word(token):
            raise ProgrammingError(
                "the expression before IN needs parentheses in PIVOT",
                hint="write ON (a + b) IN (1, 2)",
                position=position_at(token, sql),
            )


def _unpivot(tokens: list[Token], words: _Keywords, sql: str) -> list[Token]:
    first = tokens[words.at]
    for wrong in (words.using, words.group):
        if wrong < words.end:
            raise _unexpected(tokens[wrong], sql)
    if words.on == words.end:
        raise _unexpected(tokens[words.end - 1], sql)
    source = _source(tokens[words.at + 1 : words.on], first)
    on = tokens[words.on + 1 : words.after(words.on)]
    _check_list(on, tokens, words.on, words.end, sql)
    name, values = _names(tokens, words, sql)
    several = len(values) > 1
    comma = like(first, TokenType.COMMA, ",")
    listed = [token for value in values for token in (comma, value)][1:]
    return [
        *_whole(first),
        *source,
        like(first, TokenType.UNPIVOT, "UNPIVOT"),
        like(first, TokenType.L_PAREN, "("),
        *([like(first, TokenType.L_PAREN, "(")] if several else []),
        *listed,
        *([like(first, TokenType.R_PAREN, ")")] if several else []),
        like(first, TokenType.FOR, "FOR"),
        name,
        like(first, TokenType.IN, "IN"),
        like(first, TokenType.L_PAREN, "("),
        *on,
        like(on[-1], TokenType.R_PAREN, ")"),
        like(tokens[words.end - 1], TokenType.R_PAREN, ")"),
    ]


def _names(tokens: list[Token], words: _Keywords, sql: str) -> tuple[Token, list[Token]]:
    """The names after INTO NAME … VALUE …, by default "name" and "value"."""
    first = tokens[words.at]
    if words.into == words.end:
        usual = [like(first, TokenType.IDENTIFIER, text) for text in ("name", "value")]
        return usual[0], usual[1:]
    named = tokens[words.into + 1 : words.end]
    if (
        len(named) < 4
        or word_of(named[0]) != "NAME"
        or word_of(named[2]) not in ("VALUE", "VALUES")
    ):
        raise ProgrammingError(
            f'syntax error at "{sql[tokens[words.into].start : tokens[words.into].end + 1]}"',
            detail="expected INTO NAME column VALUE column",
            position=position_at(tokens[words.into], sql),
        )
    values = named[3:]
    for index, token in enumerate(values):
        is_comma = token.token_type is TokenType.COMMA
        if is_comma != (index % 2 == 1) or (index == len(values) - 1 and is_comma):
            raise _unexpected(token, sql)
    return named[1], values[::2]


def _whole(first: Token) -> list[Token]:
    return [
        like(first, TokenType.SELECT, "SELECT"),
        like(first, TokenType.STAR, "*"),
        like(first, TokenType.FROM, "FROM"),
    ]


def _source(tokens: list[Token], first: Token) -> list[Token]:
    """The tokens of the table; in parentheses, if it is a join."""
    if not any(word_of(token) == "JOIN" for token in tokens):
        return tokens
    return [
        like(first, TokenType.L_PAREN, "("),
        *tokens,
        like(first, TokenType.R_PAREN, ")"),
    ]


def _items(tokens: list[Token]) -> list[list[Token]]:
    """The elements of a list, which commas outside of parentheses separate."""
    items: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _DEPTH.get(token.token_type, 0)
        if depth == 0 and token.token_type is TokenType.COMMA:
            items.append([])
        else:
            items[-1].append(token)
    return items


def _check_list(
    items: list[Token], tokens: Sequence[Token], keyword: int, end: int, sql: str
) -> None:
    """Raises ProgrammingError if a list after a keyword is empty or has an empty element."""
    if keyword == end:
        return
    if not all(_items(items)):
        raise ProgrammingError(
            f"{word_of(tokens[keyword])} lists nothing",
            hint="write PIVOT t ON column USING sum(amount), or UNPIVOT t ON a, b",
            position=position_at(tokens[keyword], sql),
        )


def _unexpected(token: Token, sql: str) -> ProgrammingError:
    return ProgrammingError(
        f'syntax error at "{sql[token.start : token.end + 1]}"',
        detail="expected UNPIVOT t ON a, b INTO NAME n VALUE v",
        position=position_at(token, sql),
    )
