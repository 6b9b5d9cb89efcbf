"""Rules for tables as arguments of table functions: sqlglot parses neither `TABLE t` there nor a
PARTITION BY after it.

`TUMBLE(TABLE t, …)` becomes TUMBLE((SELECT * FROM t), …), and
`SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(c), …)` becomes SESSION((SELECT * FROM t), "PARTITION
BY OF A TABLE"(a, b), DESCRIPTOR(c), …). `planner/bind/streams/time_windows.py` reads the result.

`sample` reads the whole TABLESAMPLE: sqlglot accepts many words in it, skips some of them, and
drops the difference between 10 and 10 ROWS.
"""

from __future__ import annotations

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError, ProgrammingError, suggest
from runnel.planner.parse.query.token_pass import TokenPass
from runnel.planner.parse.tokens import is_word, position_at

PARTITION = "PARTITION BY OF A TABLE"
"""The name of the call that replaces the PARTITION BY of an argument; no token has this text."""

WINDOW_FUNCTIONS = frozenset({"IMPOSE_ORDER", "TUMBLE", "HOP", "CUMULATE", "SESSION"})
"""The table functions that add a watermark or windows to their input."""

FUNCTIONS = WINDOW_FUNCTIONS | {"CHANGES"}
"""The table functions that accept tables."""

TABLE_OPENERS = frozenset(
    (
        "csv_file json_file json_flat_file parquet_file arrow_file avro_file lines_file "
        "read_csv read_csv_auto sniff_csv read_json read_json_auto read_ndjson read_ndjson_auto "
        "read_json_objects read_json_objects_auto read_ndjson_objects "
        "read_parquet parquet_scan read_arrow read_feather read_avro read_lines read_text "
        "read_blob glob parquet_metadata parquet_schema parquet_file_metadata "
        "parquet_kv_metadata "
        "job_state snapshot_state"
    ).split()
)
"""The table functions whose tables `Environment.file_table` opens."""


def table(to: TokenPass, token: Token) -> bool:
    """Writes `TABLE name`, an argument, as a query. (The rule `rules.opening` handles a table
    function in TABLE(…).)"""
    if to.inside not in FUNCTIONS:
        _check_accepts_tables(to)
        return False
    if to.previous() not in ("(", ",", "=>"):
        return False
    if to.peek(1) == "(":
        if to.peek(2) in ("SELECT", "WITH", "VALUES", "FROM", "("):
            raise ProgrammingError(
                "TABLE needs the name of a table or a table function",
                hint="leave TABLE out: write the query in parentheses",
                position=position_at(token, to.sql),
            )
        return False
    to.index += 1
    to.put(token, TokenType.L_PAREN, "(")
    to.put(token, TokenType.SELECT, "SELECT")
    to.put(token, TokenType.STAR, "*")
    to.put(token, TokenType.FROM, "FROM")
    while True:
        if to.at_end or not _is_name(to.tokens[to.index]):
            raise to.error("the name of a table")
        to.copy()
        if to.peek() != ".":
            break
        to.copy()
    to.put(to.output[-1], TokenType.R_PAREN, ")")
    return True


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or is_word(token)


def _check_accepts_tables(to: TokenPass) -> None:
    """Raises ProgrammingError for TABLE and a name as the first argument of a table function."""
    if (
        not to.inside.isidentifier()
        or to.peek(1) == "("
        or to.previous() != "("
        or to.previous(3) not in ("(", "FROM", "JOIN", ",")
    ):
        return
    raise ProgrammingError(
        f"there is no table function {to.inside} that accepts a table",
        hint=suggest(to.inside, sorted(FUNCTIONS)),
        position=position_at(to.tokens[to.index - 2], to.sql),
    )


def argument_name(to: TokenPass, token: Token) -> bool:
    """Writes the word before `=>` as a name: sqlglot would parse OFFSET, an argument's name, as a
    clause."""
    name = to.tokens[to.index - 1]
    if to.index and is_word(name):
        while to.output and to.output[-1].start >= name.start:
            to.output.pop()
        to.put(name, TokenType.VAR, name.text)
    return False


def partition(to: TokenPass, token: Token) -> bool:
    """Writes PARTITION BY as the beginning of a call of PARTITION."""
    to.put(token, TokenType.COMMA, ",")
    to.index += 1
    to.open_call(token, PARTITION)
    if to.peek() in (",", ")"):
        raise to.error("the columns to partition by")
    return True


def end_of_partition(to: TokenPass, token: Token) -> bool:
    """Ends the call of PARTITION if the next argument belongs to the table function and is not a
    key."""
    if to.peek() == ")" or (to.peek(1) == "DESCRIPTOR" and to.peek(2) == "(") or to.peek(2) == "=>":
        to.close_call(token)
    return False


METHODS = tuple("BERNOULLI SYSTEM RESERVOIR".split())
"""The methods of TABLESAMPLE."""


def sample(to: TokenPass, token: Token) -> bool:
    """Reads `TABLESAMPLE [method] (n [% | PERCENT | ROWS]) [REPEATABLE (seed)]`, or the forms of
    DuckDB without parentheses and with the method after the number."""
    if (to.peek(), to.peek(1)) == ("USING", "SAMPLE"):
        _check_position(to)
        to.index += 2
        words = [(TokenType.USING, "USING"), (TokenType.VAR, "SAMPLE")]
    elif to.accept("TABLESAMPLE"):
        words = [(TokenType.TABLE_SAMPLE, "TABLESAMPLE")]
    else:
        return False
    method = seed = None
    if to.peek() in METHODS:
        method = to.next()
        to.expect("(")
        number, unit = _amount(to)
        to.expect(")")
    elif to.accept("("):
        number, unit = _amount(to)
        to.expect(")")
    else:
        number, unit = _amount(to)
        if to.accept("("):
            method = _method(to)
            seed = _number(to, "a seed") if to.accept(",") else None
            to.expect(")")
    if seed is None and to.accept("REPEATABLE"):
        to.expect("(")
        seed = _number(to, "a seed")
        to.expect(")")
    name = "" if method is None else method.text.upper()
    if not unit:
        # PostgreSQL's BERNOULLI (10) means per cent, DuckDB's TABLESAMPLE 10 means rows.
        unit = "%" if name in ("BERNOULLI", "SYSTEM") else "ROWS"
    if unit == "ROWS" and name in ("BERNOULLI", "SYSTEM"):
        raise ProgrammingError(
            f"{name} chooses a percentage, not a number of rows",
            hint=f"write {name} (10 PERCENT), or RESERVOIR ({number.text} ROWS)",
            position=position_at(number, to.sql),
        )
    for kind, text in words:
        to.put(token, kind, text)
    to.put(method or number, TokenType.VAR, name or ("RESERVOIR" if unit == "ROWS" else "SYSTEM"))
    to.put(number, TokenType.L_PAREN, "(")
    to.output.append(number)
    is_rows = unit == "ROWS"
    to.put(number, TokenType.ROWS if is_rows else TokenType.PERCENT, unit)
    to.put(number, TokenType.R_PAREN, ")")
    if seed is not None:
        to.put(seed, TokenType.VAR, "REPEATABLE")
        to.put(seed, TokenType.L_PAREN, "(")
        to.output.append(seed)
        to.put(seed, TokenType.R_PAREN, ")")
    return True


def _check_position(to: TokenPass) -> None:
    """Refuses USING SAMPLE after ORDER BY or LIMIT: the sample is chosen from the rows of FROM."""
    depth = 0
    for at in range(to.index - 1, -1, -1):
        depth += (to.words[at] == ")") - (to.words[at] == "(")
        if depth < 0 or (depth == 0 and to.words[at] in ("FROM", "SELECT")):
            return
        if depth == 0 and to.words[at] in ("ORDER BY", "LIMIT", "OFFSET", "FETCH"):
            raise to.syntax_error(
                to.tokens[to.index], "write USING SAMPLE before ORDER BY and LIMIT"
            )


def _amount(to: TokenPass) -> tuple[Token, str]:
    """The number of a sample, and its unit: "%", "ROWS" or "" if none is written."""
    number = _number(to, "a number")
    if to.accept("%") or to.accept("PERCENT"):
        return number, "%"
    return number, "ROWS" if to.accept("ROWS") or to.accept("ROW") else ""


def _method(to: TokenPass) -> Token:
    if to.peek() not in METHODS:
        raise to.error("one of BERNOULLI, SYSTEM and RESERVOIR")
    return to.next()


def _number(to: TokenPass, what: str) -> Token:
    if to.at_end or to.tokens[to.index].token_type is not TokenType.NUMBER:
        raise to.error(what)
    return to.next()


ROWS_OF_STATEMENT = "ROWS\0"
"""The name of the call that stands for the statement; no name in SQL text can contain it."""

_BEFORE_TABLES = ("FROM", "JOIN", ",", "(")


def rows_of_statement(to: TokenPass, token: Token) -> bool:
    """`FROM (DESCRIBE t)` becomes FROM (SELECT * FROM ROWS('6:16')): the offsets of
    the statement in the text."""
    words = to.words
    if to.index < 2 or words[to.index - 1] != "(" or words[to.index - 2] not in _BEFORE_TABLES:
        return False
    if (to.peek(1) in ("", ")") and not to.index + 1 < len(to.tokens)) or to.peek(1) == ")":
        return False
    depth = 0
    last = token
    while to.index < len(to.tokens):
        depth += {"(": 1, ")": -1}.get(to.peek(), 0)
        if depth < 0:
            break
        last = to.next()
        if last.start in to.parameters:
            raise NotSupportedError(
                f"a parameter within {token.text.upper()} is not supported in FROM",
                hint="write the value into the statement, or create a view",
                position=position_at(last, to.sql),
            )
    to.put(token, TokenType.SELECT, "SELECT")
    to.put(token, TokenType.STAR, "*")
    to.put(token, TokenType.FROM, "FROM")
    to.open_call(token, ROWS_OF_STATEMENT)
    to.put(token, TokenType.STRING, f"{token.start}:{last.end + 1}")
    to.close_call(token)
    return True


def row_pattern(to: TokenPass, token: Token) -> bool:
    """Refuses MATCH_RECOGNIZE ( by its name: sqlglot would fail somewhere within it."""
    if to.peek(1) == "(":
        raise NotSupportedError(
            "MATCH_RECOGNIZE is not supported",
            hint="compare with earlier rows by "
            f"LAG(…) OVER (PARTITION BY {_after(to, 'PARTITION BY', 'k')} ORDER BY "
            f"{_after(to, 'ORDER BY', 'ts')}), group them by SESSION, or write an aggregate in "
            "Python",
            position=position_at(token, to.sql),
        )
    return False


_PATTERN_CLAUSES = ("ORDER BY", "MEASURES", "ONE", "ALL", "AFTER", "PATTERN", "DEFINE", ")")


def _after(to: TokenPass, clause: str, default: str) -> str:
    """The expressions after a clause of MATCH_RECOGNIZE, as written."""
    for start in range(to.index, len(to.words) - 1):
        if to.words[start] == clause:
            end = start + 1
            while end < len(to.words) and to.words[end] not in _PATTERN_CLAUSES:
                end += 1
            return to.sql[to.tokens[start + 1].start : to.tokens[end - 1].end + 1]
    return default
