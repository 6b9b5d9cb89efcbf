"""Spark gives what our operators give, for every function, cast and aggregate that is rendered for it, over edge values."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from tests.rendering import spark_engine

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark isn't installed"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]


def test_functions_and_casts() -> None:
    assert spark_engine.mismatches() == []


def test_aggregates() -> None:
    assert spark_engine.aggregate_mismatches() == []
