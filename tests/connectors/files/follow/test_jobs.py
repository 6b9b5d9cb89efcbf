"""Jobs over a followed folder: parallel files at lag 0, restarts, SHOW JOBS and VERIFY JOB."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import runnel
from runnel import Connection, JobStatus
from tests.waiting import eventually

PATIENCE = 30
WINDOW = 100


def write(path: Path, times: list[int]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps({"ts": time}) + "\n" for time in times)


def parallel_files(folder: Path, rows: int, seed: int) -> list[list[int]]:
    """The event times of four files: each in order, at different speeds."""
    random = Random(seed)
    files = []
    for _ in range(4):
        time, times = 0, []
        for _ in range(rows):
            time += random.randrange(3)
            times.append(time)
        files.append([0, 0, *times])
    folder.mkdir(exist_ok=True)
    for _ in range(2):
        # Each is changed after the others were created, so none looks like the previous one of a
        # rotated log.
        for number in range(4):
            write(folder / f"{number}.json", [0])
    return files


def follow(connection: Connection, folder: Path, more: str = "") -> None:
    connection.execute(
        "CREATE MAPPING s (ts BIGINT, WATERMARK FOR ts AS ts) TYPE File OPTIONS "
        f"('path' = '{folder}', 'format' = 'json', 'follow' = 'true', 'pollMillis' = '5'{more})"
    )
    connection.execute(
        "CREATE MAPPING counts (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
    )


def count(connection: Connection, name: str = "j") -> None:
    connection.execute(
        f"CREATE JOB {name} OPTIONS ('snapshotIntervalMillis' = '20') AS INSERT INTO counts SELECT "
        f"window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), {WINDOW})) "
        "GROUP BY window_end"
    )


def counts_of(files: list[list[int]], last: int) -> list[tuple[int, int]]:
    """The number of rows of each window that ends at or before a time."""
    found = Counter(time // WINDOW * WINDOW + WINDOW for times in files for time in times)
    return sorted((end, rows) for end, rows in found.items() if end <= last)


def counted(connection: Connection) -> list[tuple[int, int]]:
    return [tuple(row) for row in connection.execute("SELECT * FROM counts ORDER BY 1").fetchall()]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_existing_parallel_files_have_no_late_rows(tmp_path: Path, parallelism: int) -> None:
    files = parallel_files(tmp_path / "in", 3000, parallelism)
    for number, times in enumerate(files):
        write(tmp_path / "in" / f"{number}.json", times[2:])
    with runnel.connect() as connection:
        connection.execute(f"SET query_parallelism = {parallelism}")
        follow(connection, tmp_path / "in")
        count(connection)
        expected = counts_of(files, max(map(max, files)))
        assert eventually(lambda: counted(connection)[-1:] == expected[-1:], PATIENCE)
        assert counted(connection) == expected
        assert sum(item.late_rows for item in connection.job("j").metrics().values()) == 0


def test_interleaved_writers_have_no_late_rows(tmp_path: Path) -> None:
    """The writers of the four files are at different times, and an idle timeout of 0 waits."""
    files, random = parallel_files(tmp_path / "in", 1500, 4), Random(5)
    written = [2] * 4
    with runnel.connect() as connection:
        follow(connection, tmp_path / "in", ", 'idleTimeoutMillis' = '0'")
        count(connection)
        job = connection.job("j")
        assert eventually(lambda: job.metrics()["scan s"].rows_out == 8, PATIENCE)
        while any(done < 1502 for done in written):
            number = random.randrange(4)
            step = random.randrange(1, 120)
            write(
                tmp_path / "in" / f"{number}.json",
                files[number][written[number] : written[number] + step],
            )
            written[number] = min(1502, written[number] + step)
        last = min(map(max, files))
        expected = counts_of(files, last)
        assert eventually(lambda: counted(connection)[-1:] == expected[-1:], PATIENCE)
        assert counted(connection) == expected
        assert sum(item.late_rows for item in job.metrics().values()) == 0
        slowest = min(range(4), key=lambda number: max(files[number]))
        holder = f"scan s, partition {tmp_path}/in/{slowest}.json"
        cursor = connection.execute("SHOW JOBS FULL")
        held_by = [item[0] for item in cursor.description or ()].index("held_by")

        def shown() -> str:
            return str(connection.execute("SHOW JOBS FULL").fetchall()[0][held_by])

        assert eventually(lambda: shown().endswith(holder), PATIENCE), shown()


def test_a_rotated_log_needs_no_idle_timeout(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with runnel.connect() as connection:
        follow(connection, folder, ", 'idleTimeoutMillis' = '0'")
        count(connection)
        for number in range(8):
            write(folder / f"{number}.json", list(range(number * WINDOW, (number + 1) * WINDOW)))
            expected = [((past + 1) * WINDOW, WINDOW) for past in range(number)]
            assert eventually(lambda expected=expected: counted(connection) == expected, PATIENCE)
        assert sum(item.late_rows for item in connection.job("j").metrics().values()) == 0


def test_a_job_goes_on_at_another_parallelism(tmp_path: Path) -> None:
    files = parallel_files(tmp_path / "in", 900, 6)
    with runnel.connect(tmp_path / "db") as connection:
        follow(connection, tmp_path / "in", ", 'idleTimeoutMillis' = '0'")
        for start, parallelism in ((0, 1), (300, 3), (600, 2)):
            connection.execute(f"SET query_parallelism = {parallelism}")
            if start:
                connection.execute("ALTER JOB j RESUME")
            else:
                count(connection)
            for number, times in enumerate(files):
                write(tmp_path / "in" / f"{number}.json", times[start + 2 : start + 302])
            job = connection.job("j")
            last = min(max(times[: start + 302]) for times in files)
            wanted = counts_of(files, last)[-1:]
            assert eventually(lambda wanted=wanted: counted(connection)[-1:] == wanted, PATIENCE)
            connection.execute("ALTER JOB j SUSPEND", timeout=PATIENCE)
            assert job.await_status(JobStatus.SUSPENDED, PATIENCE)
        assert counted(connection) == counts_of(files, min(map(max, files)))


def test_a_job_of_several_files_is_verified(tmp_path: Path) -> None:
    files = parallel_files(tmp_path / "in", 300, 8)
    with runnel.connect(tmp_path / "db") as connection:
        follow(connection, tmp_path / "in")
        connection.execute("CREATE MAPPING copies (ts BIGINT) TYPE DuckDB")
        connection.execute(
            "CREATE JOB copying OPTIONS ('snapshotIntervalMillis' = '20') AS "
            "INSERT INTO copies SELECT ts FROM s"
        )
        for number, times in enumerate(files):
            write(tmp_path / "in" / f"{number}.json", times[2:])
        (tmp_path / "in" / "0.json").rename(tmp_path / "in" / "9.json")

        def copied() -> int:
            return int(connection.execute("SELECT COUNT(*) FROM copies").fetchall()[0][0])

        assert eventually(lambda: copied() == 1208, PATIENCE)
        found = connection.execute("VERIFY JOB copying", timeout=PATIENCE).fetchall()
        assert found[0][0] == "equal" or "1208" in str(found[0]), found
