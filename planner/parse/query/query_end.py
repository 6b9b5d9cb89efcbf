"""The rules of the clauses at the end of a query: EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO,
in this order, or EMIT CHANGES; then OPTIONS (…). sqlglot's parser never reads them.
And NULLS FIRST and NULLS LAST of ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.planner.parse.query.token_pass import EmissionTokens, TokenPass
from runnel.planner.parse.syntax import OptionClause
from runnel.planner.parse.tokens import position_at, read_options

EMISSION = (("EMIT", "EVERY"), ("ALLOWED", "LATENESS"), ("LATE", "DATA"))
CHANGES = ("EMIT", "CHANGES")
UNBOUNDED_STATE = "allowUnboundedState"
EPOCH_MILLIS = "epochMillis"
POLL_MILLIS = "pollChangesMillis"
STATE_LIMIT = "maxStateBytes"
_OPTIONS = (UNBOUNDED_STATE, EPOCH_MILLIS, STATE_LIMIT, POLL_MILLIS)
MOST_POLL_MILLIS = 10**12
"""Largest value of the option 'pollChangesMillis'."""
MOST_EPOCH_MILLIS = 60_000
"""Largest value of the option 'epochMillis'."""
MOST_STATE = 10**15
"""Largest value of the option 'maxStateBytes', in bytes."""
_BOOLEANS = {"true": True, "false": False}


def emission(to: TokenPass, token: Token) -> bool:
    """Reads EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO. They are clauses only after a FROM,
    and outside of parentheses."""
    if to.open or not to.is_query or not _after_from(to):
        return False
    if _begins_changes(to):
        return _changes(to)
    if not _begins_emission(to):
        return False
    clauses = to.emission = EmissionTokens(to.position)
    if to.accept("EMIT", "EVERY"):
        clauses.every = _expression(to)
    if to.accept("ALLOWED", "LATENESS"):
        clauses.lateness = _expression(to)
    if to.accept("LATE", "DATA"):
        to.expect("INTO")
        clauses.late_table = to.name("a mapping")
    if to.at_end or _begins_options(to):
        return True
    if _begins_changes(to):
        raise _not_both(to)
    if (to.peek(), to.peek(1)) in EMISSION:
        raise ProgrammingError(
            f"{to.peek()} {to.peek(1)} is in the wrong position",
            hint="the order is EMIT EVERY, ALLOWED LATENESS, LATE DATA INTO, each at most once",
            position=to.position,
        )
    raise to.error("the end of the statement")


def _changes(to: TokenPass) -> bool:
    """Reads EMIT CHANGES, which ends the query."""
    to.changes = to.position
    to.index += 2
    if to.at_end or _begins_options(to):
        return True
    if (to.peek(), to.peek(1)) in EMISSION:
        raise _not_both(to)
    if to.peek() == "LIMIT":
        raise NotSupportedError(
            "LIMIT after EMIT CHANGES is not supported",
            detail="the first changes alone add up to no answer",
            hint="for the first rows of the answer write ORDER BY … LIMIT n EMIT CHANGES; for the "
            "first changes fetch n rows: cursor.fetchmany(n)",
            position=to.position,
        )
    raise to.error("the end of the statement")


def _not_both(to: TokenPass) -> NotSupportedError:
    return NotSupportedError(
        f"EMIT CHANGES and {' '.join(to.words[to.index : to.index + 2])} exclude each other"
        if not _begins_changes(to)
        else "EMIT CHANGES after another clause of emission is not supported",
        detail="EMIT CHANGES returns each change of the result, so nothing is early or late",
        hint="leave one of the clauses out",
        position=to.position,
    )


def _begins_changes(to: TokenPass) -> bool:
    """Whether EMIT CHANGES comes next and ends the query, apart from OPTIONS."""
    if (to.peek(), to.peek(1)) != CHANGES or to.index == 0:
        return False
    follows = to.index + 2
    if follows < len(to.tokens) and to.words[follows] == "LIMIT":
        return to.words[to.index - 1] not in ("FROM", "JOIN", ",")  # else a table called emit
    return follows == len(to.tokens) or to.words[follows] in ("OPTIONS", "ALLOWED", "LATE", "EMIT")


def _begins_emission(to: TokenPass) -> bool:
    """Whether two words of a clause come next and a third token follows."""
    words = (to.peek(), to.peek(1))
    if words not in EMISSION or to.index == 0 or to.index + 2 >= len(to.tokens):
        return False
    return words[0] != "LATE" or to.peek(2) == "INTO"


def _after_from(to: TokenPass) -> bool:
    depth = 0
    for word in to.words[: to.index]:
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if word == "FROM" and depth == 0:
            return True
    return False


def _expression(to: TokenPass) -> tuple[Sequence[Token], Position]:
    """Reads the tokens of a constant, up to the next clause or the end of the query. Returns them,
    and the position after them."""
    start = to.index
    while not (
        to.at_end
        or (to.peek(), to.peek(1)) in EMISSION
        or _begins_changes(to)
        or _begins_options(to)
    ):
        to.index += 1
    return to.tokens[start : to.index], to.position


def options(to: TokenPass, token: Token) -> bool:
    """Reads OPTIONS (…)."""
    if to.open or not to.is_query or not _begins_options(to):
        return False
    to.index += 1
    for option in read_options(to):
        if option.name.text == EPOCH_MILLIS:
            to.epoch_millis = _number(to, option, MOST_EPOCH_MILLIS)
            continue
        if option.name.text == POLL_MILLIS:
            # At least 1, as in mappings: without a pause a table would be read all the time.
            to.poll_millis = max(_number(to, option, MOST_POLL_MILLIS), 1)
            continue
        if option.name.text == STATE_LIMIT:
            to.state_limit = _number(to, option, MOST_STATE)
            continue
        if option.name.text != UNBOUNDED_STATE:
            names = ", ".join(f"'{name}'" for name in _OPTIONS)
            raise ProgrammingError(
                f'a query has no option "{option.name.text}"',
                hint=suggest(option.name.text, _OPTIONS, f"its options are {names}"),
                position=option.name.position,
            )
        if option.value.lower() not in _BOOLEANS:
            raise ProgrammingError(
                f"option '{UNBOUNDED_STATE}' is 'true' or 'false'", position=option.name.position
            )
        to.unbounded_state = _BOOLEANS[option.value.lower()]
    to.finish()
    return True


def _number(to: TokenPass, option: OptionClause, most: int) -> int:
    """The value of an option of EMIT CHANGES."""
    name = option.name.text
    if to.changes is None:
        raise ProgrammingError(
            f"option '{name}' is an option of EMIT CHANGES",
            hint=f"end the query with EMIT CHANGES OPTIONS ('{name}' = '{option.value}')",
            position=option.name.position,
        )
    text = option.value
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        raise ProgrammingError(
            f"option '{name}' is a whole number from 0 to {most}", position=option.name.position
        )
    return int(option.value)


def _begins_options(to: TokenPass) -> bool:
    """Whether the next tokens are OPTIONS and a list in parentheses that ends the query. The list
    is empty or begins with a string."""
    if to.peek() != "OPTIONS" or to.peek(1) != "(" or to.index + 2 >= len(to.tokens):
        return False
    if to.tokens[to.index + 2].token_type not in (TokenType.STRING, TokenType.R_PAREN):
        return False
    depth = 0
    for at in range(to.index + 1, len(to.tokens)):
        depth += (to.words[at] == "(") - (to.words[at] == ")")
        if depth == 0:
            return at + 1 == len(to.tokens)
    return False


def order_of_nulls(to: TokenPass, token: Token) -> bool:
    """`NULLS FIRST` becomes NULLS FIRST WITH FILL, which marks a written order: sqlglot sets
    `nulls_first` in any case."""
    if to.peek(1) not in ("FIRST", "LAST"):
        return False
    to.copy()
    to.copy()
    to.put(token, TokenType.WITH, "WITH")
    to.put(token, TokenType.VAR, "FILL")
    return True


def with_fill(to: TokenPass, token: Token) -> bool:
    """Refuses WITH FILL, which `order_of_nulls` writes. A common table may have the name."""
    if to.peek(1) == "FILL" and to.peek(2) not in ("AS", "("):
        raise NotSupportedError(
            "WITH FILL is not supported",
            hint="join the rows with generate_series(…)",
            position=position_at(token, to.sql),
        )
    return False
