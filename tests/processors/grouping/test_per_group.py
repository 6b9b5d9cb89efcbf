"""LIMIT within groups, series of each row, the rows seen by a recursion."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from runnel.expressions.nodes import Literal, SortKey
from runnel.processors.grouping import group_limit as group_limit_module
from runnel.processors.grouping.distinct_rows import DistinctRows
from runnel.processors.grouping.group_limit import group_limit
from runnel.processors.series import series
from runnel.sqltypes import BIGINT, INTERVAL_MONTH
from runnel.testing import verify_processor
from tests.processors.random_tables import columns_of, random_table

QUICK: dict[str, Any] = {"row_by_row": False, "ordered": False}


def number(value: int) -> Literal:
    return Literal(value=value, type=BIGINT)


@pytest.mark.parametrize(("count", "offset"), [(1, None), (2, 1), (None, 1), (0, None), (100, 3)])
def test_the_first_rows_of_each_group(
    count: int | None, offset: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_limit_module, "LEAST_BUFFER", 16)
    source = random.Random(3)
    rows = [(source.choice([None, 1, 2, 3]), place) for place in source.sample(range(90), 90)]
    table = pa.table({"g": [row[0] for row in rows], "n": [row[1] for row in rows]})
    columns = columns_of(table)
    limit = None if count is None else number(count)
    skipped = None if offset is None else number(offset)
    supplier = group_limit([columns["g"]], [SortKey(columns["n"], True, False)], limit, skipped)
    expected = []
    for group in (None, 1, 2, 3):
        found = sorted((row for row in rows if row[0] == group), key=lambda row: -row[1])
        first = offset or 0
        expected += found[first:] if count is None else found[first : first + count]
    verify_processor(supplier, [table.to_batches(max_chunksize=7)], expected, **QUICK)


def test_without_groups_it_is_a_limit() -> None:
    table = pa.table({"n": list(range(10))})
    supplier = group_limit([], [SortKey(columns_of(table)["n"])], number(3), number(2))
    verify_processor(supplier, [table.to_batches()], [(2,), (3,), (4,)], **QUICK)


@pytest.mark.parametrize("outer", [False, True])
def test_series_of_numbers(outer: bool) -> None:
    rows = [
        (1, 3, 1),
        (3, 1, -1),
        (1, 0, 1),
        (None, 1, 1),
        (5, 5, 7),
        (0, 10, 4),
        (2**63 - 2, 2**63 - 1, 1),
    ]
    table = pa.table(
        dict(
            zip(
                "abc", (pa.array(item, pa.int64()) for item in zip(*rows, strict=True)), strict=True
            )
        )
    )
    columns = columns_of(table)
    supplier = series(
        (columns["a"], columns["b"], columns["c"]),
        ("a", "v", "i"),
        outer=outer,
        ordinality=True,
        columns=(0, 3, 4),
    )
    expected: list[Any] = []
    for a, b, c in rows:
        values = [] if a is None else list(range(a, b + (1 if c > 0 else -1), c))
        expected += [(a, value, place) for place, value in enumerate(values, 1)]
        if outer and not values:
            expected.append((a, None, None))
    verify_processor(supplier, [table.to_batches(max_chunksize=3)], expected, **QUICK)


def months_on(start: datetime, stop: datetime, step: int) -> list[datetime]:
    """Step after step, as PostgreSQL has it."""
    found, at = [], start
    while at <= stop if step > 0 else at >= stop:
        found.append(at)
        total = at.year * 12 + at.month - 1 + step
        year, month = divmod(total, 12)
        after = datetime(year + (month == 11), (month + 1) % 12 + 1, 1)
        at = at.replace(
            year=year, month=month + 1, day=min(at.day, (after - timedelta(days=1)).day)
        )
    return found


def test_series_of_months_add_step_after_step() -> None:
    source = random.Random(7)
    rows = []
    for _ in range(60):
        start = datetime(
            source.randint(1965, 2024), source.randint(1, 12), source.randint(1, 28)
        ) + timedelta(days=source.choice([0, 1, 2, 3]), hours=source.choice([0, 13]))
        step = source.choice([1, 2, 5, 12, 13, -1, -7])
        rows.append(
            (start, start + timedelta(days=source.randint(0, 2500) * (1 if step > 0 else -1)), step)
        )
    table = pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.timestamp("us")),
            "b": pa.array([row[1] for row in rows], pa.timestamp("us")),
        }
    )
    columns = columns_of(table)
    for step in sorted({row[2] for row in rows}):
        chosen = [i for i, row in enumerate(rows) if row[2] == step]
        part = table.take(pa.array(chosen))
        interval = Literal(value=step, type=INTERVAL_MONTH)
        supplier = series((columns["a"], columns["b"], interval), ("v",), columns=(2,))
        expected = [(value,) for i in chosen for value in months_on(*rows[i])]
        verify_processor(supplier, [part.to_batches()], expected, **QUICK)


@pytest.mark.parametrize("keys", ["i", "is", "fisn"])
def test_new_rows_are_new_once(keys: str) -> None:
    seen, known = DistinctRows(), set()
    for seed in range(40):
        batch = random_table(seed, seed % 9 * 3, keys, "c").combine_chunks().to_batches()
        for part in batch:
            found = [tuple(map(repr, row.values())) for row in seen.new_rows(part).to_pylist()]
            wanted = {tuple(map(repr, row.values())) for row in part.to_pylist()}
            plain = {tuple(item.replace("-0.0", "0.0") for item in row) for row in found}
            assert len(plain) == len(found)
            fresh = {tuple(item.replace("-0.0", "0.0") for item in row) for row in wanted} - known
            assert plain == fresh
            known |= fresh
    assert seen.count == len(known)
