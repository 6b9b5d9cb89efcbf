"""Operators that spill: with next to no memory they give what they give with plenty, and hold
nothing afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel.errors import DataError, OperationalError
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.nodes import SortKey
from runnel.processors.grouping.aggregate import aggregate
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.grouping.set_operation import set_operation
from runnel.processors.joins import build_side as join_table
from runnel.processors.joins import spilled as spilled_join
from runnel.processors.sorting import sort, sorted_runs
from runnel.relation.nodes import JoinKind
from runnel.storage.memory_budget import Memory, Reservation
from runnel.storage.spill import PrivateFolder
from runnel.testing import assert_rows, verify_processor
from runnel.testing.rows import rows_of
from tests.processors.grouping.test_aggregate import CALLS, as_floats, call_of, expected
from tests.processors.joins.test_join import KEYED, KINDS, UNKEYED, check_join, join_of
from tests.processors.random_tables import columns_of, duckdb_rows, outputs, random_table
from tests.processors.sorting.test_sort import number, sql_key

LIMIT = 20_000
"""Of which operators may hold 8,000 bytes: some hundred rows."""

QUICK: dict[str, Any] = {"row_by_row": False}


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A tiny budget, which must have been exceeded, and given back."""
    small = Memory(LIMIT)
    yield small
    assert small.spilled_bytes
    assert small.used == 0


@pytest.mark.parametrize("keys", ["in", "ln"])
@pytest.mark.parametrize("rows", [300])
def test_groups(keys: str, rows: int, memory: Memory) -> None:
    table = (
        random_table(5, rows, "itwrsbdln")
        if "f" not in keys
        else random_table(5, rows, "itwfrsbdln")
    )
    texts = [text for text in CALLS if "f)" not in text]
    calls = tuple(call_of(text, columns_of(table)) for text in texts)
    by = tuple(columns_of(table)[key] for key in keys)
    names = tuple(f"c{i}" for i in range(len(by) + len(calls)))
    memory.limit = 150_000
    supplier = aggregate(by, calls, names, AggregationStage.SINGLE)
    actual = outputs(
        supplier, [table.to_batches(max_chunksize=40)], memory=memory, snapshots=False, **QUICK
    )
    assert_rows(as_floats(rows_of(actual)), expected(table, keys, texts), ordered=False)


def test_many_groups_divided_more_than_once(memory: Memory) -> None:
    table = pa.table({"n": pa.array([i % 1000 for i in range(2000)]), "v": pa.array(range(2000))})
    columns = columns_of(table)
    calls = (
        aggregate_call("count", []),
        aggregate_call("sum", [columns["v"]]),
        aggregate_call("count", [columns["v"]], True),
    )
    supplier = aggregate((columns["n"],), calls, ("n", "c", "s", "d"), AggregationStage.SINGLE)
    wanted = [(i, 2, 2 * i + 1000, 2) for i in range(1000)]
    options = {"memory": memory, "ordered": False, "snapshots": False, **QUICK}
    memory.limit = 40_000
    verify_processor(supplier, [table.to_batches(max_chunksize=1000)], wanted, **options)


def test_an_accumulating_stage_passes_on_what_it_has_no_room_for() -> None:
    memory = Memory(LIMIT)
    table = random_table(3, 4000, "n")
    (n,) = columns_of(table).values()
    supplier = aggregate(
        (n,), (aggregate_call("count", []),), ("n", "c"), AggregationStage.ACCUMULATE
    )
    batches = outputs(
        supplier, [table.to_batches(max_chunksize=300)], memory=memory, snapshots=False, **QUICK
    )
    assert len(batches) > 1
    assert sum(batch.num_rows for batch in batches) == 4000
    assert (memory.used, memory.spilled_bytes) == (0, 0)


def test_distinct_arguments_without_groups(memory: Memory) -> None:
    table = pa.table({"v": pa.array([i % 1500 for i in range(3000)])})
    column = columns_of(table)["v"]
    calls = (
        aggregate_call("count", [column], True),
        aggregate_call("sum", [column], True),
        aggregate_call("count", []),
    )
    supplier = aggregate((), calls, ("c", "s", "n"), AggregationStage.SINGLE)
    wanted = [(1500, 1500 * 1499 // 2, 3000)]
    verify_processor(
        supplier,
        [table.to_batches(max_chunksize=400)],
        wanted,
        memory=memory,
        snapshots=False,
        **QUICK,
    )


@pytest.mark.parametrize(
    ("operation", "is_all", "columns"),
    [
        ("intersect", False, "in"),
        ("except", True, "in"),
        ("intersect", True, "i"),
        ("except", False, "ln"),
    ],
)
def test_set_operations(operation: str, is_all: bool, columns: str, memory: Memory) -> None:
    left, right = random_table(1, 600, columns), random_table(2, 400, columns)
    if columns == "i":
        left, right = (
            pa.table({"i": [v % 300 for v in range(900)]}),
            pa.table({"i": [v % 450 for v in range(600)]}),
        )
    memory.limit = 80_000
    wanted = duckdb_rows(
        f"SELECT * FROM l {operation} {'ALL' if is_all else ''} SELECT * FROM r", l=left, r=right
    )
    inputs = [left.to_batches(max_chunksize=200), right.to_batches(max_chunksize=200)]
    options = {"memory": memory, "ordered": False, "snapshots": False, **QUICK}
    verify_processor(set_operation(operation, is_all), inputs, wanted, **options)


@pytest.mark.parametrize(("descending", "nulls_first"), [(False, True), (True, True)])
@pytest.mark.parametrize("keys", ["f", "sfb"])
def test_sorting(
    keys: str, descending: bool, nulls_first: bool, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_runs, "MAX_ROWS", 7)
    monkeypatch.setattr(sort, "MOST_FILES", 3)
    table = random_table(11, 300, "ifrsbdn")
    columns = columns_of(table)
    sort_keys = [SortKey(columns[key], descending, nulls_first) for key in keys]
    sort_keys.append(SortKey(columns["n"], not descending))
    order = ", ".join([sql_key(key, descending, nulls_first) for key in keys])
    order += f", n {'ASC' if descending else 'DESC'}"
    rows = rows_of(duckdb_rows(f"SELECT * FROM t ORDER BY {order}", t=table))
    for count, offset in ((None, None), (100, 40)):
        limits = [None if bound is None else number(bound) for bound in (count, offset)]
        start = offset or 0
        wanted = rows[start : None if count is None else start + count]
        supplier = sort.sort(tuple(sort_keys), *limits)
        verify_processor(
            supplier,
            [table.to_batches(max_chunksize=60)],
            wanted,
            memory=memory,
            snapshots=False,
            **QUICK,
        )


@pytest.mark.parametrize("rows", [0, 1, 5, 6, 100])
def test_runs_in_memory_are_merged(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "RUN_ROWS", 5)
    monkeypatch.setattr(sorted_runs, "MAX_ROWS", 2)
    table = random_table(2, rows, "fsn")
    columns = columns_of(table)
    wanted = duckdb_rows("SELECT * FROM t ORDER BY f, s DESC, n", t=table)
    keys = (SortKey(columns["f"]), SortKey(columns["s"], True, False), SortKey(columns["n"]))
    verify_processor(
        sort.sort(keys, None, None), [table.to_batches(max_chunksize=4)], wanted, **QUICK
    )


def is_joined_in_parts(kind: JoinKind, keys: str) -> bool:
    """With several keys, what must know all rows of the right side can't be."""
    return keys in ("", "is") and not (kind in join_table.UNKNOWNS and len(keys) > 1)


@pytest.mark.parametrize(
    ("kind", "keys"), [case for case in (*KEYED, *UNKEYED) if is_joined_in_parts(*case)], ids=str
)
def test_joins(kind: JoinKind, keys: str, memory: Memory) -> None:
    memory.limit = 8_000
    is_unknown = kind in join_table.UNKNOWNS
    check_join(kind, keys, (25, 90), with_condition=not is_unknown, snapshots=False, memory=memory)
    assert memory.spilled_bytes


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_joins_of_one_key_only(kind: JoinKind, memory: Memory) -> None:
    """Which can't be divided, and are joined by chunks."""
    left = pa.table({"lk": pa.array([1] * 20 + [2, None]), "ln": pa.array(range(22))})
    right = pa.table({"rk": pa.array([1] * 300), "rn": pa.array(range(300))})
    memory.limit = 10_000
    equal = {"i": "lk = rk"}["i"]
    sql = {
        JoinKind.INNER: f"SELECT * FROM l JOIN r ON {equal}",
        JoinKind.LEFT: f"SELECT * FROM l LEFT JOIN r ON {equal}",
        JoinKind.RIGHT: f"SELECT * FROM l RIGHT JOIN r ON {equal}",
        JoinKind.FULL: f"SELECT * FROM l FULL JOIN r ON {equal}",
        JoinKind.SEMI: "SELECT * FROM l WHERE lk IN (SELECT rk FROM r)",
        JoinKind.ANTI: f"SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE {equal})",
        JoinKind.EXISTS_MARK: f"SELECT *, EXISTS (SELECT 1 FROM r WHERE {equal}) FROM l",
        JoinKind.MARK: "SELECT *, lk IN (SELECT rk FROM r) FROM l",
        JoinKind.NULL_ANTI: "SELECT * FROM l WHERE lk NOT IN (SELECT rk FROM r)",
    }[kind]
    inputs = [right.to_batches(max_chunksize=50), left.to_batches(max_chunksize=9)]
    options = {"memory": memory, "ordered": False, "snapshots": False, **QUICK}
    verify_processor(
        join_of(kind, "k", left, right), inputs, duckdb_rows(sql, l=left, r=right), **options
    )


def test_a_scalar_subquery_with_two_rows_in_different_chunks(memory: Memory) -> None:
    left = pa.table({"lk": pa.array([1, 7])})
    right = pa.table({"rk": pa.array([1] * 1 + [2] * 1500 + [1])})
    inputs = [right.to_batches(max_chunksize=50), left.to_batches()]
    with pytest.raises(DataError, match="more than one row returned"):
        verify_processor(
            join_of(JoinKind.SINGLE, "k", left, right),
            inputs,
            [],
            memory=memory,
            snapshots=False,
            **QUICK,
        )


def test_not_in_with_several_columns_needs_all_rows_at_once() -> None:
    memory = Memory(LIMIT)
    with pytest.raises(OperationalError, match="need more than the memory_limit of 20,000 bytes"):
        check_join(
            JoinKind.NULL_ANTI,
            "is",
            (60, 900),
            with_condition=False,
            snapshots=False,
            memory=memory,
        )
    assert memory.used == 0


def test_a_build_side_of_too_much_text_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.processors.joins.join.MOST_BYTES", 500)
    monkeypatch.setattr(spilled_join, "MOST_BYTES", 500)
    memory = Memory(0)
    check_join(JoinKind.FULL, "s", (20, 300), with_condition=False, snapshots=False, memory=memory)
    assert memory.spilled_bytes


def test_a_folder_that_is_not_there(tmp_path: Any) -> None:
    memory = Memory(LIMIT, str(tmp_path / "missing"))
    with pytest.raises(
        OperationalError, match=r"rows beyond memory_limit can't be written to .*missing"
    ) as caught:
        check_join(
            JoinKind.INNER, "i", (60, 900), with_condition=False, snapshots=False, memory=memory
        )
    assert caught.value.hint is not None and "temp_directory" in caught.value.hint
    assert memory.used == 0


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_: Memory) -> Any:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr("runnel.storage.spill._opened", opened)
    memory = Memory(LIMIT)
    file = memory.file()
    batch = pa.RecordBatch.from_pydict({"a": list(range(50_000))})
    with pytest.raises(OperationalError, match="rows beyond memory_limit can't be") as caught:
        file.write(batch)
    assert caught.value.detail == "No space left on device"
    file.close()
    with pytest.raises(OperationalError, match="rows beyond memory_limit can't be") as caught:
        memory.mapped(batch)
    assert caught.value.detail == "No space left on device"
    assert memory.spilled_bytes == 0


def test_files_have_no_names(tmp_path: Any) -> None:
    memory = Memory(LIMIT, str(tmp_path))
    file = memory.file()
    file.write(pa.RecordBatch.from_pydict({"a": [1, 2]}))
    assert list(tmp_path.iterdir()) == []
    assert [batch.num_rows for batch in file.read()] == [2]
    assert [batch.num_rows for batch in file.read()] == [2]
    file.close()


def test_folders_that_were_left_behind_are_removed(tmp_path: Any) -> None:
    first = PrivateFolder(str(tmp_path))
    left = tmp_path / "runnel-spill-left"
    left.mkdir()
    (left / "owner.lock").touch()
    (left / "data").touch()
    second = PrivateFolder(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [first.path[-21:].split("/")[-1], second.path.split("/")[-1]]
    )
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_reservations_are_added_up() -> None:
    memory = Memory(1000)
    first, second = Reservation(memory), Reservation(memory, 2)
    first.set(100)
    second.set(140)
    assert (memory.used, first.must_spill, second.must_spill) == (380, False, False)
    second.set(160)
    assert (memory.used, first.must_spill, second.must_spill) == (420, False, False)
    second.set(200)
    assert second.must_spill
    second.release()
    first.release()
    assert memory.used == 0
    assert not Reservation(None).must_spill
