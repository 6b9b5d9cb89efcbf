"""Maps on disk: what a restart, a crash, a damaged file and a full disk leave."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runnel import sqltypes
from runnel.connector import SinkRequest, WriteMode
from runnel.connectors.imap.connector import MapConnector
from runnel.connectors.imap.layout import MapLayout
from runnel.connectors.imap.storage.durable import DurableMap, folder_name, open_durable
from runnel.connectors.imap.storage.log import FILE_HEADER
from runnel.connectors.imap.storage.records import Record, decode_type, encode_type
from runnel.connectors.imap.storage.staging import MapStaging
from runnel.connectors.imap.storage.store import MapStore
from runnel.connectors.imap.table import MapTable
from runnel.errors import IntegrityError, OperationalError
from runnel.sqltypes import BIGINT, JSON, VARCHAR
from tests.connectors.conformance import VALUES, batch_of, read_rows
from tests.connectors.imap.maps import open_map, write

INSERT, SINK, UPDATE, DELETE = WriteMode.INSERT, WriteMode.SINK, WriteMode.UPDATE, WriteMode.DELETE
PAIR = [("__key", BIGINT), ("this", BIGINT)]


def files(path: Path, pattern: str = "*") -> list[Path]:
    return sorted(path.glob(f"maps/m/{pattern}"))


def crash(connector: MapConnector) -> None:
    """Leaves the files as a killed process does: nothing is written at the end."""
    for durable in connector._durable:
        if durable._log is not None:
            durable._log.close()
            durable._log = None
    connector.close()


def reopened(path: Path) -> list[Any]:
    connector = MapConnector(path)
    try:
        return sorted(read_rows(open_map(connector)))
    finally:
        crash(connector)


@pytest.mark.parametrize("end", [MapConnector.close, crash], ids=["close", "crash"])
def test_every_kind_of_change_is_there_after_a_restart(
    tmp_path: Path, end: Callable[[MapConnector], None]
) -> None:
    connector = MapConnector(tmp_path)
    table = open_map(connector)
    write(table, INSERT, [(i, i) for i in range(10)])
    table.put((3, 30), SINK)
    table.put((4, 40), UPDATE)
    table.put((5, None), DELETE)
    write(table, SINK, [(6, 60), (11, 1), (11, 2)])
    write(table, UPDATE, [(7, 70), (99, 0)])
    write(table, DELETE, [(8,), (98,)], (0,))
    expected = sorted(read_rows(table))
    assert expected == [(0, 0), (1, 1), (2, 2), (3, 30), (4, 40), (6, 60), (7, 70), (9, 9), (11, 2)]
    end(connector)
    for _ in range(2):
        assert reopened(tmp_path) == expected
    connector = MapConnector(tmp_path)
    open_map(connector).clear()
    open_map(connector).put((1, 2), INSERT)
    end(connector)
    assert reopened(tmp_path) == [(1, 2)]


def test_every_type_is_there_after_a_restart(tmp_path: Path) -> None:
    columns = [("__key", BIGINT)] + [(f"c{i}", item) for i, item in enumerate(VALUES)]
    rows = [(row, *(values[row % len(values)] for values in VALUES.values())) for row in range(5)]
    rows.append((5, *(None for _ in VALUES)))
    connector = MapConnector(tmp_path)
    write(open_map(connector, *columns, value="json-flat"), INSERT, rows)
    crash(connector)
    connector = MapConnector(tmp_path)
    assert sorted(read_rows(open_map(connector, *columns, value="json-flat"))) == rows
    connector.close()
    connector = MapConnector(tmp_path)
    assert sorted(read_rows(open_map(connector, *columns, value="json-flat"))) == rows
    connector.close()


@pytest.mark.parametrize(
    "item",
    [*VALUES, sqltypes.NULL, sqltypes.INTERVAL_MONTH, sqltypes.array(sqltypes.array(JSON))],
    ids=str,
)
def test_types_survive_as_json(item: sqltypes.SqlType) -> None:
    import json

    assert decode_type(json.loads(json.dumps(encode_type(item)))) == item


def test_a_mapping_alone_writes_nothing(tmp_path: Path) -> None:
    connector = MapConnector(tmp_path)
    assert read_rows(open_map(connector)) == []
    connector.close()
    assert list(tmp_path.iterdir()) == []


def test_rows_of_several_mappings_are_kept_with_their_fields(tmp_path: Path) -> None:
    def both(connector: MapConnector) -> tuple[MapTable, MapTable]:
        first = open_map(connector, ("__key", BIGINT), ("a", BIGINT), value="json-flat")
        return first, open_map(
            connector, ("__key", BIGINT), ("a", VARCHAR), ("b", JSON), name="M", value="json-flat"
        )

    connector = MapConnector(tmp_path)
    first, second = both(connector)
    first.put((1, 10), INSERT)
    read_rows(first)
    second.put((2, "x", "[]"), INSERT)
    connector.close()
    first, second = both(connector := MapConnector(tmp_path))
    assert first.get((1,)) == (1, 10)
    assert second.get((2,)) == (2, "x", "[]")
    connector.close()


def test_the_folder_of_a_map_is_its_own() -> None:
    names = ["m", "a.b", "..", "a/b", "Grüße", "x" * 500, "x" * 501, ".", "a%2Fb"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    assert all("/" not in name and not name.startswith(".") and len(name) < 250 for name in folders)
    assert folder_name("Trades") == folder_name("TRADES")


class Opened:
    """One durable map, opened with a small limit for its log."""

    def __init__(self, path: Path, least_log: int = 4000) -> None:
        self.staging = MapStaging(MapStore("m"))
        self.durable = open_durable(self.staging, path / "maps", least_log)
        layout = MapLayout(("__key", "this"), (BIGINT, BIGINT))
        from runnel.catalog import TableColumn

        columns = (TableColumn("__key", BIGINT), TableColumn("this", BIGINT))
        self.table = MapTable("m", columns, layout, self.staging)

    def crash(self) -> None:
        if self.durable._log is not None:
            self.durable._log.close()
        self.staging.store.release()


def test_the_log_is_replaced_when_it_outgrows_the_rows(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for turn in range(100):
        opened.table.put((turn % 5, turn), SINK)
    assert len(files(tmp_path)) == 3
    assert files(tmp_path, "checkpoint-*")[0].name > "checkpoint-00000000"
    assert sum(path.stat().st_size for path in files(tmp_path)) < 10_000
    expected = sorted(read_rows(opened.table))
    opened.crash()
    assert reopened(tmp_path) == expected == [(i, 95 + i) for i in range(5)]


def test_a_checkpoint_that_is_cut_short_changes_nothing(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.crash()
    folder = files(tmp_path)[0].parent
    (folder / ".checkpoint-00000001").write_bytes(b"half")
    (folder / "log-00000001").write_bytes(b"")
    assert reopened(tmp_path) == [(1, 1)]
    assert [path.name for path in files(tmp_path)] == ["current", "log-00000000"]


@pytest.mark.parametrize("cut", [1, 5, 17, 100])
def test_a_torn_last_change_is_left_out(
    tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.table.put((2, 2), SINK)
    opened.crash()
    log = files(tmp_path, "log-*")[0]
    log.write_bytes(log.read_bytes()[:-cut])
    with caplog.at_level(logging.WARNING, "runnel.maps"):
        opened = Opened(tmp_path)
    assert "not finished" in "\n".join(caplog.messages)
    assert read_rows(opened.table) == [(1, 1)]
    opened.table.put((3, 3), SINK)
    opened.crash()
    assert reopened(tmp_path) == [(1, 1), (3, 3)]


@pytest.mark.parametrize("rest", [b"\0" * 4096, b"garbage"])
def test_garbage_behind_the_last_change_is_left_out(tmp_path: Path, rest: bytes) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.crash()
    log = files(tmp_path, "log-*")[0]
    log.write_bytes(log.read_bytes() + rest)
    assert reopened(tmp_path) == [(1, 1)]


@pytest.mark.parametrize("place", [2, 9, 40])
def test_damage_in_the_middle_is_refused(tmp_path: Path, place: int) -> None:
    opened = Opened(tmp_path)
    for i in range(3):
        opened.table.put((i, i), SINK)
    opened.crash()
    log = files(tmp_path, "log-*")[0]
    data = bytearray(log.read_bytes())
    data[place] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(OperationalError, match=r"is damaged at byte [08]\n") as caught:
        reopened(tmp_path)
    assert caught.value.hint == "restore the directory from a backup"
    assert log.read_bytes() == data


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    connector = MapConnector(tmp_path)
    write(open_map(connector), INSERT, [(i, i) for i in range(100)])
    connector.close()
    checkpoint = files(tmp_path, "checkpoint-*")[0]
    checkpoint.write_bytes(checkpoint.read_bytes()[:-1])
    with pytest.raises(OperationalError, match="is damaged"):
        reopened(tmp_path)
    files(tmp_path, "log-*")[0].unlink()
    with pytest.raises(OperationalError, match="is missing"):
        reopened(tmp_path)


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"]
)
@pytest.mark.parametrize("name", ["checkpoint-00000001", "log-00000001", "current"])
def test_a_missing_or_empty_file_is_never_an_empty_map(
    tmp_path: Path, name: str, damage: Callable[[Path], Any]
) -> None:
    connector = MapConnector(tmp_path)
    write(open_map(connector), INSERT, [(i, i) for i in range(100)])
    connector.close()
    file = tmp_path / "maps" / "m" / name
    damage(file)
    before = {path: path.read_bytes() for path in files(tmp_path)}
    with pytest.raises(OperationalError, match=f"the file {file} is (missing|damaged)") as caught:
        reopened(tmp_path)
    assert caught.value.hint == "restore the directory from a backup"
    assert {path: path.read_bytes() for path in files(tmp_path)} == before


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"]
)
def test_the_first_log_is_missed_too(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.crash()
    damage(files(tmp_path, "log-*")[0])
    with pytest.raises(OperationalError, match=r"log-00000000 is (missing|damaged)"):
        reopened(tmp_path)


def test_a_folder_without_files_is_no_empty_map(tmp_path: Path) -> None:
    (tmp_path / "maps" / "m").mkdir(parents=True)
    with pytest.raises(OperationalError, match="current is missing"):
        reopened(tmp_path)


def test_a_checkpoint_cut_between_two_records_is_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.durable.checkpoint()
    opened.crash()
    checkpoint = files(tmp_path, "checkpoint-*")[0]
    checkpoint.write_bytes(checkpoint.read_bytes()[: len(FILE_HEADER)])
    with pytest.raises(OperationalError, match="is damaged"):
        reopened(tmp_path)


def test_a_folder_that_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    unfinished = tmp_path / "maps" / ".m"
    unfinished.mkdir(parents=True)
    (unfinished / "log-00000000").write_bytes(b"")
    assert reopened(tmp_path) == []
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.crash()
    assert not unfinished.exists()
    assert reopened(tmp_path) == [(1, 1)]


def test_a_change_of_unknown_kind_is_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), SINK)
    opened.durable._append(Record("merge"))
    opened.crash()
    with pytest.raises(OperationalError, match='of unknown kind "merge"'):
        reopened(tmp_path)


def test_pandas_is_not_imported_for_a_map(tmp_path: Path) -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


PLAIN = """
import sys
from pathlib import Path
from runnel.catalog import Index
from runnel.connector import IndexLookup, ScanRequest, WriteMode
from runnel.connectors.imap.connector import MapConnector
from tests.connectors.conformance import read_source
from tests.connectors.imap.maps import open_map, write

connector = MapConnector(Path(sys.argv[1]))
table = open_map(connector, value="varchar")
write(table, WriteMode.INSERT, [(i, str(i)) for i in range(50)])
write(table, WriteMode.UPDATE, [(1, "x"), (99, "y")])
write(table, WriteMode.DELETE, [(2,)], (0,))
table.put((3, "z"), WriteMode.SINK)
assert table.get((3,)) == (3, "z")
index = Index("i", "m", ("this",), "sorted")
assert (
    len(read_source(table.index_scan(ScanRequest((0, 1)), IndexLookup(index, ordered=True)))) == 1
)
assert len(read_source(table.scan(ScanRequest((0, 1))))) == 1
connector.close()
print([name for name in ("pandas", "duckdb", "polars") if name in sys.modules])
"""


def test_staged_rows_of_a_durable_job_are_committed_after_a_restart(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), INSERT)
    tokens = []
    for mode, rows in (
        (SINK, [(1, 10), (2, 20)]),
        (DELETE, [(1,)]),
        (INSERT, [(7, 7)]),
        (UPDATE, [(2, 22)]),
    ):
        sink = opened.table.sink(SinkRequest(mode, (0,) if mode is DELETE else (0, 1)))
        sink.write(batch_of(PAIR[:1] if mode is DELETE else PAIR, rows))
        tokens.append(sink.stage(1))
        sink.close()
    assert read_rows(opened.table) == [(1, 1)]
    opened.durable.checkpoint()
    opened.crash()

    opened = Opened(tmp_path)
    assert read_rows(opened.table) == [(1, 1)]
    sink = opened.table.sink(SinkRequest(SINK, (0, 1)))
    for token in (tokens[0], tokens[0], tokens[1], tokens[3]):
        sink.commit(token)
    sink.abort(tokens[2])
    assert read_rows(opened.table) == [(2, 22)]
    opened.crash()

    opened = Opened(tmp_path)
    assert read_rows(opened.table) == [(2, 22)]
    sink = opened.table.sink(SinkRequest(SINK, (0, 1)))
    for token in tokens:
        sink.commit(token)
    assert read_rows(opened.table) == [(2, 22)]
    opened.crash()


def test_a_statement_without_rows_writes_nothing(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for mode in (INSERT, SINK, UPDATE):
        write(opened.table, mode, [])
    write(opened.table, UPDATE, [(1, 1)])
    write(opened.table, DELETE, [], (0,))
    assert opened.table.clear() == 0
    opened.crash()
    assert files(tmp_path) == []


def test_a_light_jobs_staged_rows_leave_no_trace_on_disk(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.table.put((1, 1), INSERT)
    size = files(tmp_path, "log-*")[0].stat().st_size
    sink = opened.table.sink(SinkRequest(INSERT, (0, 1)))
    sink.write(batch_of(PAIR, [(1, 2)]))
    token = sink.stage(0)
    with pytest.raises(IntegrityError):
        sink.commit(token)
    sink.close()
    assert files(tmp_path, "log-*")[0].stat().st_size == size
    opened.crash()
    assert reopened(tmp_path) == [(1, 1)]


class FullDisk:
    """A file that takes no more than some bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file = file
        self.room = room

    def write(self, data: Any) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        written: int = self._file.write(bytes(data[: self.room]))
        self.room -= written
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    write(opened.table, INSERT, [(1, 1), (2, 2)])
    assert opened.durable._log is not None
    disk = FullDisk(opened.durable._log._file, 50)
    opened.durable._log._file = disk  # type: ignore[assignment]
    attempts: list[Callable[[], object]] = [
        lambda: opened.table.put((3, 3), INSERT),
        lambda: opened.table.put((1, 3), SINK),
        lambda: opened.table.put((1, 3), UPDATE),
        lambda: opened.table.put((1, None), DELETE),
        lambda: write(opened.table, INSERT, [(4, 4)]),
        lambda: write(opened.table, SINK, [(1, 4)]),
        lambda: write(opened.table, UPDATE, [(1, 4)]),
        lambda: write(opened.table, DELETE, [(1,)], (0,)),
        opened.table.clear,
    ]
    for attempt in attempts:
        disk.room = 20
        with pytest.raises(OperationalError, match="failed; nothing was changed") as caught:
            attempt()
        assert "No space left" in (caught.value.detail or "")
        assert sorted(read_rows(opened.table)) == [(1, 1), (2, 2)]
        assert opened.table.get((1,)) == (1, 1)
    disk.room = 1 << 20
    opened.table.put((3, 3), INSERT)
    opened.crash()
    assert reopened(tmp_path) == [(1, 1), (2, 2), (3, 3)]


def test_no_room_for_a_checkpoint_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Opened(tmp_path)

    def full(self: DurableMap) -> None:
        raise OperationalError("writing failed", detail="No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "runnel.maps"):
        patch.setattr(DurableMap, "checkpoint", full)
        for i in range(100):
            opened.table.put((i, i), INSERT)
    assert caplog.messages[0].startswith('map "m": no checkpoint could be written')
    assert caplog.messages[0].endswith(": No space left on device")
    opened.crash()
    assert reopened(tmp_path) == [(i, i) for i in range(100)]


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    """The operating system itself refuses to write."""
    resource = pytest.importorskip("resource")
    assert resource is not None
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    count = int(done.stdout)
    assert count > 3
    assert reopened(tmp_path) == [(i, i) for i in range(count)]


LIMITED = """
import resource, sys
from pathlib import Path
from runnel.connector import MappingDefinition, WriteMode
from runnel.connectors.imap.connector import MapConnector
from runnel.errors import OperationalError

table = MapConnector(Path(sys.argv[1])).open(
    MappingDefinition("m", (), {"keyFormat": "bigint", "valueFormat": "bigint"})
)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
for i in range(100):
    try:
        table.put((i, i), WriteMode.INSERT)
    except OperationalError as error:
        assert table.get((i,)) is None and table.row_count() == i
        break
print(i)
"""

ENDLESS = """
import sys
from pathlib import Path
from runnel.connector import MappingDefinition, WriteMode
from runnel.connectors.imap.connector import MapConnector

table = MapConnector(Path(sys.argv[1])).open(
    MappingDefinition("m", (), {"keyFormat": "bigint", "valueFormat": "bigint"})
)
i = table.row_count()
while True:
    table.put((i, i), WriteMode.INSERT)
    print(i, flush=True)
    i += 1
"""


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    acknowledged = -1
    for turn in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(20 + 13 * turn):
            acknowledged = int(process.stdout.readline())
        process.kill()
        rest = process.stdout.read().splitlines()
        process.stdout.close()
        process.wait()
        if rest and rest[-1].strip():
            acknowledged = int(rest[-1])
        rows = reopened(tmp_path)
        # The change that was being made may be there or not.
        assert rows in (
            [(i, i) for i in range(acknowledged + 1)],
            [(i, i) for i in range(acknowledged + 2)],
        )


def test_closing_twice_and_closing_unwritten(tmp_path: Path) -> None:
    connector = MapConnector(tmp_path)
    open_map(connector).put((1, 1), INSERT)
    connector.close()
    connector.close()
    assert [path.name for path in files(tmp_path)] == [
        "checkpoint-00000001",
        "current",
        "log-00000001",
    ]
    connector = MapConnector(tmp_path)
    open_map(connector)
    connector.close()
    assert [path.name for path in files(tmp_path)] == [
        "checkpoint-00000001",
        "current",
        "log-00000001",
    ]
