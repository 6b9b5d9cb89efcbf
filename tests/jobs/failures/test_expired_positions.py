"""Jobs whose sources no longer have what comes after the position that the snapshot kept: told, and
gone on with where it is said how."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, JobStatus
from runnel.connector import ScanRequest
from runnel.errors import ErrorCode, OperationalError, ProgrammingError
from runnel.processor import ExpiredPosition
from tests.connectors.conformance import job_context, visible
from tests.connectors.files.cases import mapping
from tests.waiting import eventually

MAP = (
    "CREATE MAPPING {} (__key BIGINT, this VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='varchar')"
)


def opened(path: Path) -> Connection:
    return runnel.connect(path / "directory", query_parallelism=2)


def files(connection: Connection, path: Path, *, on_error: str = "fail") -> None:
    """A job that copies followed lines to a map."""
    connection.execute(
        "CREATE MAPPING lines (k BIGINT, v VARCHAR) TYPE File "
        f"OPTIONS ('format'='json', 'path'='{path}/lines.json', 'follow'='true', "
        f"'pollMillis'='10', 'onError'='{on_error}')"
    )
    connection.execute(MAP.format("copy"))
    connection.execute(
        "CREATE JOB j OPTIONS ('snapshotIntervalMillis'='50') AS SINK INTO copy SELECT k, v "
        "FROM lines"
    )


def line(number: int) -> str:
    return json.dumps({"k": number, "v": f"v{number}"}) + "\n"


def keys(connection: Connection, name: str = "copy") -> list[int]:
    return sorted(key for (key,) in connection.execute(f"SELECT __key FROM {name}").fetchall())


def last_error(connection: Connection) -> str:
    cursor = connection.execute("SHOW JOBS FULL")
    names = [column[0] for column in cursor.description or ()]
    (row,) = [row for row in cursor.fetchall() if row[names.index("name")] == "j"]
    return str(row[names.index("last_error")])


@pytest.mark.parametrize(
    ("choice", "kept"), [("earliest", [0, 1, 2, 10, 11]), ("latest", [0, 1, 2, 11])]
)
def test_a_followed_file_that_was_replaced(
    tmp_path: Path, choice: str, kept: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "lines.json"
    file.write_text("".join(map(line, range(3))))
    with opened(tmp_path) as connection:
        files(connection, tmp_path)
        assert eventually(lambda: keys(connection) == [0, 1, 2])
    file.write_text(line(10))
    with opened(tmp_path) as connection:
        job = connection.job("j")
        assert eventually(lambda: job.status is JobStatus.SUSPENDED)
        assert job.error is not None
        assert job.error.code is ErrorCode.POSITION_EXPIRED
        assert str(file) in last_error(connection)
        assert "expiredPosition" in (job.error.hint or "")
        connection.execute("ALTER JOB j RESUME")
        assert eventually(lambda: job.status is JobStatus.SUSPENDED), "nothing goes on by itself"
        with caplog.at_level(logging.WARNING, "runnel.job"):
            connection.execute(f"ALTER JOB j OPTIONS ('expiredPosition'='{choice}') RESUME")
            assert eventually(lambda: "reading resumes at" in "\n".join(caplog.messages))
        with file.open("a") as stream:
            stream.write(line(11))
        assert eventually(lambda: keys(connection) == kept)
        assert job.status is JobStatus.RUNNING
        assert eventually(lambda: "an unknown number of rows is skipped" in last_error(connection))
    with opened(tmp_path) as connection:
        job = connection.job("j")
        with file.open("a") as stream:
            stream.write(line(12))
        assert eventually(lambda: keys(connection) == [*kept, 12])
        assert job.record.restarts == 2, "once for each process after the first"


def test_changes_of_a_map_end_with_their_journal(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        connection.execute(MAP.format("m"))
        connection.execute(MAP.format("copy"))
        connection.execute(
            "CREATE JOB j OPTIONS ('expiredPosition'='latest') AS "
            "SINK INTO copy SELECT __key, this FROM TABLE(CHANGES(TABLE m))"
        )
        connection.execute("SINK INTO m VALUES (1, 'a')")
        assert eventually(lambda: connection.job("j").rows_out == 1)
        connection.execute("ALTER JOB j SUSPEND")
        assert keys(connection) == [1]
        connection.execute("ALTER JOB j OPTIONS ('expiredPosition'='fail')")
    with opened(tmp_path) as connection:
        connection.execute("SINK INTO m VALUES (2, 'b')")
        connection.execute("ALTER JOB j RESUME")
        job = connection.job("j")
        assert eventually(lambda: job.status is JobStatus.SUSPENDED)
        assert 'the changes of map "m" from 2 on are no longer available' in last_error(connection)
        connection.execute("ALTER JOB j OPTIONS ('expiredPosition'='latest') RESUME")
        assert eventually(lambda: "reading resumes at change 1" in last_error(connection))
        connection.execute("SINK INTO m VALUES (3, 'c')")
        assert eventually(lambda: job.rows_out == 1)
        connection.execute("ALTER JOB j SUSPEND")
        assert keys(connection) == [1, 3]


def test_rows_left_out_are_counted(tmp_path: Path) -> None:
    """A job that is suspended while the journal forgets: what it counts is what it missed."""
    with opened(tmp_path) as connection:
        connection.execute(
            MAP.format("m").replace("'keyFormat'", "'journalCapacity'='10', 'keyFormat'")
        )
        connection.execute(MAP.format("copy"))
        connection.execute(
            "CREATE JOB j OPTIONS ('expiredPosition'='earliest') AS "
            "SINK INTO copy SELECT __key, this FROM TABLE(CHANGES(TABLE m))"
        )
        connection.execute("ALTER JOB j SUSPEND")
        for first in range(0, 1000, 100):
            connection.execute(
                f"SINK INTO m SELECT v, 'x' FROM TABLE(generate_series({first}, {first + 99}))"
            )
        connection.execute("ALTER JOB j RESUME")
        job = connection.job("j")
        assert eventually(lambda: sum(item.skipped_rows for item in job.metrics().values()) == 900)
        assert eventually(
            lambda: "reading resumes at change 901, 900 rows are skipped" in last_error(connection)
        )
        assert eventually(lambda: job.rows_out == 100)
        connection.execute("ALTER JOB j SUSPEND")
        assert keys(connection) == list(range(900, 1000))


def test_diverted_records_before_a_gap_are_committed_once(tmp_path: Path) -> None:
    file = tmp_path / "lines.json"
    file.write_text(line(0) + "no JSON\n")
    with opened(tmp_path) as connection:
        connection.execute("CREATE MAPPING bad (record VARCHAR) TYPE DuckDB")
        files(connection, tmp_path, on_error="divert:bad")
        assert eventually(lambda: connection.execute("SELECT COUNT(*) FROM bad").fetchone() == (1,))
    file.write_text("none\n")
    with opened(tmp_path) as connection:
        job = connection.job("j")
        assert eventually(lambda: job.status is JobStatus.SUSPENDED)
        connection.execute("ALTER JOB j OPTIONS ('expiredPosition'='earliest') RESUME")
        assert eventually(lambda: connection.execute("SELECT COUNT(*) FROM bad").fetchone() == (2,))


def test_the_option_is_checked(tmp_path: Path) -> None:
    with opened(tmp_path) as connection:
        (tmp_path / "lines.json").touch()
        files(connection, tmp_path)
        connection.execute("ALTER JOB j SUSPEND")
        with pytest.raises(
            ProgrammingError, match="option 'expiredPosition' can't be 'early'"
        ) as caught:
            connection.execute("ALTER JOB j OPTIONS ('expiredPosition'='early')")
        assert "'earliest'" in f"{caught.value.detail} {caught.value.hint}"
        connection.execute("ALTER JOB j OPTIONS ('expiredPosition'='LATEST')")
    with opened(tmp_path) as connection:
        assert str(connection.job("j").record.options.expired_position) == "latest"


def test_a_bounded_file_that_changed(tmp_path: Path) -> None:
    """A job that reads a file to its end is suspended as well, instead of being tried again for
    nothing."""
    file = tmp_path / "a.json"
    file.write_text("".join(map(line, range(3))))
    table = mapping(file)
    asked = ScanRequest(visible(table))
    (part,) = table.scan(asked).split(job_context())
    token = json.loads(json.dumps(part.position()))
    file.write_text("".join(map(line, range(5, 9))))
    for choice, wanted in ((ExpiredPosition.EARLIEST, [5, 6, 7, 8]), (ExpiredPosition.LATEST, [])):
        (other,) = table.scan(asked).split(job_context())
        with pytest.raises(
            OperationalError, match="was changed after a job has read it in part"
        ) as caught:
            other.seek(token)
        assert caught.value.code is ErrorCode.POSITION_EXPIRED
        other.skip_to(choice)
        found: list[int] = []
        while isinstance(item := other.read(), pa.RecordBatch):
            found += item.column("k").to_pylist()
        assert found == wanted
