"""Named jobs and their sinks together: records that can't be read, late rows, sinks that are down,
mappings that change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.catalog import Table, TableColumn
from runnel.connector import (
    Connector,
    MappingDefinition,
    Sink,
    SinkRequest,
    Token,
    WritableTable,
    WriteMode,
)
from runnel.connectors.files import storage as file_system
from runnel.errors import OperationalError
from runnel.processor import Guarantee
from runnel.sqltypes import BIGINT
from tests.sinks.test_durable_write import Disk, DiskSink
from tests.waiting import eventually

PATIENCE = 30
OFTEN = "OPTIONS ('snapshotIntervalMillis' = '20')"
MAP = (
    "(__key BIGINT, this BIGINT) TYPE IMap OPTIONS ('keyFormat' = 'bigint', "
    "'valueFormat' = 'bigint')"
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with runnel.connect(tmp_path / "directory") as made:
        made.execute(f"CREATE MAPPING m {MAP}")
        yield made


def rows(
    connection: Connection, query: str = "SELECT * FROM m ORDER BY 1, 2"
) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def follow(
    connection: Connection, path: Path, on_error: str = "fail", columns: str = "k BIGINT, v BIGINT"
) -> None:
    connection.execute(
        f"CREATE OR REPLACE MAPPING lines ({columns}) TYPE File "
        f"OPTIONS ('path' = '{path}', 'format' = 'json', "
        f"'follow' = 'true', 'pollMillis' = '5', 'onError' = '{on_error}')"
    )


def test_a_record_that_cant_be_read_suspends_the_job_until_it_may_be_skipped(
    connection: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 1}\n')
    follow(connection, path)
    connection.execute(f"CREATE JOB j {OFTEN} AS INSERT INTO m SELECT k, v FROM lines")
    job = connection.job("j")
    assert eventually(lambda: rows(connection) == [(1, 1)])
    with path.open("a") as file:
        file.write('{"k": 2, "v": 2}\n{"k": "x"\n{"k": 3, "v": 3}\n')
    assert eventually(lambda: job.status is JobStatus.SUSPENDED)
    assert job.error is not None
    assert "line 3" in str(job.error)
    follow(connection, path, "skip")
    job.resume()
    assert eventually(lambda: rows(connection) == [(1, 1), (2, 2), (3, 3)])
    assert job.status is JobStatus.RUNNING
    job.cancel()


def test_diverted_records_come_with_the_snapshot_and_once(
    connection: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 1}\nnothing\n')
    connection.execute("CREATE MAPPING bad (record VARCHAR, reason VARCHAR) TYPE DuckDB")
    follow(connection, path, "divert:bad")
    connection.execute(f"CREATE JOB j {OFTEN} AS INSERT INTO m SELECT k, v FROM lines")
    job = connection.job("j")
    assert eventually(lambda: rows(connection, "SELECT record FROM bad") == [("nothing",)])
    for number in (2, 3):
        job.restart(PATIENCE)
        with path.open("a") as file:
            file.write(f'nothing {number}\n{{"k": {number}, "v": {number}}}\n')
        assert eventually(lambda n=number: len(rows(connection)) == n)  # type: ignore[misc]
    job.suspend(PATIENCE)
    assert rows(connection, "SELECT record FROM bad ORDER BY 1") == [
        ("nothing",),
        ("nothing 2",),
        ("nothing 3",),
    ]


def test_late_rows_of_a_job_come_once(connection: Connection) -> None:
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    writer = connection.register_stream("clicks", schema, time_column="ts", max_disorder=0)
    connection.execute("CREATE MAPPING late (k BIGINT, ts BIGINT) TYPE DuckDB")
    connection.execute(
        f"CREATE JOB j {OFTEN} AS INSERT INTO m SELECT window_end, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), 10)) GROUP BY window_end "
        "LATE DATA INTO late"
    )
    job = connection.job("j")
    writer.write([(1, 5), (2, 25)])
    assert eventually(lambda: rows(connection) == [(10, 1)])
    writer.write([(3, 6)])
    assert eventually(lambda: rows(connection, "SELECT * FROM late") == [(3, 6)])
    job.restart(PATIENCE)
    writer.write([(4, 7)])
    writer.close()
    job.join(PATIENCE)
    assert rows(connection, "SELECT * FROM late ORDER BY 1") == [(3, 6), (4, 7)]
    assert rows(connection) == [(10, 1), (30, 1)]


class TapeTable(WritableTable):
    connector = "Tape"
    columns = (TableColumn("n", BIGINT),)
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, name: str, tape: TapeConnector) -> None:
        self.name = name
        self._tape = tape

    def row_count(self) -> int | None:
        return None

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        return TapeSink(self._tape, request.owner)


class TapeSink(DiskSink):
    def __init__(self, tape: TapeConnector, owner: str) -> None:
        super().__init__(tape.disk, owner)
        self._tape = tape

    def recover(self, tokens: Sequence[Token]) -> None:
        super().recover(tokens)
        self._tape.recoveries += 1

    def commit(self, token: Token) -> None:
        if self._tape.failures:
            self._tape.failures -= 1
            raise OperationalError("the tape is torn")
        super().commit(token)


class TapeConnector(Connector):
    name = "Tape"

    def __init__(self) -> None:
        self.disk = Disk()
        self.failures = 0
        self.recoveries = 0

    def open(self, definition: MappingDefinition) -> Table:
        return TapeTable(definition.name, self)


def test_a_sink_that_was_down_gets_everything_once(connection: Connection, tmp_path: Path) -> None:
    tape = TapeConnector()
    tape.failures = 1
    connection.add_connector(tape)
    path = tmp_path / "lines.json"
    path.write_text("".join(f'{{"k": {i}, "v": 0}}\n' for i in range(100)))
    follow(connection, path)
    connection.execute("CREATE MAPPING tape (n BIGINT) TYPE Tape")
    connection.execute(f"CREATE JOB j {OFTEN} AS INSERT INTO tape SELECT k FROM lines")
    assert eventually(lambda: len(tape.disk.visible) == 100)
    assert eventually(lambda: connection.job("j").status is JobStatus.RUNNING)
    shown = connection.execute("SHOW JOBS FULL")
    names = [column[0] for column in shown.description or ()]
    row = dict(zip(names, shown.fetchall()[0], strict=True))
    assert row["restarts"] == 1
    assert "the tape is torn" in str(row["last_error"])
    with path.open("a") as file:
        file.write('{"k": 100, "v": 0}\n')
    assert eventually(lambda: len(tape.disk.visible) == 101)
    assert sorted(tape.disk.visible) == list(range(101))
    assert not tape.disk.staged
    assert tape.recoveries == 2
    connection.job("j").cancel()


def test_what_a_dropped_job_had_staged_is_gone(connection: Connection, tmp_path: Path) -> None:
    tape = TapeConnector()
    connection.add_connector(tape)
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 0}\n')
    follow(connection, path)
    connection.execute("CREATE MAPPING tape (n BIGINT) TYPE Tape")
    tape.failures = 10**6
    connection.execute(f"CREATE JOB j {OFTEN} AS INSERT INTO tape SELECT k FROM lines")
    assert eventually(lambda: bool(tape.disk.staged))
    tape.failures = 10**6
    connection.execute("DROP JOB j")
    assert eventually(lambda: not tape.disk.staged)
    assert tape.disk.visible == []


@pytest.mark.parametrize(
    "then",
    [
        "DROP JOB j",
        "DROP JOB j WITH SNAPSHOT s",
        "ALTER JOB j AS INSERT INTO other SELECT k FROM lines",
    ],
)
def test_what_the_last_snapshot_counts_is_committed_before_the_sink_is_left(
    connection: Connection, tmp_path: Path, then: str
) -> None:
    tape = TapeConnector()
    connection.add_connector(tape)
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 0}\n')
    follow(connection, path)
    connection.execute("CREATE MAPPING tape (n BIGINT) TYPE Tape")
    connection.execute(
        "CREATE MAPPING other (n BIGINT) TYPE File "
        f"OPTIONS ('path'='{tmp_path / 'other'}', 'format'='csv')"
    )
    tape.failures = 10**6
    connection.execute(f"CREATE JOB j {OFTEN} AS INSERT INTO tape SELECT k FROM lines")
    assert eventually(
        lambda: bool(tape.disk.staged) and connection.job("j").last_snapshot is not None
    )
    assert eventually(lambda: connection.job("j").status is not JobStatus.RUNNING)
    connection.execute("ALTER JOB j SUSPEND")
    assert tape.disk.visible == []
    tape.failures = 0
    connection.execute(then)
    assert tape.disk.visible == [1] and not tape.disk.staged


def test_no_room_for_a_file_of_a_snapshot_loses_nothing(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.json"
    path.write_text("".join(f'{{"k": {i}, "v": 0}}\n' for i in range(100)))
    follow(connection, path)
    connection.execute(
        "CREATE MAPPING out (k BIGINT) TYPE File "
        f"OPTIONS ('format' = 'csv', 'path' = '{tmp_path}/out', 'ignoreFileNotFound' = 'true')"
    )
    failures = [0]
    keep_names = file_system.keep_names

    def full(folder: str) -> None:
        failures[0] += 1
        if failures[0] == 1:
            raise OSError(28, "No space left on device")
        keep_names(folder)

    monkeypatch.setattr(file_system, "keep_names", full)
    connection.execute(f"CREATE JOB j {OFTEN} AS INSERT INTO out SELECT k FROM lines")
    assert eventually(lambda: len(rows(connection, "SELECT k FROM out")) >= 100)
    job = connection.job("j")
    assert "can't be written" in str(job.error)
    job.suspend(PATIENCE)
    assert rows(connection, "SELECT k FROM out ORDER BY 1") == [(i,) for i in range(100)]
    assert [item for item in (tmp_path / "out").iterdir() if item.name.startswith(".")] == []


def test_another_mapping_under_the_sinks_name_is_refused(
    connection: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 1}\n')
    follow(connection, path)
    connection.execute(f"CREATE JOB j {OFTEN} AS SINK INTO m SELECT k, v FROM lines")
    job = connection.job("j")
    assert eventually(lambda: rows(connection) == [(1, 1)])
    job.suspend(PATIENCE)
    connection.execute("CREATE OR REPLACE MAPPING m (k BIGINT, v BIGINT) TYPE DuckDB")
    with pytest.raises(OperationalError, match="its plan has changed") as caught:
        job.resume()
    assert "it was write m of connector IMap, and is write m of connector DuckDB" in (
        caught.value.detail or ""
    )
    connection.execute(f"CREATE OR REPLACE MAPPING m {MAP}")
    with path.open("a") as file:
        file.write('{"k": 2, "v": 2}\n')
    job.resume()
    assert eventually(lambda: rows(connection) == [(1, 1), (2, 2)])
    job.cancel()


def test_without_snapshots_rows_show_while_the_job_runs(
    connection: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 1}\n')
    follow(connection, path)
    connection.execute(
        "CREATE JOB j OPTIONS ('processingGuarantee' = 'none') AS SINK INTO m SELECT k, v "
        "FROM lines"
    )
    assert eventually(lambda: rows(connection) == [(1, 1)])
    with path.open("a") as file:
        file.write('{"k": 2, "v": 2}\n')
    assert eventually(lambda: rows(connection) == [(1, 1), (2, 2)])
    connection.job("j").cancel()


def test_one_file_is_refused_at_create_job(connection: Connection, tmp_path: Path) -> None:
    options = f"'path' = '{tmp_path}/one.csv', 'format' = 'csv', 'ignoreFileNotFound' = 'true'"
    connection.execute(f"CREATE MAPPING one (k BIGINT, v BIGINT) TYPE File OPTIONS ({options})")
    path = tmp_path / "lines.json"
    path.write_text('{"k": 1, "v": 1}\n')
    follow(connection, path)
    with pytest.raises(runnel.ProgrammingError, match="a job can't write to the one file"):
        connection.execute("CREATE JOB j AS INSERT INTO one SELECT k, v FROM lines")
