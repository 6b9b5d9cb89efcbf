"""DuckDB gives what our operators give, for every function, cast and aggregate that is rendered for
it, over edge values."""

from __future__ import annotations

import pytest

from tests.effort import some
from tests.rendering import duckdb_engine
from tests.rendering.function_cases import all_cases

PARTS = 6


@pytest.mark.parametrize("part", some(range(PARTS), 3))
def test_functions_and_casts(part: int) -> None:
    assert duckdb_engine.mismatches(all_cases()[part::PARTS]) == []


def test_aggregates() -> None:
    assert duckdb_engine.aggregate_mismatches() == []
