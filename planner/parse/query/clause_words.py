"""The words of each clause that sqlglot's tokens or tree need help with: one entry a clause."""

from __future__ import annotations

from typing import NamedTuple

CASTS = ("CAST", "TRY_CAST")
FRAME_UNITS = ("ROWS", "RANGE", "GROUPS")
FRAME_EXCLUSIONS = ("NO OTHERS", "CURRENT ROW", "GROUP", "TIES")


class ClauseWords(NamedTuple):
    """The words of one clause.

    dropped: the words that no node of sqlglot's tree keeps.
    not_called: the words that are no function, though a parenthesis follows.
    not_called_after: the same for a word that follows another one, as pairs.
    variables: for each class of node, by name, the words that it has as an `exp.Var`.
    """

    dropped: tuple[str, ...]
    not_called: tuple[str, ...] = ()
    not_called_after: tuple[tuple[str, str], ...] = ()
    variables: tuple[tuple[str, tuple[str, ...]], ...] = ()


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_FRACTIONS = ("MILLISECOND", "MICROSECOND")

CLAUSES: dict[str, ClauseWords] = {
    "CAST": ClauseWords(CASTS, CASTS),
    "TRIM": ClauseWords(("TRIM", "BOTH", "LEADING", "TRAILING"), ("TRIM",)),
    "BETWEEN SYMMETRIC": ClauseWords(("SYMMETRIC", "ASYMMETRIC"), ("SYMMETRIC", "ASYMMETRIC")),
    "WITH MATERIALIZED": ClauseWords(("MATERIALIZED",), ("MATERIALIZED",)),
    "AT TIME ZONE": ClauseWords(("AT", "ZONE"), (), (("TIME", "ZONE"),)),
    "INTERVAL": ClauseWords(
        ("TO", *(f"{unit}{plural}" for unit in (*_UNITS, *_FRACTIONS) for plural in ("", "S")))
    ),
    "NULLS FIRST": ClauseWords(("NULLS", "FIRST", "LAST")),
    "IGNORE NULLS": ClauseWords(("IGNORE", "RESPECT", "NULLS")),
    "FETCH": ClauseWords(("FIRST",), (), (("FETCH", "FIRST"), ("FETCH", "NEXT"))),
    "GROUPING SETS": ClauseWords(
        ("GROUPING", "SETS", "ROLLUP", "CUBE"), (), (("GROUPING", "SETS"),)
    ),
    "WITHIN GROUP": ClauseWords(("WITHIN", "GROUP"), (), (("WITHIN", "GROUP"),)),
    "frame of OVER": ClauseWords(
        (
            *FRAME_UNITS,
            *("UNBOUNDED", "PRECEDING", "FOLLOWING", "CURRENT"),
            *("EXCLUDE", "NO", "OTHERS", "GROUP", "TIES"),
        ),
        variables=(("WindowSpec", FRAME_EXCLUSIONS),),
    ),
    "ORDER BY ALL": ClauseWords((), variables=(("Ordered", ("ALL",)),)),
    "IS JSON": ClauseWords(("SCALAR", "VALUE")),
    "FOR SYSTEM_TIME AS OF": ClauseWords(("SYSTEM_TIME", "OF")),
}
"""A clause that is added to SELECT has its words here, its nodes and their arguments in
`allow_list`."""

_ALL = CLAUSES.values()
DROPPED = frozenset(word for clause in _ALL for word in clause.dropped)
NOT_CALLED = frozenset(word for clause in _ALL for word in clause.not_called)
NOT_CALLED_AFTER = frozenset(pair for clause in _ALL for pair in clause.not_called_after)
VARIABLES = dict(entry for clause in _ALL for entry in clause.variables)
