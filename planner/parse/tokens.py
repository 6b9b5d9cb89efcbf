"""SQL text as tokens, and a reader that walks over them.

sqlglot's tokenizer of the DuckDB dialect makes the tokens. `start` and `end` of a token are offsets
into the text, `end` inclusive. Keywords are compared by their text, because the set of words for
which sqlglot has keyword tokens changes between its releases.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token

from runnel.errors import DuplicateColumn, Position, ProgrammingError, suggest
from runnel.planner.parse.syntax import Name, OptionClause


class RunnelDialect(DuckDB):
    """DuckDB's syntax with Runnel's defaults.

    NULL is the smallest value, so the parser makes the order of NULLs explicit in every ORDER BY
    item. A subscript is the number that the user wrote (DuckDB's dialect subtracts 1).
    """

    NULL_ORDERING = "nulls_are_small"
    INDEX_OFFSET = 0

    def to_json_path(self, path: Any) -> Any:
        """Returns the operand after -> and ->> unchanged: sqlglot would parse a text as a path."""
        return path

    class Tokenizer(DuckDB.Tokenizer):
        """A tokenizer that splits every statement; DuckDB's leaves some statements as one unparsed
        text. Names may be in backticks, as in Flink, Spark and MySQL."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        # `?::` is an operator in other dialects, and a parameter before a cast here.
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if word != "?::"
        }


DIALECT: Any = RunnelDialect()
_NOT_WORDS = {TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER}
_WITHOUT_WORD = _NOT_WORDS | {TokenType.BYTE_STRING}
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_GLUED = re.compile(r"[0-9_]*\.?[0-9_]*e[+-]?[0-9]+(?=[+-])", re.IGNORECASE)
_DOLLARS = re.compile(
    r"""
    [eE]'(?:\\.|''|[^'\\])*' | '(?:''|[^'])*' | "(?:""|[^"])*"
    | --[^\n]* | /\*.*?\*/ | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$
    | (?P<parameter>\$\w+(?=[^\w\s$]))
    """,
    re.VERBOSE | re.DOTALL,
)
"""Parameters with a dollar sign, and the texts and comments in which there are none."""
_WITH_HINTS = ("SELECT", "WITH", "FROM", "INSERT", "EXPLAIN", "(")
"""The first words of the statements whose tables may have the hint OPTIONS."""
_IN_BASE = re.compile(r"0(?:x[0-9a-f_]+|o[0-7_]+|b[01_]+)", re.IGNORECASE)
_BASES = {"x": 16, "o": 8, "b": 2}
_QUOTES = {"'": "string", '"': "quoted identifier", "`": "quoted identifier"}


def tokenize(sql: str) -> list[Token]:
    """The tokens of `sql`.

    Raises ProgrammingError with its position for a string, quoted name or comment without an end,
    and for a number that runs into a word.
    """
    try:
        tokens = _tokens(sql)
    except SqlglotError:
        raise _unterminated(sql) from None
    if "$" in sql or _IN_BASE.search(sql):
        tokens = list(_plain_literals(tokens))
    if "&'" in sql:
        tokens = list(_with_unicode(tokens, sql))
    if "/*+" in sql:
        _check_hints(sql, tokens)
    for token, following in pairwise([*tokens, None]):
        if token is not None and token.token_type is TokenType.DOT and _is_torn(token, following):
            raise ProgrammingError('syntax error at "."', position=Position.at(sql, token.start, 1))
        if token is not None and token.token_type is TokenType.NUMBER:
            end = token.end + 1
            if following is not None and following.start == end and is_word(following):
                end = following.end + 1
            elif _NUMBER.fullmatch(token.text):
                continue
            raise ProgrammingError(
                f'"{sql[token.start : end]}" is not a number',
                hint="numbers are written like 12, 1.5 or 2e3",
                position=Position.at(sql, token.start, end - token.start),
            )
    return tokens


def _plain_literals(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with `$$text$$` as a string, and 0xFF, 0o17 and 0b11 as decimal numbers."""
    skipped = False
    for token, following in pairwise([*tokens, None]):
        if skipped or token is None:
            skipped = False
        elif token.token_type is TokenType.HEREDOC_STRING:
            yield like(token, TokenType.STRING, token.text)
        elif (
            token.text == "0"
            and following is not None
            and following.start == token.end + 1
            and _IN_BASE.fullmatch("0" + following.text)
        ):
            digits = following.text.replace("_", "")
            number = str(int(digits[1:], _BASES[digits[0].lower()]))
            yield Token(TokenType.NUMBER, number, token.line, token.col, token.start, following.end)
            skipped = True
        else:
            yield token


def _check_hints(sql: str, tokens: Sequence[Token]) -> None:
    """NotSupportedError for Flink's hint OPTIONS, which changes what is read, in a statement that
    stores its text, or whose tables are not read. Other hints concern the speed, and have no
    effect."""
    # Loaded on first use: few statements have hints.
    from runnel.planner.parse.flink.hints import has_hint, misplaced

    is_query = tokens and tokens[0].text.upper() in _WITH_HINTS
    for before, token in pairwise([None, *tokens]):
        if token is not None and has_hint(token):
            is_target = before is not None and before.text.upper() == "INTO"
            if not is_query or is_target:
                raise misplaced(sql, token)


def _with_unicode(tokens: Sequence[Token], sql: str) -> Iterator[Token]:
    """The tokens with `U&'d\\0061ta'` as the string 'data'."""
    at = 0
    while at < len(tokens):
        token = tokens[at]
        sign, text = (*tokens[at + 1 : at + 3], None, None)[:2]
        if (
            token.text.upper() == "U"
            and sign is not None
            and text is not None
            and sql[token.start : text.start + 1].upper() == "U&'"
            and text.token_type is TokenType.STRING
        ):
            decoded = _UNICODE.sub(_character, text.text)
            if _LONE.search(_UNICODE.sub("", text.text)) or _SURROGATE.search(decoded):
                raise ProgrammingError(
                    "a Unicode escape is not valid",
                    hint="write \\XXXX or \\+XXXXXX in hexadecimal digits, or \\\\ for a backslash",
                    position=Position.at(sql, token.start, text.end + 1 - token.start),
                )
            yield Token(TokenType.STRING, decoded, token.line, token.col, token.start, text.end)
            at += 3
        else:
            yield token
            at += 1


_UNICODE = re.compile(r"\\(?:([0-9a-f]{4})|\+([0-9a-f]{6})|\\)", re.IGNORECASE | re.ASCII)
_LONE = re.compile(r"\\")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _character(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    if digits is None:
        return "\\"
    return chr(int(digits, 16)) if int(digits, 16) < 0x110000 else "\ud800"


def blank(text: str) -> str:
    """Spaces instead of a text; its lines stay."""
    return "".join(character if character == "\n" else " " for character in text)


def statement_ends(sql: str) -> list[int] | None:
    """The offsets of the semicolons that end statements; None if `sql` ends inside a string, a
    quoted identifier or a comment."""
    try:
        tokens: list[Token] = DIALECT.tokenize(sql)
    except SqlglotError:
        return None
    ends, first = [], 0
    for index, token in enumerate(tokens):
        if token.token_type is not TokenType.SEMICOLON:
            continue
        # The semicolons of a statement set are part of it: the last one follows "; END".
        is_last = tokens[index - 1].text.upper() == "END" and (
            tokens[index - 2].token_type is TokenType.SEMICOLON
        )
        if is_last or not is_statement_set(tokens[first:index]):
            ends.append(token.start)
            first = index + 1
    return ends


FLINK_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE")
"""Details that Flink adds to a plan. Plans have estimates, and no query has a changelog."""
_MOST_DETAILS = 3 + 2 * len(FLINK_DETAILS)
"""The number of tokens up to the word SET of EXPLAIN with all details."""


def is_statement_set(tokens: Sequence[Token]) -> bool:
    """Whether a statement begins with EXECUTE STATEMENT SET, BEGIN STATEMENT SET or EXPLAIN
    [details] STATEMENT SET."""
    words = [token.text.upper() for token in tokens[:_MOST_DETAILS]]
    if words[:1] == ["EXPLAIN"]:
        words[1:] = [word for word in words[1:] if word != "," and word not in FLINK_DETAILS]
    is_first = words[:1] in (["EXECUTE"], ["BEGIN"], ["EXPLAIN"])
    return is_first and words[1:3] == ["STATEMENT", "SET"]


def has_tokens(sql: str) -> bool:
    """Whether the text has anything but spaces and comments; also if it cannot be tokenized."""
    try:
        return bool(DIALECT.tokenize(sql))
    except SqlglotError:
        return True


def _is_torn(dot: Token, following: Token | None) -> bool:
    """Whether this dot and the number after it are not a number of SQL: sqlglot would read `. 5` as
    0.5 and `.0.5` as 0.0.5."""
    if following is None or following.token_type is not TokenType.NUMBER:
        return False
    return following.start != dot.end + 1 or "." in following.text


def _tokens(sql: str) -> list[Token]:
    """The tokens of sqlglot, but three tokens for `1e0+2`, which sqlglot reads as one number, and
    two parameters for `$1,$2`, which it reads as the beginning of a text."""
    cuts = _parameter_ends(sql) if "$" in sql else []
    tokens = _split(sql, cuts)
    numbers = {
        cut
        for token in tokens
        if token.token_type is TokenType.NUMBER
        for cut in _cuts(sql, token.start)
    }
    return _split(sql, sorted({*cuts, *numbers})) if numbers else tokens


def _parameter_ends(sql: str) -> list[int]:
    """The offsets after the parameters `$1` and `$name` that touch a sign."""
    return [match.end() for match in _DOLLARS.finditer(sql) if match["parameter"]]


def _split(sql: str, cuts: Sequence[int]) -> list[Token]:
    """The tokens of a text that is split at the offsets `cuts`.

    A space is inserted at each cut, so that sqlglot separates the tokens. The number of spaces
    before a token is then subtracted from its offsets. For `1e0+2`:

        cuts    [3]       offset of the sign in the text
        spaced  "1e0 +2"  the inserted space is at offset 3
        tokens  1e0 at 0, + at 4, 2 at 5; minus the spaces before them: 0, 3, 4
    """
    if not cuts:
        found: list[Token] = DIALECT.tokenize(sql)
        return found
    chunks = [sql[start:end] for start, end in pairwise([0, *cuts, len(sql)])]
    spaced = [cut + number for number, cut in enumerate(cuts)]
    return [
        Token(
            token.token_type,
            token.text,
            token.line,
            token.col,
            token.start - shift,
            token.end - shift,
            token.comments,
        )
        for token in DIALECT.tokenize(" ".join(chunks))
        for shift in [bisect(spaced, token.start)]
    ]


def _cuts(sql: str, start: int) -> Iterator[int]:
    """The offsets at which sqlglot's number token must be split: the signs after numbers with an
    exponent. The token begins at `start`."""
    match = _GLUED.match(sql, start)
    while match is not None:
        yield match.end()
        match = _GLUED.match(sql, match.end() + 1)


def _unterminated(sql: str) -> ProgrammingError:
    """The error for the string, quoted identifier or comment that is open at the end of `sql`."""
    at, length = 0, len(sql)
    while at < length:
        if sql[at] in _QUOTES:
            end = sql.find(sql[at], at + 1)
            what = _QUOTES[sql[at]]
        elif sql.startswith("/*", at):
            end = sql.find("*/", at + 2)
            what = "comment"
        elif sql.startswith("--", at):
            end = sql.find("\n", at)
            what = ""
        else:
            at += 1
            continue
        if end < 0:
            break
        at = end + (2 if what == "comment" else 1)
    if at >= length or not what:
        return ProgrammingError(
            "the statement can't be split into words", position=Position.at(sql, max(length - 1, 0))
        )
    return ProgrammingError(f"unterminated {what}", position=Position.at(sql, at, length - at))


def is_word(token: Token) -> bool:
    """Whether a token is a keyword or an unquoted name."""
    return token.token_type not in _NOT_WORDS and (
        token.text[:1].isalpha() or token.text[:1] == "_"
    )


def like(token: Token, token_type: TokenType, text: str) -> Token:
    """A token of another type or text with the position of `token`."""
    return Token(token_type, text, token.line, token.col, token.start, token.end, [])


def word_of(token: Token) -> str:
    """A token's text in upper case if it is a word or a sign; "" for strings, numbers and quoted
    names."""
    return "" if token.token_type in _WITHOUT_WORD else token.text.upper()


def position_at(token: Token, sql: str) -> Position:
    """The position of a token in the text."""
    return Position.at(sql, token.start, token.end - token.start + 1)


class TokenReader:
    """Walks over tokens from first to last. Its errors have a position, and say which token was
    expected."""

    def __init__(self, tokens: Sequence[Token], sql: str) -> None:
        self.tokens = tokens
        self.words = [word_of(token) for token in tokens]
        self.sql = sql
        self.index = 0

    @property
    def at_end(self) -> bool:
        return self.index >= len(self.tokens)

    @property
    def position(self) -> Position:
        """The position of the next token; at the end, the position after the last one."""
        if self.at_end:
            last = self.tokens[-1].end + 1 if self.tokens else 0
            return Position.at(self.sql, last)
        return position_at(self.tokens[self.index], self.sql)

    def peek(self, ahead: int = 0) -> str:
        """The word (see `word_of`) of the token `ahead` positions after the next one; "" past the
        end."""
        index = self.index + ahead
        return self.words[index] if index < len(self.words) else ""

    def previous(self, behind: int = 1) -> str:
        """The word of the token `behind` positions before the next one; "" before the first
        token."""
        return self.words[self.index - behind] if self.index >= behind else ""

    def accept(self, *words: str) -> bool:
        """Consumes the words if all of them come next, in this order; returns whether they did."""
        for ahead, word in enumerate(words):
            if self.peek(ahead) != word:
                return False
        self.index += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Consumes the words; ProgrammingError if something else comes next."""
        for word in words:
            if not self.accept(word):
                raise self.error(word)

    def next(self) -> Token:
        """Consumes and returns the next token, which must exist."""
        token = self.tokens[self.index]
        self.index += 1
        return token

    def name(self, what: str) -> Name:
        """Reads an identifier, quoted or not; any word is accepted."""
        if not self.at_end:
            token = self.tokens[self.index]
            if token.token_type is TokenType.IDENTIFIER or is_word(token):
                position = self.position
                if not token.text:
                    raise ProgrammingError(f"the name of {what} is empty", position=position)
                self.index += 1
                return Name(token.text, position)
        raise self.error(what)

    def string(self, what: str) -> Name:
        """Reads a string literal; returns its text and its position as a Name."""
        if self.at_string:
            position = self.position
            return Name(self.next().text, position)
        raise self.error(what)

    @property
    def at_string(self) -> bool:
        """Whether the next token is a string literal."""
        return not self.at_end and self.tokens[self.index].token_type is TokenType.STRING

    def unique(self, name: Name, earlier: Sequence[Name], kind: str) -> Name:
        """Returns the name; ProgrammingError if it is among the earlier ones."""
        if any(name.text.lower() == item.text.lower() for item in earlier):
            raise DuplicateColumn(f'{kind} "{name}" is listed twice', position=name.position)
        return name

    def finish(self) -> None:
        """Raises ProgrammingError if any token is left."""
        if not self.at_end:
            raise self.error("the end of the statement")

    def error(self, expected: str) -> ProgrammingError:
        """The syntax error at the next token."""
        quoted = f'"{expected}"' if expected.upper() == expected else expected
        hint = None
        if self.at_end:
            found = "the statement ends too early"
        else:
            token = self.tokens[self.index]
            found = f'syntax error at "{self.sql[token.start : token.end + 1]}"'
            if is_word(token) and suggest(token.text, [expected]) is not None:
                hint = f"did you mean {expected}?"
        return ProgrammingError(
            found, detail=f"expected {quoted}", hint=hint, position=self.position
        )


def read_options(reader: TokenReader) -> tuple[OptionClause, ...]:
    """Reads `('name' = 'value', …)`; the list may be empty. ProgrammingError for a repeated
    name."""
    reader.expect("(")
    options: list[OptionClause] = []
    while not reader.accept(")"):
        if options:
            reader.expect(",")
        name = reader.unique(
            reader.string("an option's name in quotes"), [item.name for item in options], "option"
        )
        reader.expect("=")
        options.append(OptionClause(name, reader.string("an option's value in quotes").text))
    return tuple(options)
