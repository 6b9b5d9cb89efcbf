"""Which functions, casts and aggregates run where: the table of docs/functions.md.

`python -m tests.rendering.matrix` writes the file; with `--print` it prints the table instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.functions import FUNCTIONS
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.render import Dialect, Rendering
from runnel.rendering.spark.dialect import SPARK
from tests.rendering import aggregate_cases
from tests.rendering.edge_table import COLUMN_TEXTS
from tests.rendering.function_cases import FunctionCase, cast_cases, function_cases

PATH = Path(__file__).parents[2] / "docs" / "functions.md"
ENGINES = (DUCKDB, SPARK)
INTERNAL = ("decimal_key", "exact_cast")
"""What only the planner calls: SQL has neither a name nor an operator for it."""
HEAD = """# Functions, and where they run

Every function runs on Runnel's own operators. A function is "exact" for DuckDB or Spark if
fragments contain it: the engine returns the same values, types and errors, which a generated test
compares over edge values of every type. "partly" applies to some argument types or constant
options only. A function that is "own" is never part of a fragment.

Sums of engines differ in two ways: sums of REAL and DOUBLE are compared to 1e-9 relative, and a SUM
or AVG of DECIMALs with more than 28 digits is also an overflow if only a partial sum has more than
38 digits.

COUNT_IF over no rows is 0, as COUNT is. APPROX_QUANTILE and APPROX_PERCENTILE are exact. Regular
expressions are RE2's: they take linear time, and have no look-around and no back-references.
JUSTIFY_DAYS, JUSTIFY_HOURS and JUSTIFY_INTERVAL return their argument: an INTERVAL DAY TO SECOND is
a number of microseconds, and holds no months (INTERVAL YEAR TO MONTH holds those).

This file is made by `python -m tests.rendering.matrix`.
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
    arguments = function.arguments.replace("|", "\\|")
    return f"| {shown} | {arguments} | {grades[0]} | {grades[1]} |"


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
    return f"| `{name.upper().replace('COUNT_STAR', 'COUNT(*)')}` | {grades[0]} | {grades[1]} |"


def _window_row(name: str) -> str:
    grades = ["exact" if name in dialect.windows else "own" for dialect in ENGINES]
    return f"| `{name.upper()}` | {grades[0]} | {grades[1]} |"


def table() -> str:
    """The whole file."""
    parts = [HEAD]
    families: dict[str, list[str]] = {}
    for name in sorted(set(FUNCTIONS).difference(INTERNAL)):
        families.setdefault(FUNCTIONS[name].family, []).append(_function_row(name))
    for family, rows in sorted(families.items()):
        parts.append(
            _section(family.capitalize(), ("function", "arguments", "DuckDB", "Spark"), rows)
        )
    parts.append(_section("Casts", ("from", "to", "DuckDB", "Spark"), _cast_rows()))
    aggregates = [_aggregate_row(name) for name in sorted(AGGREGATES)]
    parts.append(_section("Aggregates", ("aggregate", "DuckDB", "Spark"), aggregates))
    windows = [_window_row(name) for name in sorted(WINDOW_FUNCTIONS)]
    parts.append(_section("Window functions", ("function", "DuckDB", "Spark"), windows))
    return "\n".join(parts)


def _section(title: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    return f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(table())
    else:
        PATH.write_text(table(), "utf-8")
