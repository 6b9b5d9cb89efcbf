"""A text of several statements, which run in order: the last one has the arguments and the result.

Loaded on first use: only a text with a semicolon may have several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from runnel.deadline import wait_limit
from runnel.errors import Error, InterfaceError, Position, presentable
from runnel.planner.parse.tokens import has_tokens, statement_ends
from runnel.results.rows import Result

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_CACHED = 20_000
"""Number of characters of the longest text whose division is stored for its next execution."""


def statements_of(sql: str) -> Sequence[tuple[int, str]]:
    """The statements of a text, each with its offset; empty ones are left out. A text with one
    statement, or one that cannot be divided, is that one, unchanged."""
    return _cached(sql) if len(sql) <= _LONGEST_CACHED else _divided(sql)


def _divided(sql: str) -> Sequence[tuple[int, str]]:
    ends = statement_ends(sql)
    if ends is None:
        return ((0, sql),)
    begins = (0, *(end + 1 for end in ends))
    found = tuple(
        (begin, sql[begin:end])
        for begin, end in zip(begins, (*ends, len(sql)), strict=True)
        if has_tokens(sql[begin:end])
    )
    return found if len(found) > 1 else ((0, sql),)


_cached = lru_cache(maxsize=64)(_divided)


def run_script(
    run: Callable[..., Any], sql: str, args: Any, timeout: float | None, on_start: Any
) -> tuple[str, Any]:
    """Runs the statements of a text by `Engine.run`, all but the last one to their end; returns the
    text of the last one and its outcome. An error names its position in the whole text."""
    statements = statements_of(sql)
    if len(statements) == 1:
        return sql, run(sql, args, timeout, on_start)
    limit = wait_limit(timeout)
    last = len(statements) - 1
    for index, (begin, text) in enumerate(statements):
        try:
            left = None if limit is None else max(limit.left, 0.001)
            outcome = run(text, args if index == last else (), left, on_start)
            if index < last:
                _finish(outcome)
        except Exception as error:
            shown = presentable(error, None)
            if isinstance(shown, Error):
                _locate(shown, sql, begin, text)
                _explain(shown, index, len(statements), has_args=bool(args))
            if shown is error:
                raise
            raise shown from error
    return statements[last][1].strip(), outcome


def _finish(outcome: Any) -> None:
    """Runs a query to its end; one over a stream is ended at once, because nothing reads it."""
    if isinstance(outcome, Result):
        if not outcome.is_unbounded:
            deque(outcome.batches(), maxlen=0)
        outcome.discard()


def _locate(error: Error, sql: str, begin: int, text: str) -> None:
    if error.sql in (None, text):
        error.sql = sql
        if (found := error.position) is not None:
            error.position = Position.at(sql, begin + found.offset, found.length)


def _explain(error: Error, index: int, number: int, *, has_args: bool) -> None:
    ran = f"{index} statement{'' if index == 1 else 's'} ran before it"
    note = f"it is statement {index + 1} of {number}; {ran}"
    error.detail = f"{error.detail}; {note}" if error.detail else note
    if has_args and index < number - 1 and isinstance(error, InterfaceError):
        error.hint = "the last statement has the arguments: run this one by itself"
