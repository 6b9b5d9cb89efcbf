"""Spark gives what our operators give, for functions, casts and aggregates that are rendered for it, over edge values.

Of functions and casts every third case; `python -m tests.both_runtimes edges` takes all.
"""

from __future__ import annotations

import pytest

from tests.rendering import spark_engine
from tests.rendering.function_cases import all_cases
from tests.spark_process import missing

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]


def test_functions_and_casts() -> None:
    assert spark_engine.mismatches(all_cases()[::3], failing=25) == []


def test_aggregates() -> None:
    assert spark_engine.aggregate_mismatches() == []
