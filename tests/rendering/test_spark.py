"""Spark gives what our operators give, for every function, cast and aggregate that is rendered for it, over edge values."""

from __future__ import annotations

import pytest

from tests.rendering import spark_engine
from tests.spark_process import missing

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]


def test_functions_and_casts() -> None:
    assert spark_engine.mismatches() == []


def test_aggregates() -> None:
    assert spark_engine.aggregate_mismatches() == []
