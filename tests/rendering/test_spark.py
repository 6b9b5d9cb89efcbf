"""Spark gives what our operators give, for functions, casts and aggregates that are rendered for
it, over edge values.

Of functions and casts some cases; `python -m tests.both_runtimes edges` takes all.
"""

from __future__ import annotations

import pytest

from tests.effort import ALL, some
from tests.rendering import aggregate_cases, function_cases, spark_engine
from tests.spark_process import missing

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]


def test_functions_and_casts() -> None:
    assert (
        spark_engine.mismatches(some(function_cases.all_cases(), 9), failing=25 if ALL else 16)
        == []
    )


def test_aggregates() -> None:
    assert spark_engine.aggregate_mismatches(some(aggregate_cases.all_cases(), 3)) == []
