"""How an application tests its streams and jobs: no test sleeps, and none depends on the machine's
speed. The functions `test_…` are tests for pytest.

python examples/testing_an_application.py
"""

from __future__ import annotations

import json
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import runnel
from runnel.testing import ManualClock

NOON = datetime(2030, 1, 1, 12)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


# The application


def hot_rooms(con: runnel.Connection) -> runnel.Cursor:
    """The rooms whose average in a minute is above 30 °C, as soon as the minute is complete."""
    return con.execute("""
        SELECT window_end, room, AVG(celsius) FROM
            TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_end, room HAVING AVG(celsius) > 30""")


def copy_orders(con: runnel.Connection, folder: Path) -> None:
    """A job that copies the orders of a file to a map, every ten seconds."""
    files = f"'path' = '{folder}', 'format' = 'json', 'follow' = 'true', 'pollMillis' = '1000'"
    con.execute(f"CREATE MAPPING orders (id BIGINT, item VARCHAR) TYPE File OPTIONS ({files})")
    con.execute("""CREATE MAPPING copies (__key BIGINT, item VARCHAR) TYPE IMap""")
    con.execute("""CREATE JOB copying OPTIONS ('snapshotIntervalMillis' = '10000') AS
        INSERT INTO copies SELECT id, item FROM orders""")


# Its tests


def pass_time(con: runnel.Connection, clock: ManualClock, time: timedelta) -> None:
    """Lets time pass, and returns when everything that it brings about is done."""
    clock.advance(time)
    con.settle()


def test_a_window() -> None:
    clock = ManualClock(wall_start=NOON)
    with runnel.connect(clock=clock) as con:
        readings = con.register_stream(
            "readings",
            {"room": "VARCHAR", "celsius": "DOUBLE", "ts": "TIMESTAMP"},
            time_column="ts",
            max_disorder=5 * SECOND,
        )
        rows = hot_rooms(con)
        readings.write([("attic", 35.0, NOON), ("attic", 29.0, NOON + 59 * SECOND)])
        readings.write([("cellar", 12.0, NOON + 64 * SECOND)])
        con.settle()
        try:
            rows.fetchone(timeout=0)
        except runnel.FetchTimeoutError:
            print("12:01:04: rows may be 5 seconds late, so the minute is not complete")
        else:
            raise AssertionError("a result before the minute is complete")
        readings.write([("cellar", 12.0, NOON + 65 * SECOND)])
        con.settle()
        assert rows.fetchmany(10, timeout=0) == [(NOON + MINUTE, "attic", 32.0)]
        print("12:01:05: the attic is too hot")


def test_a_job_that_is_killed() -> None:
    clock = ManualClock(wall_start=NOON)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "orders").mkdir()
        with runnel.connect(folder / "db", clock=clock) as con:
            copy_orders(con, folder / "orders")
            write(folder / "orders" / "1.json", [(1, "tea"), (2, "salt")])
            pass_time(con, clock, 2 * SECOND)
            assert copies(con) == [], "it commits with each snapshot"
            pass_time(con, clock, 10 * SECOND)
            assert copies(con) == [(1, "tea"), (2, "salt")]
            write(folder / "orders" / "2.json", [(3, "rice")])
            pass_time(con, clock, 2 * SECOND)
            assert copies(con) == [(1, "tea"), (2, "salt")]
            print("order 3 was read, and will be written with the next snapshot")
            # A process that is killed now leaves these files.
            shutil.copytree(folder / "db", folder / "killed")
        with runnel.connect(folder / "killed", clock=clock) as con:
            pass_time(con, clock, 2 * SECOND)
            pass_time(con, clock, 10 * SECOND)
            assert copies(con) == [(1, "tea"), (2, "salt"), (3, "rice")]
            job = con.job("copying")
            assert (job.status, job.record.restarts) == (runnel.JobStatus.RUNNING, 1)
            assert job.record.started == clock.wall() - 12 * 1_000_000
            print("the job resumed: each order was copied once")


def test_the_time_of_a_statement() -> None:
    clock = ManualClock(wall_start=NOON)
    with runnel.connect(clock=clock) as con:
        assert con.execute("SELECT NOW()").fetchone() == (NOON.replace(tzinfo=UTC),)


def write(file: Path, orders: list[tuple[int, str]]) -> None:
    file.write_text("".join(json.dumps({"id": id, "item": item}) + "\n" for id, item in orders))


def copies(con: runnel.Connection) -> list[tuple[int, str]]:
    return con.execute("SELECT __key, item FROM copies ORDER BY __key").fetchall()  # type: ignore[return-value]


def main() -> None:
    test_a_window()
    test_a_job_that_is_killed()
    test_the_time_of_a_statement()


if __name__ == "__main__":
    main()
