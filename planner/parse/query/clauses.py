"""The table of the clauses that Runnel adds to sqlglot's parser, or that its tree says too little
about: one entry a clause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlglot import TokenType

from runnel.planner.parse.query import (
    json_clauses,
    query_end,
    rules,
    table_arguments,
)
from runnel.planner.parse.query.token_pass import Key, Rule, Rules
from runnel.planner.parse.types import TYPE_WORDS

CASTS = ("CAST", "TRY_CAST")
FRAME_UNITS = ("ROWS", "RANGE", "GROUPS")
FRAME_EXCLUSIONS = ("NO OTHERS", "CURRENT ROW", "GROUP", "TIES")
_GROUPINGS = ("ROLLUP", "CUBE", "GROUPING SETS")


class Clause(NamedTuple):
    """One clause. Every field but the name is optional.

    name: the clause as users write it.
    begins: the words with which `rule` runs: upper case, or the type of a token without a word.
    inside: the functions directly in whose parentheses `rule` runs; () for everywhere.
    rule: writes the tokens that sqlglot reads instead, or refuses them. Several rules of a word run
        in the order of this table, until one has written tokens.
    dropped: the words that no node of sqlglot's tree retains.
    not_called: the words that are no function, though a parenthesis follows.
    not_called_after: the same for a word that follows another one, as pairs.
    variables: for each class of node, by name, the words that it has as an `exp.Var`.
    """

    name: str
    begins: Iterable[Key] = ()
    inside: Iterable[str] = ()
    rule: Rule | None = None
    dropped: Iterable[str] = ()
    not_called: Iterable[str] = ()
    not_called_after: Iterable[tuple[str, str]] = ()
    variables: Iterable[tuple[str, tuple[str, ...]]] = ()


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_FRACTIONS = ("MILLISECOND", "MICROSECOND")
_TESTED = ("NULL", "TRUE", "FALSE", "UNKNOWN", "ISNULL", "NOTNULL")

CLAUSES: tuple[Clause, ...] = (
    # tables
    Clause("TABLE t", ("TABLE",), (), rules.whole_query),
    Clause("f(TABLE t)", ("TABLE",), (), table_arguments.table),
    Clause("f(name => x)", ("=>",), table_arguments.FUNCTIONS, table_arguments.argument_name),
    Clause(
        "f(TABLE t PARTITION BY a)",
        ("PARTITION BY",),
        table_arguments.FUNCTIONS,
        table_arguments.partition,
    ),
    Clause(
        "the end of f(TABLE t PARTITION BY a)",
        (",", ")"),
        (table_arguments.PARTITION,),
        table_arguments.end_of_partition,
    ),
    Clause("JOIN", ("JOIN",), (), rules.plain_join),
    Clause("FOR SYSTEM_TIME AS OF", dropped=("SYSTEM_TIME", "OF")),
    # queries
    Clause("WITH", ("WITH",), (), rules.common_tables),
    Clause("the end of WITH", (")",), (), rules.end_of_common_table),
    Clause("WITH MATERIALIZED", dropped=("MATERIALIZED",), not_called=("MATERIALIZED",)),
    Clause("* EXCLUDE, * REPLACE", ("EXCLUDE", "REPLACE"), (), rules.star_list),
    Clause(
        "GROUPING SETS",
        (",", ")"),
        _GROUPINGS,
        rules.grouping_element,
        dropped=("GROUPING", "SETS", "ROLLUP", "CUBE"),
        not_called_after=(("GROUPING", "SETS"),),
    ),
    Clause("ORDER BY ALL", variables=(("Ordered", ("ALL",)),)),
    Clause("NULLS FIRST", dropped=("NULLS", "FIRST", "LAST")),
    Clause("FETCH", dropped=("FIRST",), not_called_after=(("FETCH", "FIRST"), ("FETCH", "NEXT"))),
    Clause("EMIT EVERY", [first for first, _ in query_end.EMISSION], (), query_end.emission),
    Clause("OPTIONS", ("OPTIONS",), (), query_end.options),
    # calls
    Clause("IGNORE NULLS", dropped=("IGNORE", "RESPECT", "NULLS")),
    Clause("WITHIN GROUP", dropped=("WITHIN", "GROUP"), not_called_after=(("WITHIN", "GROUP"),)),
    Clause(
        "frame of OVER",
        FRAME_UNITS,
        (),
        rules.frame,
        dropped=(
            *FRAME_UNITS,
            *("UNBOUNDED", "PRECEDING", "FOLLOWING", "CURRENT"),
            *("EXCLUDE", "NO", "OTHERS", "GROUP", "TIES"),
        ),
        variables=(("WindowSpec", FRAME_EXCLUSIONS),),
    ),
    Clause("EXTRACT(f FROM a)", ("FROM",), ("EXTRACT",), rules.separator),
    Clause("SUBSTRING(a FROM b FOR c)", ("FROM", "FOR"), ("SUBSTRING",), rules.separator),
    Clause("POSITION(a IN b)", ("IN", "FROM"), ("POSITION",), rules.separator),
    Clause(
        "OVERLAY(a PLACING b FROM c FOR d)",
        ("PLACING", "FROM", "FOR"),
        ("OVERLAY",),
        rules.separator,
    ),
    Clause(
        "TRIM(BOTH a FROM b)", dropped=("TRIM", "BOTH", "LEADING", "TRAILING"), not_called=("TRIM",)
    ),
    # scalars
    Clause("?", ("?",), (), rules.parameter),
    Clause("CAST", ("AS",), CASTS, rules.cast_type, dropped=CASTS, not_called=CASTS),
    Clause("::", ("::",), (), rules.cast_type),
    Clause("DATE '…'", TYPE_WORDS, (), rules.typed_literal),
    Clause(
        "INTERVAL '…'",
        (TokenType.STRING,),
        (),
        rules.whole_interval,
        dropped=("TO", *(f"{unit}{s}" for unit in (*_UNITS, *_FRACTIONS) for s in ("", "S"))),
    ),
    Clause("X'…'", ("X",), (), rules.hexadecimal),
    Clause("E'…'", (TokenType.BYTE_STRING,), (), rules.escaped_string),
    Clause("IS NULL", _TESTED, (), rules.end_of_test),
    Clause("IS JSON", dropped=("SCALAR", "VALUE")),
    Clause(
        "BETWEEN SYMMETRIC",
        dropped=("SYMMETRIC", "ASYMMETRIC"),
        not_called=("SYMMETRIC", "ASYMMETRIC"),
    ),
    Clause("AT TIME ZONE", dropped=("AT", "ZONE"), not_called_after=(("TIME", "ZONE"),)),
    # JSON
    Clause("alias: a", (":",), (), rules.colon),
    Clause("KEY a VALUE b", ("KEY", "VALUE", ":"), json_clauses.PAIRS, json_clauses.pair),
    Clause("NULL ON EMPTY", json_clauses.FIRST_WORDS, json_clauses.FUNCTIONS, json_clauses.phrase),
    Clause(
        "RETURNING, DEFAULT", ("RETURNING", "DEFAULT"), json_clauses.FUNCTIONS, json_clauses.operand
    ),
    # signs
    Clause("a, b", (",",), (), rules.comma),
    Clause("(", ("(",), (), rules.opening),
    Clause(")", (")",), (), rules.closing),
    Clause("[", ("[",), (), rules.opening_bracket),
    Clause("]", ("]",), (), rules.closing_bracket),
)
"""A clause that is added to SELECT has its words here, its nodes and their arguments in
`allow_list`."""

DROPPED = frozenset(word for clause in CLAUSES for word in clause.dropped)
VARIABLES = dict(entry for clause in CLAUSES for entry in clause.variables)


def _rules() -> Rules:
    found = Rules()
    for clause in CLAUSES:
        found.not_called.update(clause.not_called)
        found.not_called_after.update(clause.not_called_after)
        if clause.rule is not None:
            inside = frozenset(clause.inside) or None
            for word in clause.begins:
                found.by_word.setdefault(word, []).append((inside, clause.rule))
    return found


RULES = _rules()
