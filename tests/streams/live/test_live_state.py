"""The state of live operators, compared with dictionaries."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from runnel.columns.key_hash import hash_columns
from runnel.processors.live import group_slots
from runnel.processors.live.arrangement import Arrangement
from runnel.processors.live.consolidation import net_changes
from runnel.processors.live.group_slots import GroupSlots
from runnel.processors.live.row_log import RowLog
from runnel.processors.live.slot_rows import SlotRows

KEYS = ["a", "b", "c", "d", "e", None]


def columns_of(rows: list[tuple[str | None, int]]) -> list[pa.Array]:
    keys, values = zip(*rows, strict=True)
    return [pa.array(keys, pa.string()), pa.array(values, pa.int64())]


@pytest.mark.parametrize("seed", range(20))
def test_an_arrangement_has_the_rows_with_their_weights(seed: int) -> None:
    rng = random.Random(seed)
    arrangement = Arrangement(1)
    expected: Counter[tuple[str | None, int]] = Counter()
    for _ in range(40):
        rows = [(rng.choice(KEYS), rng.randrange(4)) for _ in range(rng.randint(1, 30))]
        weights = []
        for row in rows:
            leaves = expected[row] > 0 and rng.random() < 0.6
            weights.append(-1 if leaves else rng.randint(1, 2))
            expected[row] += weights[-1]
        arrangement.add(columns_of(rows), np.array(weights, np.int64))
        probes = rng.sample(KEYS, 2)
        found = arrangement.rows_with(hash_columns([pa.array(probes, pa.string())]))
        observed: Counter[tuple[str | None, int]] = Counter()
        if found is not None:
            columns, counts = found
            pairs = zip(columns[0].to_pylist(), columns[1].to_pylist(), strict=True)
            for row, count in zip(pairs, counts.tolist(), strict=True):
                observed[row] += count
        assert +observed == Counter(
            {row: n for row, n in expected.items() if row[0] in probes and n}
        )
    assert arrangement.rows < 400  # most of the rows that were retracted have left it


def test_rows_without_a_key_have_one_key() -> None:
    arrangement = Arrangement(0)
    arrangement.add(columns_of([("a", 1), ("b", 2)]), np.array([1, 1]))
    arrangement.add(columns_of([("a", 1)]), np.array([-1]))
    found = arrangement.rows_with(arrangement.hashes_of([], 1))
    assert found is not None
    assert (found[0][0].to_pylist(), found[1].tolist()) == (["b"], [1])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("collides", [False, True])
def test_slots_number_distinct_keys(
    seed: int, collides: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collides:  # all keys share one of two hashes
        monkeypatch.setattr(group_slots, "hash_columns", lambda keys: hash_columns(keys) % 2)
    rng = random.Random(seed)
    slots = GroupSlots([pa.string(), pa.int64()])
    numbers: dict[tuple[str | None, int], int] = {}
    for _ in range(10):
        rows = [(rng.choice(KEYS), rng.randrange(20)) for _ in range(rng.randint(1, 40))]
        known = dict(numbers)
        found, is_new = slots.slots(columns_of(rows), len(rows))
        for row, slot, new in zip(rows, found.tolist(), is_new.tolist(), strict=True):
            assert numbers.setdefault(row, slot) == slot
            assert new is (row not in known)
        assert sorted(numbers.values()) == list(range(slots.count))
        keys = slots.keys_of(np.arange(slots.count))
        pairs = zip(keys[0].to_pylist(), keys[1].to_pylist(), strict=True)
        assert list(pairs) == sorted(numbers, key=numbers.__getitem__)


@pytest.mark.parametrize("seed", range(5))
def test_a_slot_has_its_last_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, expected = SlotRows(), dict[int, int]()
    for step in range(200):
        slots = np.unique(rng.integers(0, 300, rng.integers(1, 60)))
        values = slots * 1000 + step
        rows.put(slots, [pa.array(values)])
        expected.update(zip(slots.tolist(), values.tolist(), strict=True))
        probes = rng.permutation(np.array(list(expected)))[:50]
        assert rows.get(probes)[0].to_pylist() == [expected[slot] for slot in probes.tolist()]
        assert rows.count == len(expected)


def test_a_log_returns_rows_in_the_requested_order() -> None:
    log = RowLog()
    for start in (0, 10, 13, 14, 30):
        log.append([pa.array(range(start, start + 4), pa.int64())], 4)
    expected = [*range(4), *range(10, 14), *range(13, 17), *range(14, 18), *range(30, 34)]
    order = np.array([19, 0, 7, 7, 12, 3])
    assert log.take(order)[0].to_pylist() == [expected[i] for i in order]
    assert len(log) == 20


def test_net_changes() -> None:
    rows = columns_of([("a", 1), ("b", 1), ("a", 1), (None, 2), ("c", 1), (None, 2)])
    kept, weights = net_changes(rows, np.array([1, 1, -1, 1, -2, 1]))
    assert (kept.tolist(), weights.tolist()) == ([1, 3, 4], [1, 2, -2])
    kept, weights = net_changes([], np.array([3, -1]))
    assert (kept.tolist(), weights.tolist()) == ([0], [2])
