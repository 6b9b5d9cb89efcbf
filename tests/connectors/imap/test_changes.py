"""The changes of maps as a stream: what each says, in which order, for whom, and what is told when
they are gone."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.connector import (
    ColumnDefinition,
    MappingDefinition,
    Pause,
    ScanRequest,
    SourcePartition,
)
from runnel.connectors.imap.connector import MapConnector
from runnel.connectors.imap.table import MapTable
from runnel.errors import (
    DataError,
    IntegrityError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from runnel.processor import ExpiredPosition
from runnel.sqltypes import BIGINT, VARCHAR
from tests.connectors.conformance import job_context, visible

CREATE = (
    "CREATE MAPPING m (__key BIGINT, this VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar'{})"
)
OPTIONS = {"keyFormat": "bigint", "valueFormat": "varchar"}
COLUMNS = (ColumnDefinition("__key", BIGINT), ColumnDefinition("this", VARCHAR))


def partition(table: MapTable) -> SourcePartition:
    changes = table.changes()
    (part,) = changes.scan(ScanRequest(visible(changes))).split(job_context())
    return part


def available(part: SourcePartition) -> list[tuple[Any, ...]]:
    """Key, value, old value, operation and sequence of what can be read now."""
    rows: list[tuple[Any, ...]] = []
    while not isinstance(item := part.read(), Pause):
        assert isinstance(item, pa.RecordBatch)
        rows += [tuple(row.values())[:5] for row in item.to_pylist()]
    return rows


@pytest.fixture
def connector() -> Any:
    made = MapConnector()
    yield made
    made.close()


def opened(connector: MapConnector, name: str = "m", **options: str) -> MapTable:
    table = connector.open(
        MappingDefinition(name, COLUMNS, {**OPTIONS, **options}, external_name="m")
    )
    assert isinstance(table, MapTable)
    return table


def run(statements: str, **options: str) -> list[tuple[Any, ...]]:
    """The changes that statements make to a map with the rows 1: a, 2: b."""
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(CREATE.format(""))
        cursor.execute("INSERT INTO m VALUES (1, 'a'), (2, 'b')")
        stream = connection.cursor().execute(
            "SELECT __key, this, old_this, operation, sequence FROM TABLE(CHANGES(TABLE m))"
        )
        for statement in statements.split("; "):
            cursor.execute(statement)
        cursor.execute("INSERT INTO m VALUES (-1, 'the end')")
        rows: list[tuple[Any, ...]] = []
        while (row := stream.fetchone()) is not None and row[0] != -1:
            rows.append(row)
        stream.close()
    return rows


@pytest.mark.parametrize(
    ("statements", "changes"),
    [
        ("INSERT INTO m VALUES (3, 'c')", [(3, "c", None, "INSERT", 1)]),
        ((
            "SINK INTO m VALUES (1, 'A'), (3, NULL)"
        ), [(1, "A", "a", "UPDATE", 1), (3, None, None, "INSERT", 2)]),
        ("SINK INTO m SELECT 5, CAST(v AS VARCHAR) FROM TABLE(generate_series(1, 3))",
         [(5, "1", None, "INSERT", 1), (5, "2", "1", "UPDATE", 2), (5, "3", "2", "UPDATE", 3)]),
        ("UPDATE m SET this = 'x' WHERE __key = 2", [(2, "x", "b", "UPDATE", 1)]),
        ((
            "UPDATE m SET this = this || '!'"
        ), [(1, "a!", "a", "UPDATE", 1), (2, "b!", "b", "UPDATE", 2)]),
        ("UPDATE m SET this = 'x' WHERE __key = 9", []),
        ((
            "DELETE FROM m WHERE __key = 1; DELETE FROM m WHERE __key = 1"
        ), [(1, None, "a", "DELETE", 1)]),
        ((
            "DELETE FROM m WHERE this > ''"
        ), [(1, None, "a", "DELETE", 1), (2, None, "b", "DELETE", 2)]),
        ((
            "DELETE FROM m; DELETE FROM m"
        ), [(1, None, "a", "DELETE", 1), (2, None, "b", "DELETE", 2)]),
        ("DELETE FROM m; SINK INTO m VALUES (1, 'c')",
         [(1, None, "a", "DELETE", 1), (2, None, "b", "DELETE", 2), (1, "c", None, "INSERT", 3)]),
    ],
)  # fmt: skip
def test_each_statement_tells_its_changes(statements: str, changes: list[tuple[Any, ...]]) -> None:
    assert run(statements) == changes


def test_what_fails_is_no_change(connector: MapConnector) -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(CREATE.format(""))
        stream = connection.cursor().execute("SELECT __key FROM TABLE(CHANGES(TABLE m))")
        cursor.execute("INSERT INTO m VALUES (1, 'a')")
        for wrong in (
            "INSERT INTO m VALUES (2, 'b'), (1, 'c')",
            "INSERT INTO m SELECT v, 'x' FROM TABLE(generate_series(0, 5))",
        ):
            with pytest.raises(IntegrityError):
                cursor.execute(wrong)
        cursor.execute("INSERT INTO m VALUES (3, 'c')")
        assert [stream.fetchone(), stream.fetchone()] == [(1,), (3,)]
        stream.close()


def test_changes_have_a_time_that_never_goes_back(
    connector: MapConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([5, 3, 9])
    monkeypatch.setattr(connector, "_wall", lambda: next(times))
    table = opened(connector)
    changes = table.changes()
    (part,) = changes.scan(ScanRequest((len(changes.columns) - 1,))).split(job_context())
    for key in range(3):
        table.put((key, "x"), runnel.connector.WriteMode.INSERT)
    batch = part.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [5, 5, 9]
    assert changes.event_time is not None
    assert changes.columns[changes.event_time.column].name == "change_time"


@pytest.mark.parametrize("seed", range(3))
def test_any_writes_replayed_give_the_map(connector: MapConnector, seed: int) -> None:
    """The changes applied to a dictionary give what the map holds, and each old value is what was
    there."""
    chance = random.Random(seed)
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(CREATE.format(", 'journalCapacity' = '1000000'"))
        cursor.execute("SINK INTO m SELECT v, 'old' FROM TABLE(generate_series(1, 300))")
        state: dict[int, str | None] = dict.fromkeys(range(1, 301), "old")
        stream = connection.cursor().execute("SELECT * FROM TABLE(CHANGES(TABLE m))")
        for step in range(60):
            low, high = sorted((chance.randrange(600), chance.randrange(600)))
            cursor.execute(
                chance.choice(
                    [
                        (
                            f"SINK INTO m SELECT v, '{step}' FROM TABLE(generate_series({low}, "
                            f"{high}))"
                        ),
                        f"SINK INTO m VALUES ({low}, 's{step}')",
                        (
                            "SINK INTO m SELECT v % 7, CAST(v AS VARCHAR) "
                            f"FROM TABLE(generate_series({low}, {high}))"
                        ),
                        f"UPDATE m SET this = this || '+' WHERE __key BETWEEN {low} AND {high}",
                        f"UPDATE m SET this = NULL WHERE __key = {low}",
                        f"DELETE FROM m WHERE __key BETWEEN {low} AND {high}",
                        f"DELETE FROM m WHERE __key = {low}",
                    ]
                )
            )
        cursor.execute("SINK INTO m VALUES (-1, 'end')")
        sequence = 300  # the journal is kept from the start
        while state.get(-1) is None:
            key, new, old, operation, number, _ = stream.fetchone() or ()
            sequence += 1
            assert number == sequence
            assert (key in state) is (operation != "INSERT")
            assert state.get(key) == old
            if operation == "DELETE":
                assert new is None
                del state[key]
            else:
                state[key] = new
        stream.close()
        assert dict(cursor.execute("SELECT __key, this FROM m").fetchall()) == state


def test_readers_see_what_comes_after_they_began(connector: MapConnector) -> None:
    table = opened(connector)
    first = partition(table)
    wakes: list[int] = []
    first.open(lambda: wakes.append(1))
    put(table, 1)
    second = partition(table)
    put(table, 2)
    assert len(wakes) == 2
    assert [row[0] for row in available(first)] == [1, 2]
    assert [row[0] for row in available(second)] == [2]


def put(table: MapTable, key: int) -> None:
    table.put((key, "x"), runnel.connector.WriteMode.SINK)


@pytest.mark.parametrize("closed", [True, False])
def test_without_readers_nothing_is_kept(connector: MapConnector, closed: bool) -> None:
    table = opened(connector)
    part = partition(table)
    put(table, 1)
    assert table._store.watch is not None
    if closed:
        part.close()
        part.close()
    else:
        del part
        gc.collect()
    assert table._store.watch is None


def test_what_all_have_read_is_forgotten(connector: MapConnector) -> None:
    table = opened(connector)
    first, second = partition(table), partition(table)
    for key in range(1_000):
        put(table, key)
    assert len(available(first)) == 1_000
    journal = next(iter(table._store.watch.journals.values()))  # type: ignore[union-attr]
    assert journal.oldest == 1
    assert len(available(second)) == 1_000
    assert journal.oldest == 1_001


def test_a_reader_that_is_too_far_behind_is_told_the_gap(connector: MapConnector) -> None:
    table = opened(connector, journalCapacity="1000")
    slow, quick = partition(table), partition(table)
    for key in range(2_000):
        put(table, key)
        if key % 500 == 0:
            available(quick)
    assert available(quick)[-1][4] == 2_000
    with pytest.raises(OperationalError) as caught:
        slow.read()
    assert "the changes 1 to " in caught.value.message
    assert "'journalCapacity'" in (caught.value.hint or "")


def test_one_commit_of_any_size_can_be_read(connector: MapConnector) -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(CREATE.format(", 'journalCapacity' = '10'"))
        stream = connection.cursor().execute(
            "SELECT sequence FROM TABLE(CHANGES(TABLE m)) LIMIT 200000"
        )
        cursor.execute("SINK INTO m SELECT v, 'x' FROM TABLE(generate_series(1, 200000))")
        assert [number for (number,) in stream.fetchall()] == list(range(1, 200_001))


def test_reading_goes_on_from_a_position_while_the_journal_is_kept(connector: MapConnector) -> None:
    table = opened(connector, journalCapacity="100")
    part = partition(table)
    put(table, 1)
    available(part)
    token = part.position() or {}
    part.close()
    put(table, 2)
    put(table, 3)
    other = partition(table)
    other.seek(token)
    assert [row[0] for row in available(other)] == [2, 3]
    for key in range(500):
        put(table, key)
    late = partition(table)
    late.seek(token)
    with pytest.raises(OperationalError, match="the changes 2 to "):
        late.read()
    skipped = late.skip_to(ExpiredPosition.EARLIEST)
    sequences = [row[4] for row in available(late)]
    assert sequences == list(range(sequences[0], 504))
    assert skipped.rows == sequences[0] - 2 >= 100
    late.seek(token)
    assert late.skip_to(ExpiredPosition.LATEST).rows == 502
    put(table, 7)
    assert [row[4] for row in available(late)] == [504]


def test_a_position_in_another_journal_is_refused(connector: MapConnector) -> None:
    table = opened(connector)
    part = partition(table)
    token = part.position() or {}
    part.close()
    with pytest.raises(OperationalError, match="are no longer available"):
        partition(table).seek(token)


def test_a_mapping_sees_what_another_one_of_the_map_writes(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        for name, fields in (
            ("wide", "a BIGINT, b VARCHAR"),
            ("narrow", "b VARCHAR"),
            ("other", "a VARCHAR"),
        ):
            cursor.execute(
                f"CREATE MAPPING {name} EXTERNAL NAME shared (__key BIGINT, {fields}) TYPE IMap "
                "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
            )
        wide = connection.cursor().execute("SELECT * FROM TABLE(CHANGES(TABLE wide))")
        wrong = connection.cursor().execute("SELECT * FROM TABLE(CHANGES(TABLE other))")
        cursor.execute("INSERT INTO narrow VALUES (1, 'x')")
        cursor.execute("SINK INTO wide VALUES (1, 5, 'y')")
        cursor.execute("UPDATE narrow SET b = 'z'")
        rows = [wide.fetchone() for _ in range(3)]
        assert [row[:6] for row in rows if row is not None] == [
            (1, None, "x", None, None, "INSERT"),
            (1, 5, "y", None, "x", "UPDATE"),
            (1, 5, "z", 5, "y", "UPDATE"),
        ]
        with pytest.raises(DataError, match=r"this[.]a"):
            for _ in range(3):  # the first change fits, and may come by itself
                wrong.fetchone()
        wide.close()


def test_names_that_are_taken() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE MAPPING m (__key BIGINT, operation VARCHAR, old_operation VARCHAR) TYPE IMap "
            "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')"
        )
        cursor.execute("SELECT * FROM TABLE(CHANGES(TABLE m))")
        assert [column[0] for column in cursor.description or ()] == [
            *(
                "__key",
                "operation",
                "old_operation",
                "old_operation_2",
                "old_old_operation",
                "operation_2",
            ),
            *("sequence", "change_time"),
        ]
        cursor.close()


@pytest.mark.parametrize(
    ("query", "kind", "said"),
    [
        ("SELECT * FROM TABLE(CHANGES(TABLE numbers))", NotSupportedError, "of type Arrow"),
        ("SELECT * FROM TABLE(CHANGES(TABLE seen))", NotSupportedError, "a view"),
        ("SELECT * FROM TABLE(CHANGES(TABLE nothing))", ProgrammingError, '"nothing" not found'),
        (
            "SELECT * FROM TABLE(CHANGES((SELECT * FROM m LIMIT 1)))",
            ProgrammingError,
            "needs the name of one mapping",
        ),
        ("SELECT * FROM TABLE(CHANGES(5))", ProgrammingError, "needs the name of one mapping"),
        ("SELECT * FROM TABLE(CHANGES())", ProgrammingError, "needs the name of one mapping"),
    ],
)
def test_what_has_no_changes(query: str, kind: type[Exception], said: str) -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(CREATE.format(""))
        cursor.execute("CREATE VIEW seen AS SELECT * FROM m")
        connection.register("numbers", pa.table({"a": [1]}))
        with pytest.raises(kind, match=said):
            cursor.execute(query)
