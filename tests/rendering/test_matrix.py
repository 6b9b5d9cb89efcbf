"""docs/functions.md and docs/spark_differences.md name what the tables of the renderings do."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import runnel
from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS
from runnel.expressions.functions import FUNCTIONS
from runnel.planner.bind.scalars.macro_table import macros
from runnel.rendering.spark.dialect import SPARK
from runnel.statements.functions import REWRITTEN
from tests.rendering.matrix import FLINK_CALLS, INTERNAL, PATH, examples, table
from tests.slt.runner import text

ROWS = "FROM (VALUES (1), (2), (4)) AS t (x)"
"""The table of the examples of aggregates and window functions."""


@pytest.fixture(scope="module")
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as found:
        yield found


@pytest.mark.parametrize("name", examples())
def test_the_documented_examples_have_the_documented_results(
    name: str, connection: runnel.Connection
) -> None:
    example = examples()[name]
    without_texts = re.sub("'[^']*'", "", example.expression)
    rows_of_x = re.search(
        r"\bx\b|COUNT_STAR|[(][*][)]|OVER \(|^(ANY_VALUE|MODE|ARBITRARY)[(]1", without_texts
    )
    sql = f"SELECT {example.expression} {ROWS if rows_of_x else ''}"
    rows = connection.execute(sql).fetchall()
    assert ", ".join(text(row[0]) for row in rows) == example.value


def test_every_function_has_an_example() -> None:
    labels = {
        function.sql_names[0] if function.sql_names else name
        for name, function in FUNCTIONS.items()
    }
    labels |= {name.upper().replace("COUNT_STAR", "COUNT(*)") for name in AGGREGATES}
    labels |= {name.upper() for name in WINDOW_FUNCTIONS} | {f"macro {name}" for name in macros()}
    labels |= {f"macro {name}" for name in FLINK_CALLS} | set(REWRITTEN)
    assert labels - examples().keys() == set(INTERNAL)


FAMILIES = ("covar", "regr", "kurtosis", "percentile")
"""The first words of aggregates that docs/spark_differences.md names together."""


def test_the_documented_matrix_is_up_to_date() -> None:
    assert PATH.read_text("utf-8") == table(), "run `python -m tests.rendering.matrix`"


def test_aggregates_that_spark_does_not_run_are_documented() -> None:
    text = (PATH.parent / "spark_differences.md").read_text("utf-8").upper()
    words = {form for word in re.findall(r"\w+", text) for form in (word, word.removesuffix("S"))}
    missing = [
        name
        for name in AGGREGATES.keys() - SPARK.aggregates.keys()
        if name.upper() not in words
        and not any(name.startswith(item) and item.upper() in words for item in FAMILIES)
    ]
    assert not missing, (
        f"name {sorted(missing)} under Left to tasklets in docs/spark_differences.md"
    )
