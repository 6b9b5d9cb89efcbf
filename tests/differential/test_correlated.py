"""Generated queries with correlated subqueries give what DuckDB gives.

`python -m tests.differential.test_correlated SECONDS [SEED]` goes on for as long as told and prints
what it finds.
"""

from __future__ import annotations

import random
import sys

import pytest

from tests.differential.correlated import CorrelatedGenerator
from tests.differential.test_generated import LEAST_SHARE, Tally, differences, main
from tests.effort import some

SEEDS = range(4)
QUERIES_PER_SEED = 25


@pytest.mark.parametrize("seed", some(SEEDS, 2))
def test_correlated_subqueries(seed: int) -> None:
    tally = Tally()
    assert list(differences(seed, QUERIES_PER_SEED, CorrelatedGenerator, tally)) == []
    assert tally.agreed >= LEAST_SHARE * QUERIES_PER_SEED, str(tally)


def test_all_shapes_are_made() -> None:
    """The generator's own test: what it should reach, it reaches."""
    generator = CorrelatedGenerator(random.Random(1))
    texts = " ".join(generator.query()[0] for _ in range(400))
    for word in (
        "LATERAL",
        "NOT IN",
        "ALL (",
        "EXCEPT",
        "HAVING",
        "LIMIT 1 OFFSET 1",
        "FULL JOIN",
        "DISTINCT",
    ):
        assert word in texts


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000, CorrelatedGenerator)
