"""Which functions, casts and aggregates run where: the table of docs/functions.md.

`python -m tests.rendering.matrix` writes the file; with `--print` it prints the table instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.functions import FUNCTIONS
from runnel.expressions.left_out import families
from runnel.foreign.fragment import Unrenderable
from runnel.planner.bind.scalars.macro_table import macros
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.render import Dialect, Rendering
from runnel.rendering.spark.dialect import SPARK
from runnel.statements.functions import REWRITTEN, aggregate_signature, window_signature
from tests.rendering import aggregate_cases
from tests.rendering.edge_table import COLUMN_TEXTS
from tests.rendering.function_cases import FunctionCase, cast_cases, function_cases
from tests.rendering.notes import AFTER, BEFORE

PATH = Path(__file__).parents[2] / "docs" / "functions.md"
ENGINES = (DUCKDB, SPARK)
COLUMNS = ("function", "arguments", "result", "", "example", "DuckDB", "Spark")
INTERNAL = (
    "limited",
    "try_limited",
    "not_null",
    "decimal_key",
    "exact_cast",
    "parse_time",
    "in_sample",
    "json_array_of_list",
    "json_object_of_lists",
    "json_outcome",
    "duration_micros",
    "interval_length",
    "interval_form",
    "interval_from_length",
    "interval_from_parts",
    "interval_months",
    "interval_days",
    "interval_micros",
    "time_range",
    "time_series",
    "calendar_sum",
    "calendar_difference",
)
"""What only the planner calls: SQL has neither a name nor an operator for it."""
EXAMPLES_PATH = Path(__file__).with_name("function_examples.txt")
HEAD = """# Functions, and where they run

Each function has a sentence and an example, which is run as a test. In the examples of aggregates
and window functions, `x` is a column with the values 1, 2 and 4. `SHOW FUNCTIONS` lists the
functions in a session.

Every function runs on Runnel's own operators. A function is "exact" for DuckDB or Spark if
fragments contain it: the engine returns the same values, types and errors, which a generated test
compares over edge values of every type. "partly" applies to some argument types or constant
options only. A function that is "own" is never part of a fragment.

Sums of engines differ in two ways: sums of REAL and DOUBLE are compared to 1e-9 relative, and a SUM
or AVG of DECIMALs with more than 28 digits is also an overflow if only a partial sum has more than
38 digits.

COUNT_IF over no rows is 0, as COUNT is. APPROX_QUANTILE and APPROX_PERCENTILE are not estimates.
Regular expressions are RE2's: they take linear time, and have no look-around and no
back-references.
SUM and AVG also accept intervals: SUM adds up the months, the days and the time, and AVG divides
the sum. MIN, MAX and COUNT(DISTINCT …) compare INTERVALs with a month as 30 days.

This file is made by `python -m tests.rendering.matrix`, with the sentences and examples of
`tests/rendering/function_examples.txt`.
"""
LEFT_OUT = """## Left out

Functions of DuckDB and PostgreSQL that Runnel doesn't have, by family, with the reason or the
replacement, which is also the hint of the error for such a name. `*` stands for any characters. A
test compares this table, and the names above, with DuckDB's list of its functions and with the
names on PostgreSQL's pages of functions.
"""


def _grade(taken: int, total: int) -> str:
    if taken == 0:
        return "own"
    return "exact" if taken == total else "partly"


def _is_taken(case: FunctionCase, dialect: Dialect) -> bool:
    try:
        Rendering(dialect).expression(case.expression, COLUMN_TEXTS)
    except Unrenderable:
        return False
    return True


def _function_row(name: str) -> str:
    function = FUNCTIONS[name]
    shown = " ".join(f"`{item}`" for item in function.sql_names) or f"`{name}`"
    grades = []
    for dialect in ENGINES:
        if name not in dialect.functions and name not in ("and", "or"):
            grades.append("own")
            continue
        cases = function_cases(name)
        grades.append(_grade(sum(_is_taken(case, dialect) for case in cases), len(cases)))
    # Unescaped, `[a] [b]` would be a reference to a heading.
    arguments = function.arguments.replace("|", "\\|").replace("] [", "] \\[")
    label = function.sql_names[0] if function.sql_names else name
    sentence, example = _example(label)
    # Unescaped, `[][]` would be a reference to a heading.
    result = function.result.replace("|", "\\|").replace("[][]", "\\[]\\[]")
    return (
        f"| {shown} | {arguments} | {result} | {sentence} | {example} | {grades[0]} | {grades[1]} |"
    )


class Example(NamedTuple):
    """A sentence about a function, and an expression with its value as text."""

    sentence: str
    expression: str
    value: str


@cache
def examples() -> dict[str, Example]:
    """The examples by the name of the function; `macro NAME` for a macro."""
    lines = EXAMPLES_PATH.read_text("utf-8").splitlines()
    found = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, *rest = line.split(" — ")
            found[name] = Example(*rest)
    return found


def _example(name: str) -> tuple[str, str]:
    """The sentence and the example of a function, as cells of a table."""
    found = examples()[name]
    text = f"`{found.expression}` → `{found.value}`".replace("|", "\\|")
    return found.sentence, text


def _macro_rows() -> list[str]:
    rows = []
    for name, found in macros().items():
        macro = found[0]
        if macro.parameters is None:
            head = name
            body = macro.body.removesuffix(" NULL").replace("[", "ARRAY[…]")
        else:
            head = f"{name}({', '.join(macro.parameters)})"
            body = {"$VERSION": "the version", "$USER": "the name of the user"}.get(
                macro.body, macro.body.replace("|", "\\|")
            )
            if body.startswith("$"):
                body = body.replace("$", "the name of the ")
        body = body if body.startswith("the ") else f"`{body}`"
        rows.append(f"| `{head}` | {body} | {macro.family} | {_example(f'macro {name}')[1]} |")
    for name, (head, body) in FLINK_CALLS.items():
        rows.append(f"| `{head}` | {body} | date-time | {_example(f'macro {name}')[1]} |")
    return rows


FLINK_CALLS = {
    "DATE_FORMAT": ("DATE_FORMAT(x, pattern)", "`TO_CHAR`, with a pattern of Java"),
    "TO_TIMESTAMP_LTZ": (
        "TO_TIMESTAMP_LTZ(x [, digits or pattern])",
        "the instant of a text in the session's zone, or of milliseconds since 1970; of seconds "
        "if `digits` is 0",
    ),
    "FROM_UNIXTIME": (
        "FROM_UNIXTIME(seconds [, pattern])",
        "`DATE_FORMAT` of an instant in the session's zone",
    ),
    "UNIX_TIMESTAMP": (
        "UNIX_TIMESTAMP([x [, pattern]])",
        "the seconds since the epoch of an instant, or of a local time",
    ),
}
"""The functions of `other_forms`, with the arguments and the meaning."""


def _cast_rows() -> list[str]:
    families: dict[tuple[str, str], list[FunctionCase]] = {}
    for case in cast_cases():
        source, target = case.expression.children[0].type, case.expression.type
        families.setdefault((source.kind.name, target.kind.name), []).append(case)
    rows = []
    for (source, target), cases in families.items():
        grades = [
            _grade(sum(_is_taken(case, dialect) for case in cases), len(cases))
            for dialect in ENGINES
        ]
        if grades != ["own", "own"]:
            rows.append(f"| {_type(source)} | {_type(target)} | {grades[0]} | {grades[1]} |")
    return sorted(rows)


def _type(kind: str) -> str:
    return {"TIMESTAMP_TZ": "TIMESTAMP WITH TIME ZONE"}.get(kind, kind)


def _aggregate_row(name: str) -> str:
    cases = [case for case in aggregate_cases.all_cases() if case.call.function == name]
    grades = []
    for dialect in ENGINES:
        taken = sum(aggregate_cases.rendered(case, dialect) is not None for case in cases)
        known = name in dialect.aggregates
        grades.append(_grade(taken, len(cases)) if cases else ("partly" if known else "own"))
    label = name.upper().replace("COUNT_STAR", "COUNT(*)")
    names = (label, *(item.upper() for item in AGGREGATES[name].sql_names))
    return _signed_row(names, aggregate_signature(AGGREGATES[name]), grades)


def _signed_row(names: Sequence[str], signature: tuple[str, str], grades: Sequence[str]) -> str:
    """The row of an aggregate or a window function."""
    shown = " ".join(f"`{item}`" for item in names)
    # Unescaped, `[a] [b]` would be a reference to a heading.
    arguments, result = (text.replace("|", "\\|").replace("] [", "] \\[") for text in signature)
    cells = (shown, arguments, result, *_example(names[0]), *grades)
    return f"| {' | '.join(cells)} |"


def _rewritten_rows() -> list[str]:
    """The aggregates that the binder replaces: engines run what they run of the replacement."""
    runs = {"GROUPING": ("own", "own"), "MEDIAN": ("own", "own")}
    return [
        _signed_row((name,), signature, runs.get(name, ("exact", "exact")))
        for name, signature in REWRITTEN.items()
    ]


def _window_row(name: str) -> str:
    grades = ["exact" if name in dialect.windows else "own" for dialect in ENGINES]
    return _signed_row((name.upper(),), window_signature(WINDOW_FUNCTIONS[name]), grades)


def table() -> str:
    """The whole file."""
    parts = [HEAD]
    families: dict[str, list[str]] = {}
    for name in sorted(set(FUNCTIONS).difference(INTERNAL)):
        families.setdefault(FUNCTIONS[name].family, []).append(_function_row(name))
    for family, rows in sorted(families.items(), key=lambda item: item[0].lower()):
        parts.append(_section(family[0].upper() + family[1:], COLUMNS, rows))
    parts.append(_section("Casts", ("from", "to", "DuckDB", "Spark"), _cast_rows()))
    aggregates = [*(_aggregate_row(name) for name in AGGREGATES), *_rewritten_rows()]
    parts.append(_section("Aggregates", COLUMNS, sorted(aggregates)))
    windows = [_window_row(name) for name in sorted(WINDOW_FUNCTIONS)]
    parts.append(_section("Window functions", COLUMNS, windows))
    parts.append(
        "## Other names\n\nNames of DuckDB, PostgreSQL and Flink that stand for a function or a\n"
        "short expression. Where they differ, the name means what it means in DuckDB. Engines run\n"
        "what they run of the expression. Patterns of Java, such as yyyy-MM-dd HH:mm:ss, are also\n"
        "accepted by TO_TIMESTAMP and TO_DATE, and give a TIMESTAMP; of one text, TO_TIMESTAMP is\n"
        "a CAST to TIMESTAMP.\n"
    )
    parts.append(_section("", ("name", "stands for", "family", "example"), _macro_rows())[4:])
    parts.append(_left_out())
    return "\n".join(parts)


def _left_out() -> str:
    rows = []
    for family, reason, names in families():
        listed = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| {family} | {listed} | {reason.replace('|', chr(92) + '|')} |")
    head = "| family | functions | reason |\n|---|---|---|"
    return f"{LEFT_OUT}\n{head}\n" + "\n".join(rows) + "\n"


def _section(title: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    above, below = BEFORE.get(title, ""), AFTER.get(title, "")
    return f"## {title}\n{above}\n{head}\n" + "\n".join(rows) + f"\n{below}"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(table())
    else:
        PATH.write_text(table(), "utf-8")
