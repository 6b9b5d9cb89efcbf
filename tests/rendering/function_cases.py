"""Every function with arguments of every type that it takes, found by asking `bind`; every cast;
CASE, COALESCE, IN."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from runnel.errors import DataError, NotSupportedError, ProgrammingError
from runnel.expressions import build
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.nodes import Call, Case, Cast, Column, Expression, Literal, walk
from runnel.expressions.time.extract import PLURALS
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.spark.dialect import SPARK
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTEGERS,
    JSON,
    REAL,
    TIME,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARBINARY,
    VARCHAR,
    SqlType,
    can_cast,
    decimal,
)
from tests.rendering.edge_table import COLUMNS, NAMES, column


class FunctionCase(NamedTuple):
    """An expression over the edge table; `entry` is the row of the matrix that it belongs to."""

    entry: str
    shape: str
    expression: Expression


FIELDS = sorted(
    {"second", "dow", "isodow", "doy", "epoch", "isoyear", "microsecond", *PLURALS.values()}
)
_TEXTS = ["", "a", "l", "xa", "本", "%", "%o%", "H%", "a_b", "a,b", ",", "\\", "İ", "UTC"]
_NUMBERS = [0, 1, 2, 3, 5, -1, -2, 2**40]
_OPTIONS: dict[str, list[tuple[Any, ...]]] = {
    "extract": [],
    "date_trunc": [],
    "at_time_zone": [("UTC",), ("Europe/Berlin",)],
    "substring": [(1,), (2,), (50,), (2, 3), (1, 0), (2**40, 2), (0,), (1, -1), (-2, 2)],
    "like": [
        *[
            (text,)
            for text in (
                "%o%",
                "H%",
                "%x",
                "",
                "%",
                "___",
                "%l%o%",
                "a.b",
                "a_b",
                "line_break",
                "\\",
                "%\\%",
                "😀_",
            )
        ],
        *[("100!%", "!"), ("a!_b", "!"), ("%\\\\%", "\\"), (None,)],
    ],
    "ilike": [("hello%",), ("%WORLD",), ("äö%",), ("k",)],
    "regexp_like": [
        ("^[A-Z]",),
        ("^h", "i"),
        ("a.b",),
        ("k.b", "s"),
        ("\\w+$",),
        ("e$", "n"),
        (".",),
    ],
    "regexp_replace": [
        ("([a-z])", "<\\1>"),
        ("x*", "-", "g"),
        ("l", "L", "g"),
        ("[^a-z]+", "", "g"),
        ("(a)(.)", "\\2\\1"),
    ],
    "lpad": [(7, "*"), (3,), (7, "ab"), (0, "x"), (-1, "x"), (5, "")],
    "rpad": [(7, "*"), (3,), (7, "ab"), (0, "x"), (-1, "x"), (5, "")],
    "replace": [("l", "LL"), ("", "x"), ("a", ""), (None, "a"), ("日", "é")],
    "split_part": [(",", 1), (",", 3), (",", -1), ("xx", 2), ("a", 9), ("", 1), (",", 0)],
    "strpos": [("o",), ("",), ("本",), ("a", 2)],
    "repeat": [(0,), (1,), (3,), (-2,)],
    "round": [(0,), (1,), (2,), (5,), (-1,), (40,)],
    "truncate": [(0,), (1,), (-1,)],
}
"""Options, the arguments after the first, that tell meanings apart."""


MOST_CASES = {
    "add": 45,
    "subtract": 45,
    "multiply": 45,
    "divide": 45,
    "extract": 60,
    "date_trunc": 60,
}
USUAL_CASES = 24
"""More of one function tell nothing new."""


def _literal(value: Any) -> Literal:
    sql_type = (
        VARCHAR
        if isinstance(value, str) or value is None
        else BIGINT
        if isinstance(value, int)
        else DOUBLE
    )
    return Literal(value=value, type=sql_type)


def _candidates(name: str) -> Iterator[Sequence[Expression]]:
    """Argument lists to try, the most telling first."""
    columns = [column(item) for item in NAMES]
    if name in ("extract", "date_trunc"):
        yield from ((_literal(field), item) for field in FIELDS for item in columns)
        return
    for options in _OPTIONS.get(name, []):
        yield from ((item, *map(_literal, options)) for item in columns)
    if name == "position":
        yield from ((_literal(sought), column("s")) for sought in ("o", "", "本"))
    yield ()
    yield from ((item,) for item in columns)
    pairs = list(itertools.permutations(columns, 2))
    pairs.sort(key=lambda pair: pair[0].type != pair[1].type)
    yield from pairs
    if name not in _OPTIONS:
        yield from (
            (item, _literal(value)) for item in columns for value in (*_TEXTS[:6], *_NUMBERS, 2.5)
        )
    triples = ["s", "s2", "i", "big", "x", "ts", "months"]
    for first in triples:
        yield from (
            (column(first), column(second), column(third))
            for second in triples
            for third in triples
        )


def _key(name: str, bound: Sequence[Expression]) -> str:
    """What makes a case a new one: the types of the converted arguments, and the constants among
    them."""
    parts = []
    for item in bound:
        constant = item if isinstance(item, Literal) else None
        parts.append(f"{item.type}" if constant is None else f"{item.type} {constant.value!r}")
    return f"{name}({', '.join(parts)})"


@cache
def function_cases(name: str) -> tuple[FunctionCase, ...]:
    """The cases of one function."""
    function = FUNCTIONS[name]
    found: dict[str, FunctionCase] = {}
    least = 2 if name in ("and", "or") else 0
    for arguments in _candidates(name):
        if len(arguments) < least:
            continue
        try:
            bound, result = function.bind(function.name, arguments, None)
        except (ProgrammingError, DataError, NotSupportedError):
            continue
        except (
            ValueError,
            AssertionError,
            IndexError,
            TypeError,
        ):  # only the planner builds this call, in one form
            continue
        if any(isinstance(item, Cast) and item.operand.type.is_nested for item in bound):
            continue
        shape = _key(name, bound)
        if shape not in found:
            found[shape] = FunctionCase(
                name, shape, Call(function=name, arguments=bound, type=result)
            )
        if len(found) == MOST_CASES.get(name, USUAL_CASES):
            break
    return tuple(found.values())


COMPUTED_CASES = 12
"""Of one function with options that are computed."""


def _computed(item: Expression) -> Expression:
    """A literal as an expression that is the same for all rows, but isn't a literal when the call
    is bound."""
    return Cast(operand=item, type=item.type) if isinstance(item, Literal) else item


@cache
def computed_cases(name: str) -> tuple[FunctionCase, ...]:
    """Cases of a function whose options are constant, but not literals: what its type follows from
    mustn't differ."""
    function = FUNCTIONS[name]
    found: dict[str, FunctionCase] = {}
    for arguments in _candidates(name):
        if not any(isinstance(item, Literal) and item.value is not None for item in arguments):
            continue
        shape = f"computed {_key(name, arguments)}"
        try:
            bound, result = function.bind(function.name, tuple(map(_computed, arguments)), None)
        except (ProgrammingError, DataError, NotSupportedError):
            continue
        found[shape] = FunctionCase(name, shape, Call(function=name, arguments=bound, type=result))
        if len(found) == COMPUTED_CASES:
            break
    return tuple(found.values())


_TARGETS: tuple[SqlType, ...] = (
    *INTEGERS,
    *(decimal(5, 2), decimal(15, 2), decimal(38, 10), decimal(38, 0), decimal(6, 6)),
    *(REAL, DOUBLE, BOOLEAN, VARCHAR, VARBINARY, JSON, DATE, TIME, TIMESTAMP, TIMESTAMP_TZ),
)


def cast_cases() -> list[FunctionCase]:
    """Every column to every type that it has a cast to."""
    cases = {}
    for name, (source, _) in COLUMNS.items():
        for target in _TARGETS:
            if source != target and can_cast(source, target):
                shape = f"CAST({source} AS {target})"
                expression = Cast(operand=column(name), type=target)
                cases.setdefault(shape, FunctionCase("CAST", shape, expression))
    return list(cases.values())


def form_cases() -> list[FunctionCase]:
    """What isn't a function: CASE, COALESCE, NULLIF, IN, nested errors, lazy branches."""
    i, x, s, money, d = (column(name) for name in ("i", "x", "s", "money", "d"))
    zero, one = Literal(value=0, type=INTEGER), Literal(value=1, type=INTEGER)
    safe = build.call("ne", (i, zero))
    quotient = build.call("divide", (column("i2"), i))
    guarded = build.call("gt", (quotient, one))
    forms: dict[str, Expression] = {
        "CASE guards a division": build.case([safe], [quotient], zero),
        "CASE without ELSE": build.case(
            [build.call("is_null", (s,)), build.call("eq", (s, _literal("a")))], [s, _literal("!")]
        ),
        "AND guards a division": build.call("and", (safe, guarded)),
        "OR guards a division": build.call("or", (build.call("eq", (i, zero)), guarded)),
        "AND without a guard": build.call("and", (guarded, safe)),
        "AND, three-valued": build.call(
            "and", (column("b"), column("b2"), build.call("is_null", (i,)))
        ),
        "OR, three-valued": build.call("or", (column("b"), column("b2"))),
        "COALESCE": build.coalesce([i, column("i2"), one]),
        "COALESCE is lazy": build.coalesce([column("i2"), quotient]),
        "NULLIF": build.nullif(i, one),
        "IN integers": build.in_list(i, [one, zero]),
        "IN with NULL": build.in_list(s, [_literal("a"), _literal(None), _literal("")]),
        "IN doubles": build.in_list(
            x, [Literal(value=value, type=DOUBLE) for value in (float("nan"), 0.0, 1.5)]
        ),
        "IN decimals": build.in_list(
            money,
            [
                Literal(value=1, type=INTEGER),
                Literal(value=COLUMNS["money"][1][2], type=money.type),
            ],
        ),
        "IN dates": build.in_list(
            d, [Literal(value=value, type=DATE) for value in COLUMNS["d"][1][1:3]]
        ),
        "a price with discount and tax": build.call(
            "multiply",
            (
                build.call("multiply", (money, build.call("subtract", (one, column("money2"))))),
                build.call("add", (one, column("price"))),
            ),
        ),
        "a polynomial of doubles": build.call(
            "add",
            (
                build.call("multiply", (x, x)),
                build.call("subtract", (build.call("multiply", (x, column("x2"))), x)),
            ),
        ),
    }
    return [
        FunctionCase("CASE, COALESCE, IN, AND, OR", shape, expression)
        for shape, expression in forms.items()
    ]


def literal_cases() -> list[FunctionCase]:
    """Every edge value as a literal, beside a column so that it isn't worked out before."""
    cases = []
    for name, (sql_type, values) in COLUMNS.items():
        if name.endswith("2"):
            continue
        for number, value in enumerate(values):
            chosen = Case(
                conditions=(build.call("is_null", (column("b"),)),),
                results=(column(name),),
                otherwise=Literal(value=value, type=sql_type),
                type=sql_type,
            )
            cases.append(FunctionCase("literals", f"{name}: value {number}", chosen))
    return cases


RENDERED = {"and", "or", *DUCKDB.functions, *SPARK.functions}
"""The functions that some engine has a rule for; the others are refused whatever they are given."""


@cache
def all_cases() -> tuple[FunctionCase, ...]:
    """All cases of all functions and forms."""
    functions = [case for name in FUNCTIONS if name in RENDERED for case in function_cases(name)]
    computed = [case for name in _OPTIONS if name in RENDERED for case in computed_cases(name)]
    return (*functions, *computed, *cast_cases(), *form_cases(), *literal_cases())


def columns_used(expression: Expression) -> list[int]:
    """The indexes of the columns that an expression reads."""
    return sorted({node.index for node in walk(expression) if isinstance(node, Column)})
