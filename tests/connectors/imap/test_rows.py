"""Keys, single rows and jobs' writes: what a map holds after them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from runnel import sqltypes
from runnel.connector import ScanRequest, SinkRequest, WriteMode
from runnel.connectors.imap.connector import MapConnector
from runnel.errors import DataError, IntegrityError
from runnel.sqltypes import BIGINT, DOUBLE, INTEGER, VARCHAR, SqlType
from tests.connectors.conformance import (
    VALUES,
    batch_of,
    job_context,
    read_partition,
    read_rows,
    rows_of,
)
from tests.connectors.imap.maps import allocated, open_map, write

INSERT, SINK, UPDATE, DELETE = WriteMode.INSERT, WriteMode.SINK, WriteMode.UPDATE, WriteMode.DELETE


@pytest.fixture
def maps() -> Iterator[MapConnector]:
    connector = MapConnector()
    yield connector
    connector.close()


KEYED = [item for item in VALUES if not item.is_nested]


@pytest.mark.parametrize("bulk", [False, True], ids=["puts", "sink"])
@pytest.mark.parametrize("sealed", [False, True], ids=["tail", "segment"])
@pytest.mark.parametrize("sql_type", KEYED, ids=str)
def test_every_type_is_a_key_and_a_value(
    maps: MapConnector, sql_type: SqlType, sealed: bool, bulk: bool
) -> None:
    table = open_map(
        maps, ("k", sql_type, "__key.k"), ("v", sql_type), key="json-flat", value="json-flat"
    )
    rows = [(value, value) for value in VALUES[sql_type]]
    if bulk:
        write(table, INSERT, rows)
    else:
        for row in rows:
            assert table.put(row, INSERT) == 1
    if sealed:
        read_rows(table)
    for row in rows:
        found = table.get((row[0],))
        assert found == row
        assert found is not None and type(found[1]) is type(row[1])
    for row in rows:
        assert table.put((row[0], None), DELETE) == 1
        assert table.get((row[0],)) is None
    assert table.row_count() == 0


@pytest.mark.parametrize("sealed", [False, True], ids=["tail", "segment"])
def test_a_look_up_takes_what_equals_the_key(maps: MapConnector, sealed: bool) -> None:
    table = open_map(maps)
    table.put((1, 10), SINK)
    if sealed:
        read_rows(table)
    assert table.get((1.0,)) == table.get((Decimal(1),)) == table.get((True,)) == (1, 10)
    assert table.get((1.5,)) is None
    assert table.get(("1",)) is None
    assert table.get((None,)) is None
    with pytest.raises(DataError, match="no key of map"):
        table.get(([1],))


def test_float_keys_that_sql_takes_for_equal(maps: MapConnector) -> None:
    table = open_map(maps, key="double")
    nan = float("nan")
    table.put((0.0, 1), SINK)
    table.put((-0.0, 2), SINK)
    table.put((nan, 3), SINK)
    write(table, SINK, [(float("nan"), 4), (-nan, 5)])
    assert table.row_count() == 2
    assert table.get((0.0,)) == (-0.0, 2)
    found = table.get((float("nan"),))
    assert found is not None and found[1] == 5


def test_temporal_keys(maps: MapConnector) -> None:
    at = datetime(2024, 2, 29, 12, tzinfo=UTC)
    table = open_map(maps, key="timestamp with time zone")
    table.put((at, 1), INSERT)
    assert table.get((at.astimezone(timezone(timedelta(hours=5))),)) == (at, 1)
    with pytest.raises(DataError):
        table.get((datetime(2024, 2, 29, 12),))
    dates = open_map(maps, key="date", name="dates")
    dates.put((date(2024, 2, 29), 1), INSERT)
    assert dates.get((date(2024, 2, 29),)) == (date(2024, 2, 29), 1)
    with pytest.raises(DataError):
        dates.get((at,))
    times = open_map(maps, key="time", name="times")
    times.put((time(1, 2, 3, 4), 1), INSERT)
    assert times.get((time(1, 2, 3, 4),)) == (time(1, 2, 3, 4), 1)


def test_a_value_beyond_pythons_calendar_is_our_own_error(maps: MapConnector) -> None:
    table = open_map(maps, value="timestamp")
    far = pa.Array.from_buffers(
        pa.timestamp("us"), 1, [None, pa.py_buffer((2**60).to_bytes(8, "little"))]
    )
    sink = table.sink(SinkRequest(SINK, (0, 1)))
    sink.write(
        pa.RecordBatch.from_arrays(
            [batch_of([("k", BIGINT)], [(1,)]).column(0), far], names=["k", "v"]
        )
    )
    sink.commit(sink.stage(0))
    sink.close()
    with pytest.raises(DataError, match="the row with key 1 has a value that Python can't hold"):
        table.get((1,))


def test_composite_keys(maps: MapConnector) -> None:
    table = open_map(
        maps,
        ("b", VARCHAR, "__key.b"),
        ("v", BIGINT),
        ("a", sqltypes.DATE, "__key.a"),
        key="json-flat",
        value="json-flat",
    )
    day = date(2024, 1, 1)
    write(table, INSERT, [("x", 1, day), ("y", 2, day)])
    table.put(("x", 3, date(2024, 1, 2)), INSERT)
    assert table.key_columns == (2, 0)
    assert table.get((day, "y")) == ("y", 2, day)
    assert table.get((date(2024, 1, 2), "x")) == ("x", 3, date(2024, 1, 2))
    assert table.get((day, None)) is None
    with pytest.raises(
        IntegrityError, match=r"key \(2024-01-01, 'x'\) exists already in map \"m\""
    ):
        table.put(("x", 9, day), INSERT)
    with pytest.raises(DataError, match=r'key field "__key\.b" cannot be NULL'):
        table.put((None, 9, day), SINK)
    write(table, DELETE, [(day, "x")], (2, 0))
    assert sorted(read_rows(table)) == [("x", 3, date(2024, 1, 2)), ("y", 2, day)]


def test_put_says_how_many_rows_it_changed(maps: MapConnector) -> None:
    table = open_map(maps)
    assert table.put((1, 1), UPDATE) == 0
    assert table.put((1, 1), INSERT) == 1
    assert table.put((1, 2), UPDATE) == 1
    assert table.put((1, 3), SINK) == 1
    assert table.put((2, None), DELETE) == 0
    assert table.put((None, None), DELETE) == 0
    assert read_rows(table) == [(1, 3)]
    with pytest.raises(IntegrityError, match='key 1 exists already in map "m"'):
        table.put((1, 4), INSERT)
    assert table.clear() == 1
    assert table.clear() == 0


def test_null_keys_are_refused(maps: MapConnector) -> None:
    table = open_map(maps)
    with pytest.raises(DataError, match="a key cannot be NULL"):
        table.put((None, 1), SINK)
    with pytest.raises(DataError, match="a key cannot be NULL"):
        write(table, SINK, [(1, 1), (None, 2)])
    with pytest.raises(DataError, match="a key cannot be NULL"):
        table.sink(SinkRequest(INSERT, (1,)))
    assert table.row_count() == 0


BAD_VALUES: list[tuple[SqlType, Any]] = [
    (BIGINT, 2**63),
    (INTEGER, -(2**31) - 1),
    (INTEGER, "x"),
    (sqltypes.decimal(4, 2), Decimal("100.00")),
    (sqltypes.DATE, "2024-02-30"),
    (VARCHAR, "\ud800"),
    (sqltypes.BOOLEAN, 2.5),
    (sqltypes.REAL, 1e300),
]


@pytest.mark.parametrize(("sql_type", "value"), BAD_VALUES, ids=str)
def test_a_value_that_does_not_fit_is_refused(
    maps: MapConnector, sql_type: SqlType, value: Any
) -> None:
    table = open_map(maps, ("__key", BIGINT), ("v", sql_type), value="json-flat")
    with pytest.raises(DataError, match='column "v": '):
        table.put((1, value), SINK)
    assert read_rows(table) == []


def test_values_are_stored_as_their_type_has_them(maps: MapConnector) -> None:
    table = open_map(
        maps,
        ("__key", BIGINT),
        ("r", sqltypes.REAL),
        ("d", sqltypes.decimal(10, 2)),
        ("x", DOUBLE),
        value="json-flat",
    )
    table.put((1, 0.1, Decimal("1.5"), 3), SINK)
    before = table.get((1,))
    read_rows(table)
    assert table.get((1,)) == before
    assert (
        before is not None
        and str(before[2]) == "1.50"
        and type(before[3]) is float
        and before[1] != 0.1
    )


def test_an_insert_with_a_known_key_writes_nothing(maps: MapConnector) -> None:
    table = open_map(maps)
    write(table, INSERT, [(1, 1), (2, 2)])
    with pytest.raises(IntegrityError, match='key 2 exists already in map "m"') as caught:
        write(table, INSERT, [(3, 3), (2, 9)])
    assert "SINK INTO" in (caught.value.hint or "")
    with pytest.raises(IntegrityError, match='key 5 comes twice in the rows to insert in map "m"'):
        write(table, INSERT, [(4, 4), (5, 5), (5, 6)])
    assert sorted(read_rows(table)) == [(1, 1), (2, 2)]
    write(table, INSERT, [(3, 3)])
    assert sorted(read_rows(table)) == [(1, 1), (2, 2), (3, 3)]


def test_the_last_row_of_a_key_wins(maps: MapConnector) -> None:
    table = open_map(maps)
    write(table, SINK, [(1, 1), (2, 2), (1, 3), (1, 4)])
    assert sorted(read_rows(table)) == [(1, 4), (2, 2)]
    write(table, SINK, [(2, 5), (3, 6), (2, 7)])
    assert sorted(read_rows(table)) == [(1, 4), (2, 7), (3, 6)]
    assert table.get((2,)) == (2, 7)
    assert table.row_count() == 3


def test_update_and_delete_touch_only_what_is_there(maps: MapConnector) -> None:
    table = open_map(maps)
    write(table, INSERT, [(i, i) for i in range(5)])
    write(table, UPDATE, [(1, 10), (9, 90)])
    write(table, DELETE, [(2,), (7,), (2,)], (0,))
    assert sorted(read_rows(table)) == [(0, 0), (1, 10), (3, 3), (4, 4)]
    write(table, UPDATE, [(9, 9)])
    write(table, DELETE, [], (0,))
    assert table.row_count() == 4


def test_rows_outlive_the_mapping_and_another_reads_them_by_name(maps: MapConnector) -> None:
    first = open_map(
        maps, ("__key", BIGINT), ("a", BIGINT), ("b", VARCHAR), value="json-flat", external="shared"
    )
    first.put((1, 10, "x"), INSERT)
    write(first, INSERT, [(2, 20, None)])
    second = open_map(
        maps,
        ("id", BIGINT, "__key"),
        ("b", VARCHAR),
        ("c", DOUBLE),
        name="other",
        value="json-flat",
        external="SHARED",
    )
    assert sorted(read_rows(second)) == [(1, "x", None), (2, None, None)]
    assert second.get((1,)) == (1, "x", None)
    second.put((3, "z", 0.5), INSERT)
    assert second.get((3,)) == (3, "z", 0.5)
    assert first.get((3,)) == (3, None, "z")
    assert sorted(read_rows(first)) == [(1, 10, "x"), (2, 20, None), (3, None, "z")]


@pytest.mark.parametrize("bulk", [False, True], ids=["put", "sink"])
@pytest.mark.parametrize("sealed", [False, True], ids=["tail", "segment"])
def test_an_update_keeps_fields_that_the_mapping_does_not_name(
    maps: MapConnector, sealed: bool, bulk: bool
) -> None:
    wide = open_map(maps, ("__key", BIGINT), ("a", BIGINT), ("b", VARCHAR), value="json-flat")
    narrow = open_map(maps, ("__key", BIGINT), ("c", DOUBLE), ("a", BIGINT), value="json-flat")
    write(wide, INSERT, [(i, i, f"b{i}") for i in range(5000)])
    write(wide, INSERT, [(6000, 0, "x"), (6001, 1, None)])
    if sealed:
        read_rows(wide)
    changes = [(6000, 0.5, 10), (3, 1.5, 30), (4999, 2.5, 40), (9999, 9.5, 0), (4, None, None)]
    if bulk:
        write(narrow, UPDATE, changes)
    else:
        assert [narrow.put(change, UPDATE) for change in changes] == [1, 1, 1, 0, 1]
    assert [wide.get((key,)) for key in (6000, 3, 4999, 4, 5, 6001)] == [
        (6000, 10, "x"),
        (3, 30, "b3"),
        (4999, 40, "b4999"),
        (4, None, "b4"),
        (5, 5, "b5"),
        (6001, 1, None),
    ]
    assert narrow.get((3,)) == (3, 1.5, 30)
    assert wide.row_count() == len(read_rows(wide)) == 5002
    wide.put((3, 1, "new"), SINK)
    assert narrow.get((3,)) == (3, None, 1)


@pytest.mark.parametrize("sealed", [False, True], ids=["tail", "segment"])
def test_a_field_of_another_type_is_an_error_where_it_is_used(
    maps: MapConnector, sealed: bool
) -> None:
    first = open_map(maps, ("__key", BIGINT), ("a", BIGINT), ("b", BIGINT), value="json-flat")
    first.put((1, 10, 5), INSERT)
    if sealed:
        read_rows(first)
    second = open_map(maps, ("__key", BIGINT), ("a", VARCHAR), ("b", BIGINT), value="json-flat")
    with pytest.raises(
        DataError, match=r'field "this\.a" of the map is BIGINT, but the mapping declares VARCHAR'
    ):
        read_rows(second)
    with pytest.raises(DataError, match=r"this\.a"):
        second.get((1,))
    assert read_rows(second, (0, 2)) == [(1, 5)]


def test_a_mapping_with_another_key(maps: MapConnector) -> None:
    open_map(maps).put((1, 1), INSERT)
    texts = open_map(maps, key="varchar")
    for attempt in (
        lambda: texts.get(("1",)),
        lambda: texts.put(("1", 1), SINK),
        lambda: write(texts, SINK, [("1", 1)]),
        lambda: write(texts, DELETE, [("1",)], (0,)),
    ):
        with pytest.raises(
            DataError, match='"__key" of the map is BIGINT, but the mapping declares VARCHAR'
        ):
            attempt()
    assert read_rows(texts, (1,)) == [(1,)]
    assert texts.clear() == 1
    texts.put(("1", 1), INSERT)
    assert read_rows(texts) == [("1", 1)]


def test_a_scan_is_of_one_moment_while_others_write(maps: MapConnector) -> None:
    table = open_map(maps)
    count = 3000
    write(table, INSERT, [(i, 0) for i in range(count)])
    stop = threading.Event()
    failures: list[str] = []

    def rewrite() -> None:
        # Every round sets all values to one number at once, so a scan that mixes rounds shows two.
        number = 0
        while not stop.is_set():
            number += 1
            write(table, SINK, [(i, number) for i in range(count)])

    def read() -> None:
        for _ in range(60):
            rows = read_rows(table)
            if len(rows) != count or len({value for _, value in rows}) != 1:
                failures.append(f"{len(rows)} rows, values {sorted({value for _, value in rows})}")
            if table.get((17,)) is None:
                failures.append("a key was missing")

    writer = threading.Thread(target=rewrite)
    readers = [threading.Thread(target=read) for _ in range(2)]
    writer.start()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    stop.set()
    writer.join()
    assert failures == []


def test_look_ups_find_every_key_while_segments_merge(maps: MapConnector) -> None:
    table = open_map(maps)
    write(table, INSERT, [(i, i) for i in range(500)])
    failures: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            failures.extend(i for i in range(0, 500, 7) if table.get((i,)) is None)

    reader = threading.Thread(target=look)
    reader.start()
    for turn in range(300):
        for i in range(turn % 50, 500, 50):
            table.put((i, turn), SINK)
        read_rows(table, (0,))
    stop.set()
    reader.join()
    assert failures == []


def test_an_oracle_agrees_after_many_changes(maps: MapConnector) -> None:
    import random

    chance = random.Random(7)
    table = open_map(maps)
    oracle: dict[int, int] = {}
    for step in range(400):
        keys = [chance.randrange(2000) for _ in range(chance.choice([1, 1, 5, 200]))]
        action = chance.choice(["put", "sink", "delete", "update", "scan"])
        if action == "put":
            for key in keys:
                table.put((key, step), SINK)
                oracle[key] = step
        elif action == "sink":
            write(table, SINK, [(key, step) for key in keys])
            oracle.update(dict.fromkeys(keys, step))
        elif action == "delete":
            write(table, DELETE, [(key,) for key in keys], (0,))
            for key in keys:
                oracle.pop(key, None)
        elif action == "update":
            write(table, UPDATE, [(key, -step) for key in keys])
            oracle.update({key: -step for key in keys if key in oracle})
        else:
            assert sorted(read_rows(table)) == sorted(oracle.items())
        key = chance.randrange(2000)
        assert table.get((key,)) == ((key, oracle[key]) if key in oracle else None)
    assert sorted(read_rows(table)) == sorted(oracle.items())
    assert table.row_count() == len(oracle)
    assert len(table._store._locations[1]) < 20


def test_memory_is_given_back() -> None:
    connector = MapConnector()
    table = open_map(connector)
    before = allocated()

    def fill() -> None:
        write(table, INSERT, [(i, i) for i in range(20_000)])
        assert allocated() - before >= 280_000

    fill()
    table.clear()
    assert allocated() - before < 50_000
    fill()
    write(table, DELETE, [(i,) for i in range(20_000)], (0,))
    assert allocated() - before < 50_000
    fill()
    connector.close()
    assert allocated() - before < 50_000


def test_a_source_of_a_large_table_is_not_kept_alive(maps: MapConnector) -> None:
    table = open_map(maps)
    before = allocated()
    big = batch_of([("k", BIGINT), ("v", BIGINT)], [(i, i) for i in range(100_000)])
    sink = table.sink(SinkRequest(INSERT, (0, 1)))
    sink.write(big.slice(50, 3))
    sink.commit(sink.stage(0))
    sink.close()
    del big
    assert allocated() - before < 50_000
    assert sorted(read_rows(table)) == [(i, i) for i in range(50, 53)]


def test_partitions_share_a_large_map(maps: MapConnector) -> None:
    table = open_map(maps)
    write(table, INSERT, [(i, i) for i in range(200_000)])
    write(table, DELETE, [(i,) for i in range(0, 200_000, 3)], (0,))
    partitions = table.scan(ScanRequest((0,))).split(job_context())
    assert len(partitions) > 1
    parts = [rows_of(read_partition(part), [BIGINT]) for part in partitions]
    assert all(parts)
    assert sorted(row for part in parts for row in part) == [(i,) for i in range(200_000) if i % 3]
