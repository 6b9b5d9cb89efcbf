"""docs/functions.md and docs/spark_differences.md name what the tables of the renderings do."""

from __future__ import annotations

import re

from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.rendering.spark.dialect import SPARK
from tests.rendering.matrix import PATH, table

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
