"""How tests are dealt to several processes (pytest-xdist, `--dist loadfile`).

A file stays in one process, as its tests share what takes long to make. Files that take longest
come first, so that no process is left alone with one of them in the end; and all that runs on Spark
goes to one process, so that there is one JVM, warm, and with it what works out the cases of both
renderings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = ("tests/spark/", "tests/both_runtimes/", "tests/rendering/")

LONGEST = (
    *SPARK,
    "tests/test_examples.py",
    "tests/test_memory.py",
    "tests/processors/sessions/test_session_aggregate.py",
    "tests/processors/time_windows/test_framed_aggregate.py",
    "tests/fragments/test_generated_on_duckdb.py",
    "tests/torture/",
    "tests/tpch/",
    "tests/fragments/test_slt_on_duckdb.py",
    "tests/processors/test_spilling.py",
    "tests/processors/sessions/test_session_rows.py",
    "tests/processors/time_windows/test_timed_aggregate.py",
    "tests/differential/",
    "tests/snapshots/",
    "tests/dbapi/connection/test_lifecycle.py",
    "tests/jobs/",
    "tests/nexmark/",
    "tests/slt/",
    "tests/streams/",
    "tests/fragments/",
    "tests/processors/",
)
"""Files and folders, about in the order of what they take; the others follow by the number of their
tests."""


class Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return "on Spark" if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def longest_first(items: list[pytest.Item]) -> None:
    """Puts the tests in that order; those of a file stay in theirs."""
    counts = Counter(_file(item) for item in items)
    ranks = {file: (_rank(file, LONGEST), -count) for file, count in counts.items()}
    items.sort(key=lambda item: (*ranks[_file(item)], _file(item)))


def _file(item: pytest.Item) -> str:
    return item.nodeid.split("::", 1)[0]


def _rank(file: str, order: Sequence[str]) -> int:
    return next((rank for rank, start in enumerate(order) if file.startswith(start)), len(order))
