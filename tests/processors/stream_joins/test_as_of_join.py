"""As-of joins: random disorder and batch cuts, compared with DuckDB's; versions are forgotten."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runnel.columns.key_hash import hash_columns
from runnel.processors.stateful import state_account
from runnel.processors.stream_joins import as_of_join as module
from runnel.processors.stream_joins.as_of_join import as_of_join, superseded
from runnel.processors.stream_joins.sorted_runs import JoinRows, SortedRun
from runnel.relation.stream_joins import AsOfShape
from runnel.relation.streams import TimeBound
from runnel.storage.memory_budget import Reservation
from runnel.testing import assert_rows, verify_processor
from tests.effort import some
from tests.processors.random_tables import columns_of, duckdb_rows, fields_of
from tests.processors.stream_joins.disorder import check_promises, stream_of
from tests.streams.eager_memory import EagerMemory, spill_eagerly

LEFT_TIME, RIGHT_TIME = 1, 2
SIGNS = {(False, False): ">=", (True, False): ">", (False, True): "<=", (True, True): "<"}
"""By `strict` and `forward`."""


def table_of(rng: random.Random, prefix: str, count: int, unique: bool) -> pa.Table:
    """Keys i and s with NULLs, a time t, which is NULL now and then and, if `unique`, never twice
    the same, a number v."""
    given = (
        rng.sample(range(-100, 100), count)
        if unique
        else [rng.randint(-90, 90) for _ in range(count)]
    )
    times = [None if rng.random() < 0.05 else at for at in given]
    return pa.table(
        {
            f"{prefix}i": pa.array([rng.choice((None, 1, 2, 3)) for _ in range(count)], pa.int64()),
            f"{prefix}s": pa.array(
                [rng.choice((None, "a", "bb")) for _ in range(count)], pa.string()
            ),
            f"{prefix}t": pa.array(times, pa.int64()),
            f"{prefix}v": pa.array(range(count), pa.int64()),
        }
    )


def joined(shape: AsOfShape, keys: str, left: pa.Table, right: pa.Table) -> Any:
    mine, theirs = columns_of(left), columns_of(right)
    fields = (fields_of(left), fields_of(right))
    pairs = (tuple(mine[f"l{key}"] for key in keys), tuple(theirs[f"r{key}"] for key in keys))
    names = tuple(field.name for field in (*fields[0], *fields[1]))
    return as_of_join(shape, pairs, (mine["lt"], theirs["rt"]), fields, names)


def sql_of(shape: AsOfShape, keys: str) -> str:
    equal = [f"l{key} = r{key}" for key in keys]
    condition = " AND ".join([*equal, f"lt {SIGNS[shape.strict, shape.forward]} rt"])
    return f"SELECT * FROM l ASOF {'LEFT ' if shape.outer else ''}JOIN r ON {condition}"


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("keys", ["", "i", "is"])
def test_tables_agree_with_duckdb(outer: bool, strict: bool, forward: bool, keys: str) -> None:
    rng = random.Random(f"{outer} {strict} {forward} {keys}")
    left, right = table_of(rng, "l", 40, False), table_of(rng, "r", 35, True)
    shape = AsOfShape(outer=outer, strict=strict, forward=forward)
    inputs = [left.to_batches(max_chunksize=7), right.to_batches(max_chunksize=5)]
    wanted = duckdb_rows(sql_of(shape, keys), l=left, r=right)
    verify_processor(
        joined(shape, keys, left, right),
        inputs,
        wanted,
        priorities=(1, 0),
        ordered=False,
        row_by_row=False,
        snapshots=False,
    )


@pytest.fixture(params=[False, True], ids=["", "in files"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> EagerMemory | None:
    """Memory that has no room for what joins keep."""
    if not request.param:
        return None
    given = spill_eagerly(monkeypatch)
    monkeypatch.setattr(
        state_account, "Reservation", lambda memory, weight=1: Reservation(given, weight)
    )
    return given


@pytest.mark.parametrize("seed", some(range(8), 4))
def test_streams_agree_with_duckdb(
    seed: int, memory: EagerMemory | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRUNED_FROM", 3)
    rng = random.Random(seed)
    keys = rng.choice(("", "i", "s", "is"))
    left, right = (
        table_of(rng, "l", rng.randint(0, 40), False),
        table_of(rng, "r", rng.randint(0, 40), True),
    )
    shape = AsOfShape(
        outer=rng.random() < 0.5,
        strict=rng.random() < 0.5,
        forward=False,
        version=TimeBound(RIGHT_TIME),
        due=TimeBound(LEFT_TIME),
        bounds=((2, TimeBound(LEFT_TIME)),),
    )
    inputs = [
        stream_of(left, "lt", LEFT_TIME, rng, disorder=rng.choice((0, 10, 60))),
        stream_of(right, "rt", RIGHT_TIME, rng, disorder=rng.choice((0, 10, 60))),
    ]
    wanted = duckdb_rows(sql_of(shape, keys), l=left, r=right)

    def check(items: list[Any]) -> None:
        assert_rows(
            [item for item in items if isinstance(item, pa.RecordBatch)], wanted, ordered=False
        )
        check_promises(items, {LEFT_TIME: [2]})

    verify_processor(joined(shape, keys, left, right), inputs, check, priorities=(0, 0))
    assert memory is None or memory.spilled_bytes or not left.num_rows + right.num_rows


@pytest.mark.parametrize("seed", some(range(20), 2))
def test_old_versions_are_those_that_another_one_comes_after(seed: int) -> None:
    """In several runs, and with equal times, of which the last counts."""
    rng = random.Random(seed)
    with_key = rng.random() < 0.7
    given = [
        (rng.randint(0, 3) if with_key else 0, rng.randint(0, 9)) for _ in range(rng.randint(1, 40))
    ]
    cuts = sorted({0, len(given), *(rng.randint(0, len(given)) for _ in range(3))})
    runs = [SortedRun(_versions(given[start:stop], with_key)) for start, stop in pairwise(cuts)]
    least = rng.randint(-1, 10)
    last: dict[int, int] = {}
    for number, (key, time) in enumerate(given):
        if time <= least and (key not in last or time >= given[last[key]][1]):
            last[key] = number
    wanted = [time <= least and number != last[key] for number, (key, time) in enumerate(given)]
    assert [bool(old) for run in runs for old in superseded(run, runs, least)] == wanted


def _versions(rows: list[tuple[int, int]], with_key: bool) -> JoinRows:
    keys = [pa.array([key for key, _ in rows], pa.int64())] if with_key else []
    times = np.array([time for _, time in rows], np.int64)
    batch = pa.RecordBatch.from_arrays([pa.array(times)], ["t"])
    return JoinRows(
        batch,
        hash_columns(keys) if keys else None,
        keys,
        times,
        None,
        [],
        np.zeros(len(rows), np.bool_),
    )


def test_of_equal_times_the_last_version_counts() -> None:
    left = pa.table({"li": pa.array([1], pa.int64()), "lt": pa.array([5], pa.int64())})
    right = pa.table({"ri": [1, 1, 1], "rt": [4, 4, 4], "rv": [10, 20, 30]})
    mine, theirs = columns_of(left), columns_of(right)
    join = as_of_join(
        AsOfShape(outer=False, strict=False, forward=False),
        ((mine["li"],), (theirs["ri"],)),
        (mine["lt"], theirs["rt"]),
        (fields_of(left), fields_of(right)),
        ("li", "lt", "ri", "rt", "rv"),
    )
    inputs = [left.to_batches(), right.to_batches(max_chunksize=2)]
    verify_processor(join, inputs, [(1, 5, 1, 4, 30)], priorities=(1, 0), snapshots=False)
