"""The number of Python calls of a statement whose plan is cached. It costs what its calls cost, and
unlike its time their number does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count, cycle
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.base.clock import SystemClock

REPEATS = 10
MOST_CALLS = {"light job": 175, "scan": 180, "look-up": 35}
"""The number of Python calls, with a few more than there are: a comprehension or a context manager
at the start of each statement would exceed it."""


def calls_of(run: Callable[[], object]) -> float:
    """The number of Python calls of one run."""
    for _ in range(3):  # plans, templates and lazily loaded modules
        run()
    calls = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for _ in range(REPEATS):
            run()
    finally:
        sys.setprofile(before)
    return calls / REPEATS


@pytest.mark.parametrize("kind", MOST_CALLS)
def test_the_number_of_calls_is_limited(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A nanosecond per reading, so that no step ends for lack of time. A clock of the connection
    # would be checked at each reading, which takes calls.
    monkeypatch.setattr(SystemClock, "monotonic", staticmethod(count(1).__next__))
    keys = cycle(range(50))
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap")
        cursor.execute("SINK INTO m SELECT v, v * 3 FROM TABLE(GENERATE_SERIES(0, 99))")
        connection.register("t", pa.table({"k": [i % 10 for i in range(100)], "v": range(100)}))
        runs = {
            "light job": lambda: cursor.execute(
                "SELECT k, SUM(v) FROM t WHERE v > ? GROUP BY k", (next(keys),)
            ).fetchall(),
            "scan": lambda: cursor.execute("SELECT k, v FROM t").fetchall(),
            "look-up": lambda: cursor.execute(
                "SELECT this FROM m WHERE __key = ?", (next(keys),)
            ).fetchone(),
        }
        assert calls_of(runs[kind]) <= MOST_CALLS[kind]
