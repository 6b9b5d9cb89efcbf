"""The pass over the tokens of a query. Its output is the tokens that sqlglot's parser reads.

For each token, the rules that `clauses.CLAUSES` lists for its word run in order, until one of them
has written tokens. A rule may also only check, and raise an error. If no rule has written tokens,
the token is written as it is, or with a mark if it is the name of a function: see `TokenPass.word`.

The mark makes sqlglot parse every call as an exp.Anonymous with name and arguments as written.
Without a mark sqlglot would rename about a thousand functions, reorder their arguments or split
them. Written tokens retain their offsets in the text. `query.py` changes sqlglot's tree into the
tree that the binder reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import Position, ProgrammingError
from runnel.planner.parse.syntax import Name
from runnel.planner.parse.tokens import DIALECT, TokenReader, like, position_at
from runnel.planner.parse.types import TypeLimit, parse_cast_type
from runnel.sqltypes import SqlType

MARK = "\0"
"""The prefix of a function's name; no name in SQL text can contain it."""

TYPE = "runnel_type_"
"""The prefix of a type's number, which replaces the type's name."""

MAX_DEPTH = 100
"""The maximum nesting of parentheses, CASE and prefix operators, and the maximum depth of a
tree."""

MAX_DOTS = 20
"""The maximum number of dots in a chain such as `f(a).g(b).c`: sqlglot's time grows with
the cube of this number."""

_PARSER: Any = type(DIALECT.parser())
_SYNTAX_TYPES = {
    getattr(TokenType, name)
    for name in (
        "ALL ANY ARRAY COLLATE EXISTS FILTER GLOB ILIKE INTERVAL ISNULL LIKE OFFSET NULL "
        "PRIMARY_KEY RLIKE SOME TABLE UNION UNKNOWN UNNEST WINDOW XOR"
    ).split()
}
_CALLABLE = (_PARSER.FUNC_TOKENS | {TokenType.IDENTIFIER}) - _SYNTAX_TYPES
_CALLABLE_WORDS = ("DIV", "XOR", "SESSION", "FILTER", "APPLY")
_WITHOUT_PARENTHESES = set(_PARSER.NO_PAREN_FUNCTIONS)

Rule = Callable[["TokenPass", Token], bool]
"""Writes the tokens that replace the next ones, or checks them; returns whether it wrote any."""

Key = str | TokenType
"""A word, or the type of a token that has no word."""


class Rules:
    """The rules of all clauses, and the words that are no functions although a parenthesis follows.

    by_word: for each first word, the rules with the functions in whose parentheses they apply;
        None: everywhere.
    """

    def __init__(self) -> None:
        self.by_word: dict[Key, list[tuple[frozenset[str] | None, Rule]]] = {}
        self.not_called: set[str] = set()
        self.not_called_after: set[tuple[str, str]] = set()


class EmissionTokens:
    """The tokens of EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO; None for an absent clause.

    The value of `every` and of `lateness` is a pair: the tokens of the expression, and the position
    of the error if there are no tokens.
    """

    def __init__(self, position: Position) -> None:
        self.position = position
        self.every: tuple[Sequence[Token], Position] | None = None
        self.lateness: tuple[Sequence[Token], Position] | None = None
        self.late_table: Name | None = None


class TokenPass(TokenReader):
    """One pass over the tokens of a query or an expression.

    output: the tokens written so far.
    types: the types that the casts name, by their number.
    open: for each open parenthesis or bracket, the word before it.
    closed: the word before the one that was closed last; "" if there is none.
    is_query: whether the tokens are a whole query, which may end with clauses of Runnel.
    emission, unbounded_state, epoch_millis, state_limit, poll_millis: these clauses and options.
    changes: the position of EMIT CHANGES; None: the query does not have it.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        sql: str,
        parameters: Mapping[int, int],
        *,
        is_query: bool,
    ) -> None:
        super().__init__(tokens, sql)
        self.parameters = parameters
        self.is_query = is_query
        self.output: list[Token] = []
        self.types: list[tuple[SqlType, int | str | TypeLimit | None]] = []
        self.open: list[str] = []
        self.closed = ""
        self.common_tables: list[int] = []
        self.emission: EmissionTokens | None = None
        self.unbounded_state = False
        self.changes: Position | None = None
        self.epoch_millis: int | None = None
        self.poll_millis: int | None = None
        self.state_limit = 0
        self._names: list[int] = []

    def run(self, rules: Rules) -> list[Token]:
        nesting = Nesting()
        by_word = rules.by_word
        count = len(self.tokens)
        while self.index < count:
            token = self.tokens[self.index]
            nesting.count(token, self.sql)
            for inside, rule in by_word.get(self.words[self.index] or token.token_type, ()):
                if (inside is None or self.inside in inside) and rule(self, token):
                    break
            else:
                self.word(token, rules)
        return self.output

    @property
    def inside(self) -> str:
        """The word before the innermost open parenthesis or bracket; "" if there is none."""
        return self.open[-1] if self.open else ""

    def word(self, token: Token, rules: Rules) -> None:
        """Writes the next token. The name of a function gets a mark. A function without parentheses
        (CURRENT_DATE) becomes a call without arguments."""
        word = self.words[self.index]
        kind = token.token_type
        self.index += 1
        if self.peek() == "(":
            if (
                (kind in _CALLABLE or word in _CALLABLE_WORDS)
                and word not in rules.not_called
                and (self.previous(2), word) not in rules.not_called_after
            ):
                token = like(token, TokenType.VAR, MARK + token.text)
        elif kind in _WITHOUT_PARENTHESES and self.previous(2) not in (".", "AS"):
            self.put(token, TokenType.VAR, MARK + token.text)
            self.put(token, TokenType.L_PAREN, "(")
            self.put(token, TokenType.R_PAREN, ")")
            return
        self.output.append(token)

    def put(self, position: Token, token_type: TokenType, text: str) -> None:
        """Writes a token with the position of another token."""
        self.output.append(like(position, token_type, text))

    def copy(self) -> None:
        """Writes the next token as it is."""
        self.output.append(self.next())

    def enter(self, word: str) -> None:
        """Opens a parenthesis after `word`, the last token written."""
        self.open.append(word)
        self._names.append(len(self.output) - 1)

    def leave(self) -> str:
        """Closes the innermost parenthesis or bracket; returns the word before it."""
        self._names.pop()
        self.closed = self.open.pop()
        return self.closed

    def open_call(self, position: Token, name: str) -> None:
        """Begins a call that the text does not contain."""
        self.put(position, TokenType.VAR, MARK + name)
        self.enter(name)
        self.put(position, TokenType.L_PAREN, "(")

    def close_call(self, position: Token) -> None:
        """Ends a call that `open_call` began."""
        self.leave()
        self.put(position, TokenType.R_PAREN, ")")

    def rename(self, suffix: str) -> None:
        """Appends `suffix` to the name of the innermost open call."""
        name = self.output[self._names[-1]]
        self.output[self._names[-1]] = like(name, TokenType.VAR, name.text + suffix)

    def type_word(self) -> None:
        """Reads a type, and writes a word that stands for it: the index of the type in `types`."""
        at = min(self.index, len(self.tokens) - 1)
        self.put(self.tokens[at], TokenType.VAR, f"{TYPE}{len(self.types)}")
        self.types.append(parse_cast_type(self))

    def cast(self, value: Token | None = None) -> None:
        """Reads a type, and writes a CAST to this type: of the token `value`, or of the next
        token."""
        first = self.tokens[min(self.index, len(self.tokens) - 1)]
        parsed = parse_cast_type(self)
        self.put(first, TokenType.VAR, "CAST")
        self.put(first, TokenType.L_PAREN, "(")
        self.output.append(self.next() if value is None else value)
        self.put(first, TokenType.ALIAS, "AS")
        self.put(first, TokenType.VAR, f"{TYPE}{len(self.types)}")
        self.put(first, TokenType.R_PAREN, ")")
        self.types.append(parsed)

    def syntax_error(self, token: Token, hint: str | None = None) -> ProgrammingError:
        return ProgrammingError(
            f'syntax error at "{self.sql[token.start : token.end + 1]}"',
            hint=hint,
            position=position_at(token, self.sql),
        )


def opening_of(tokens: Sequence[Token], index: int) -> int:
    """The index of the parenthesis that encloses the token at `index`, or that it closes; 0 if
    there is none."""
    depth = 0 if tokens[index].token_type is TokenType.R_PAREN else 1
    for at in range(index, 0, -1):
        depth += (tokens[at].token_type is TokenType.R_PAREN) - (
            tokens[at].token_type is TokenType.L_PAREN
        )
        if depth == 0:
            return at
    return 0


def is_first_item(words: Sequence[str], index: int) -> bool:
    """Whether the words before the one at `index` are the only item in their brackets, and no
    query."""
    depth = 0
    for at in range(index - 1, -1, -1):
        word = words[at]
        depth += (word in (")", "]", "}")) - (word in ("(", "[", "{"))
        if depth < 0:
            break
        if not depth and word in (",", "SELECT", "FROM", "VALUES"):
            return False
    return True


_OPERANDS = {
    getattr(TokenType, name)
    for name in (
        "VAR IDENTIFIER STRING NUMBER PLACEHOLDER R_PAREN R_BRACKET R_BRACE COMMA STAR NULL TRUE "
        "FALSE END"
    ).split()
}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_DOTTED = {TokenType.DOT, TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN, TokenType.R_PAREN}
_UNCONDITIONAL = {TokenType.CROSS, TokenType.NATURAL}


class Nesting:
    """Refuses nesting that would overflow the stack of sqlglot's parser. In its compiled build this
    is the stack of C, whose overflow ends the process.

    depth: the number of open brackets and CASEs.
    run: the number of tokens since the last operand.
    joins: the number of joins that wait for their ON.
    windows: the number of OVERs since the last comma.
    dots: the number of dots in the current chain.
    """

    def __init__(self) -> None:
        self.depth = self.run = self.joins = self.windows = self.dots = 0
        self.before: TokenType | None = None

    def count(self, token: Token, sql: str) -> None:
        kind = token.token_type
        if kind in _OPENING:
            self.depth += 1
        elif kind in _CLOSING:
            self.depth -= 1
        elif kind is TokenType.JOIN and self.before not in _UNCONDITIONAL:
            self.joins += 1
        elif kind is TokenType.ON or kind is TokenType.USING:
            self.joins = max(self.joins - 1, 0)
        elif kind is TokenType.OVER or kind is TokenType.COMMA:
            self.windows = self.windows + 1 if kind is TokenType.OVER else 0
        if kind in _OPERANDS:
            self.run = 0
        else:
            self.run += 1
            if max(self.depth, self.run, self.joins, self.windows) > MAX_DEPTH:
                raise too_deep(position_at(token, sql))
        if kind not in _DOTTED:
            self.dots = 0
        elif kind is TokenType.DOT:
            self.dots += 1
            if self.dots > MAX_DOTS:
                raise too_deep(position_at(token, sql))
        self.before = kind


def too_deep(position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"the statement is nested more than {MAX_DEPTH} deep",
        hint="use WITH for subqueries, or IN for long chains of conditions",
        position=position,
    )


_ENDS_OF_LIST = frozenset(
    "FROM WHERE GROUP HAVING QUALIFY WINDOW ORDER LIMIT OFFSET FETCH UNION INTERSECT EXCEPT MINUS "
    "USING EMIT ALLOWED LATE OPTIONS INTO RETURNING ON".split()
)
"""The first words of what follows a select list. Words other than FROM may be names of columns."""

_SIGNS = frozenset(
    ". + - * / % ^ || < > <= >= = <> != == :: & | ~ -> ->> => , ( [ AND OR NOT IS".split()
)
"""The words after which an operand is expected."""


def item_texts(to: TokenPass, select: int) -> Iterator[str]:
    """The text of each item in the list of the SELECT that is the token of this index."""
    return _texts(to.tokens, to.words, to.sql, _first(to.words, select + 1))


def _first(words: Sequence[str], index: int) -> int:
    """The index of the first token of the list: after ALL, DISTINCT and DISTINCT ON (…)."""
    word = words[index] if index < len(words) else ""
    if word not in ("ALL", "DISTINCT"):
        return index
    if index + 2 >= len(words) or words[index + 1 : index + 3] != ["ON", "("]:
        return index + 1
    depth = 0
    for at in range(index + 2, len(words)):
        depth += (words[at] == "(") - (words[at] == ")")
        if depth == 0:
            return at + 1
    return len(words)


def _texts(tokens: Sequence[Token], words: Sequence[str], sql: str, start: int) -> Iterator[str]:
    """The text of each item of the list that begins at `start`."""
    depth = 0
    first = start
    for at in range(start, len(tokens)):
        kind = tokens[at].token_type
        if kind in _CLOSING:
            depth -= 1
        elif kind in _OPENING:
            depth += 1
        if depth < 0 or (depth == 0 and _is_end_of_list(words, first, at)):
            yield text_of(tokens[first:at], sql)
            return
        if depth == 0 and kind is TokenType.COMMA:
            yield text_of(tokens[first:at], sql)
            first = at + 1
    yield text_of(tokens[first:], sql)


def _is_end_of_list(words: Sequence[str], first: int, at: int) -> bool:
    """Whether the token at `at` follows the list whose last item begins at `first`."""
    if at == first:
        return False
    word, before = words[at].partition(" ")[0], words[at - 1]
    if word == "FROM":
        return before != "DISTINCT"  # IS DISTINCT FROM
    return word in _ENDS_OF_LIST and before not in _SIGNS


def text_of(tokens: Sequence[Token], sql: str) -> str:
    """The text of tokens: comments are left out, and a space stands for any number of them."""
    found: list[str] = []
    end = -1
    for token in tokens:
        if found and token.start > end:
            found.append(" ")
        found.append(sql[token.start : token.end + 1])
        end = token.end + 1
    return "".join(found)
