"""Generated queries whose subqueries hold aggregates of the outer query return what DuckDB returns.

`python -m tests.differential.test_outer_aggregates SECONDS
[SEED]` runs for that long and prints the differences.
"""

from __future__ import annotations

import random
import sys

import pytest

from tests.differential.outer_aggregates import OuterAggregateGenerator
from tests.differential.test_generated import LEAST_SHARE, Tally, differences, main
from tests.effort import crossed, some

SEEDS = range(6)
QUERIES_PER_SEED = 14
WAYS = ("SET fragment_rows = 1000000000", "SET fragment_rows = 0")
"""Runnel's own operators, and DuckDB wherever it can run a part of the query."""


@pytest.mark.parametrize(("seed", "way"), crossed(some(SEEDS, 3), WAYS))
def test_outer_aggregates(seed: int, way: str) -> None:
    tally = Tally()
    assert list(differences(seed, QUERIES_PER_SEED, OuterAggregateGenerator, tally, (way,))) == []
    assert tally.agreed >= LEAST_SHARE * QUERIES_PER_SEED, str(tally)


def test_all_shapes_are_made() -> None:
    """The generator's own test: the seeds reach every shape."""
    generator = OuterAggregateGenerator(random.Random(1))
    queries = [generator.query()[0] for _ in range(100)]
    assert any("GROUP BY" not in query for query in queries)
    texts = " ".join(queries)
    for part in (
        "GROUP BY",
        "HAVING EXISTS",
        "HAVING NOT EXISTS",
        "FILTER",
        "CASE WHEN",
        "SELECT DISTINCT",
        "IN (SELECT",
        "z.v",
    ):
        assert part in texts


if __name__ == "__main__":
    main(
        float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000, OuterAggregateGenerator
    )
