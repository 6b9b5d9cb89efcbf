"""How much the tests try.

A property that is tried with many seeds, or at several parallelisms, is tried with some of them, so
that the suite stays short; with `RUNNEL_TESTS=all` in the environment, with all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeVar

import pytest

A = TypeVar("A")
B = TypeVar("B")

ALL = os.environ.get("RUNNEL_TESTS") == "all"

takes_long = pytest.mark.skipif(
    not ALL, reason="takes long; RUNNEL_TESTS=all in the environment runs it"
)
"""Of what starts a Spark of its own, or has one start many processes, and whose parts other tests
try."""


def some(cases: Iterable[A], every: int) -> Sequence[A]:
    """Each so-manieth of the cases, the first among them."""
    return list(cases)[:: 1 if ALL else every]


def drawn(cases: Iterable[A], every: int) -> Sequence[A]:
    """Each so-manieth of the cases, beginning with another one in each run: for use within a test,
    where `random` is seeded by `--randomly-seed`, which pytest prints."""
    return list(cases)[slice(None) if ALL else slice(random.randrange(every), None, every)]


def examples(count: int) -> int:
    """How many examples of Hypothesis' of so many."""
    return count if ALL else max(12, count // 3)


def crossed(first: Iterable[A], second: Sequence[B]) -> Sequence[tuple[A, B]]:
    """Each of the first with one of the second, in turn; or each with each."""
    if ALL:
        return list(product(first, second))
    return [(item, second[number % len(second)]) for number, item in enumerate(first)]
