"""Numbers of keys: the same key has the same number, whichever way it is found."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest

from runnel.processors.panes import key_numbers
from runnel.processors.panes.key_numbers import KeyNumbers


@pytest.mark.parametrize("seed", range(5))
def test_keys_are_told_apart(seed: int) -> None:
    chance = random.Random(seed)
    numbered = KeyNumbers((pa.int64(), pa.string()))
    known: dict[tuple[int | None, str | None], int] = {}
    for _ in range(30):
        rows = [
            (chance.choice([None, *range(40)]), chance.choice([None, "", "a", "b"]))
            for _ in range(chance.randrange(80))
        ]
        keys = [
            pa.array([row[0] for row in rows], pa.int64()),
            pa.array([row[1] for row in rows], pa.string()),
        ]
        found = numbered.numbers_of(keys, len(rows))
        assert found is not None
        for row, number in zip(rows, found.tolist(), strict=True):
            assert known.setdefault(row, number) == number
        assert numbered.count == len(set(known.values())) == len(known)
        if chance.random() < 0.3 and known:
            kept = np.flatnonzero(np.array([chance.random() < 0.5 for _ in range(numbered.count)]))
            numbered.retain(kept)
            places = {int(old): new for new, old in enumerate(kept)}
            known = {row: places[number] for row, number in known.items() if number in places}


def test_keys_with_one_hash_are_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "runnel.processors.panes.key_numbers.hash_columns",
        lambda keys: np.zeros(len(keys[0]), np.uint64),
    )
    numbered = KeyNumbers((pa.string(),))
    assert numbered.numbers_of([pa.array(["a", "a"])], 2) is not None
    assert numbered.numbers_of([pa.array(["b"])], 1) is None


def _numbers(numbered: KeyNumbers, values: list[object], kind: pa.DataType) -> list[int]:
    """The numbers of the values of one key, checked against the keys of these numbers."""
    column = pa.array(values, kind)
    found = numbered.numbers_of([column], len(values))
    assert found is not None
    (keys,) = numbered.keys
    assert repr(keys.take(pa.array(found)).to_pylist()) == repr(values)
    assert len(keys) == numbered.count
    return found.tolist()


def test_small_ranges_need_no_table() -> None:
    numbered = KeyNumbers((pa.int64(),))
    assert _numbers(numbered, [7, 9, 7], pa.int64()) == [7, 9, 7]
    assert numbered.is_range
    assert numbered.count == 10
    assert _numbers(numbered, [4000], pa.int64()) == [4000]
    # A key below the least one, or a NULL: the numbers that were assigned stay.
    assert _numbers(numbered, [9, -1, 9], pa.int64()) == [9, 4001, 9]
    assert not numbered.is_range
    assert _numbers(numbered, [None, 7, 10**15], pa.int64()) == [4002, 7, 4003]


def test_a_range_begins_where_the_keys_are() -> None:
    numbered = KeyNumbers((pa.timestamp("us"),))
    start = 10**15
    kind = pa.timestamp("us")
    found = numbered.numbers_of([pa.array([start + 2, start, start + 5], pa.int64()).view(kind)], 3)
    assert found is not None
    assert found.tolist() == [2, 0, 5]
    assert numbered.keys[0].view(pa.int64()).to_pylist() == list(range(start, start + 6))


def test_a_range_at_the_end_of_the_integers() -> None:
    last = 2**63 - 1
    for kind in (pa.int64(), pa.timestamp("us")):
        numbered = KeyNumbers((kind,))
        keys = pa.array([last, last - 1, last], pa.int64()).view(kind)
        found = numbered.numbers_of([keys], 3)
        assert found is not None
        assert numbered.keys[0].take(pa.array(found)).equals(keys)


def test_a_range_is_not_wider_than_the_keys_that_are_left() -> None:
    numbered = KeyNumbers((pa.int64(),))
    for _ in range(30):
        numbered.numbers_of([pa.array(np.arange(100_000) % 1000)], 100_000)
    numbered.numbers_of([pa.array([0, 50_000_000])], 2)
    assert numbered.count <= 1001
    numbered.retain(np.array([], np.int64))
    numbered.numbers_of([pa.array([0, 50_000])], 2)
    assert numbered.count == 2


def test_wide_ranges_are_numbered_by_their_hashes() -> None:
    numbered = KeyNumbers((pa.int32(),))
    assert _numbers(numbered, [2**31 - 1, -(2**31), 0], pa.int32()) == [0, 1, 2]
    numbered.retain(np.array([2, 0]))
    assert _numbers(numbered, [2**31 - 1, 0, 5], pa.int32()) == [1, 0, 2]


@pytest.mark.parametrize("encoded_rows", [1, 1 << 10])
def test_text_is_reduced_to_distinct_values_first(
    encoded_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_numbers, "ENCODED_ROWS", encoded_rows)
    numbered = KeyNumbers((pa.string(),))
    assert _numbers(numbered, ["b", "a", None, "b", "b", "a", None], pa.string()) == [
        0,
        1,
        2,
        0,
        0,
        1,
        2,
    ]
    assert _numbers(numbered, ["c", "a"] * 3, pa.string()) == [3, 1] * 3


@pytest.mark.parametrize("encoded_rows", [1, 1 << 10])
def test_doubles_that_are_one_key(encoded_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_numbers, "ENCODED_ROWS", encoded_rows)
    numbered = KeyNumbers((pa.float64(),))
    values = pa.array([0.0, -0.0, math.nan, -math.nan, 1.5, 0.0], pa.float64())
    found = numbered.numbers_of([values], 6)
    assert found is not None
    assert found.tolist() == [0, 0, 1, 1, 2, 0]


def test_many_keys_over_many_calls() -> None:
    numbered = KeyNumbers((pa.int64(),))
    chance = random.Random(1)
    known: dict[int, int] = {}
    for _ in range(40):
        values = [chance.randrange(-(10**12), 10**12) for _ in range(300)]
        values += chance.choices(list(known) or [0], k=50)
        found = numbered.numbers_of([pa.array(values)], len(values))
        assert found is not None
        for value, number in zip(values, found.tolist(), strict=True):
            assert known.setdefault(value, number) == number
    assert numbered.count == len(set(known.values())) == len(known)
