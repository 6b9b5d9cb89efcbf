"""Crashes around a change of windows: a directory as a crash leaves it is a copy of it, made while
the job runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import runnel
from runnel import Connection
from tests.dbapi.connection.test_lifecycle import eventually
from tests.jobs.state_evolution.recombined import (
    Result,
    Row,
    Shape,
    cumulate,
    given_after,
    given_before,
    hop,
    over_all,
    tumble,
)
from tests.jobs.state_evolution.test_recombining import NEWER, OLDER, PATIENCE, VALUES, found, query

CHANGES = [
    (hop(20, 5), tumble(10)),
    (tumble(10), hop(30, 10)),
    (tumble(10), tumble(15)),
    (hop(24, 8, 1), cumulate(4, 24)),
]


def append(path: Path, rows: Sequence[Row]) -> None:
    with path.open("a") as file:
        file.writelines(f"{key},{time},{value}\n" for key, time, value in rows)


def opened(folder: Path, parallelism: int) -> Connection:
    connection = runnel.connect(folder)
    connection.execute(f"SET query_parallelism = {parallelism}")
    return connection


def started(folder: Path, clicks: Path, shape: Shape) -> Connection:
    connection = opened(folder, 2)
    options = "'keyFormat'='bigint', 'valueFormat'='json-flat'"
    columns = "__key BIGINT, n BIGINT, s BIGINT, lo BIGINT, hi BIGINT"
    connection.execute(f"CREATE MAPPING m ({columns}) TYPE IMap OPTIONS ({options})")
    connection.execute(
        "CREATE MAPPING s (k BIGINT, ts BIGINT, v BIGINT, WATERMARK FOR ts AS ts) TYPE File "
        f"OPTIONS ('path'='{clicks}', 'format'='csv', 'header'='false', 'follow'='true', "
        "'idleTimeoutMillis'='0')"
    )
    connection.execute(
        f"CREATE JOB j OPTIONS ('snapshotIntervalMillis'='100000000') AS {query(shape, VALUES)}"
    )
    return connection


def read(connection: Connection, count: int) -> None:
    assert eventually(lambda: connection.job("j").rows_in == count)


def give(connection: Connection, shape: Shape) -> None:
    """Waits until the older rows are read, and the windows given that they complete."""
    read(connection, len(OLDER))
    assert eventually(lambda: connection.job("j").rows_out == len(given_before(OLDER, shape, 56)))


def at_end(connection: Connection, clicks: Path, rows: Sequence[Row]) -> Result:
    """What has come out when a row has come that completes everything."""
    last = max(row[1] for row in rows) + 1000
    read_before = connection.job("j").rows_in
    append(clicks, [(9, last, 0)])
    read(connection, read_before + 1)
    connection.execute("CREATE OR REPLACE SNAPSHOT last FOR JOB j", timeout=PATIENCE)
    return {key: value for key, value in found(connection).items() if key[1] != 9}


@pytest.mark.parametrize("shapes", CHANGES, ids=str)
def test_a_crash_after_the_change_and_before_the_next_snapshot(
    tmp_path: Path, shapes: tuple[Shape, Shape]
) -> None:
    folder, crashed, clicks = tmp_path / "a", tmp_path / "b", tmp_path / "clicks.csv"
    append(clicks, OLDER)
    with started(folder, clicks, shapes[0]) as connection:
        give(connection, shapes[0])
        connection.execute(f"ALTER JOB j AS {query(shapes[1], VALUES)}", timeout=PATIENCE)
        append(clicks, NEWER[:30])
        read(connection, 30)
        shutil.copytree(folder, crashed)
        connection.execute("DROP JOB j")
    expected = {**given_before(OLDER, shapes[0], 56), **given_after(OLDER, NEWER, shapes, 56)}
    with opened(crashed, 3) as connection:
        read(connection, 30)
        append(clicks, NEWER[30:])
        read(connection, len(NEWER))
        assert at_end(connection, clicks, NEWER) == {
            key: value[:4] for key, value in expected.items()
        }


def test_a_snapshot_from_before_the_change_that_takes_the_place_of_a_damaged_one(
    tmp_path: Path,
) -> None:
    folder, clicks = tmp_path / "a", tmp_path / "clicks.csv"
    shapes = (hop(20, 5), tumble(10))
    append(clicks, OLDER)
    with started(folder, clicks, shapes[0]) as connection:
        give(connection, shapes[0])
        connection.execute(
            f"ALTER JOB j AS {query(shapes[1], VALUES).replace('INSERT', 'SINK')}", timeout=PATIENCE
        )
        append(clicks, NEWER[:30])
        read(connection, 30)
    newest = max(
        (path for path in folder.glob("jobs/*/snapshots/*") if path.name.isdecimal()),
        key=lambda path: int(path.name),
    )
    state = newest / "state.arrows"
    state.write_bytes(state.read_bytes()[:-40])
    expected = {**given_before(OLDER, shapes[0], 56), **given_after(OLDER, NEWER, shapes, 56)}
    with opened(folder, 1) as connection:
        error = connection.job("j").record.last_error
        assert error is not None and "is used instead" in error.message
        read(connection, 30)
        append(clicks, NEWER[30:])
        read(connection, len(NEWER))
        assert at_end(connection, clicks, NEWER) == {
            key: value[:4] for key, value in expected.items()
        }


def test_one_change_after_the_other_over_crashes(tmp_path: Path) -> None:
    """Each change is exact, so what comes out in the end is what the last windows have."""
    clicks = tmp_path / "clicks.csv"
    shapes = [hop(40, 5), hop(40, 10), cumulate(10, 40), tumble(40)]
    rows = [*OLDER, *NEWER]
    append(clicks, rows[:40])
    connection = started(tmp_path / "0", clicks, shapes[0])
    read(connection, 40)
    for number, shape in enumerate(shapes[1:], 1):
        connection.execute(
            f"ALTER JOB j AS {query(shape, VALUES).replace('INSERT', 'SINK')}", timeout=PATIENCE
        )
        append(clicks, rows[30 + 10 * number : 40 + 10 * number])
        read(connection, 10)
        shutil.copytree(tmp_path / f"{number - 1}", tmp_path / f"{number}")
        connection.execute("DROP JOB j")
        connection.close()
        connection = opened(tmp_path / f"{number}", 1 + number % 3)
        read(connection, 10)
    append(clicks, rows[70:])
    read(connection, 10 + len(rows) - 70)
    result = at_end(connection, clicks, rows)
    connection.close()
    expected = over_all(rows, shapes[-1], 60)
    assert {key: value for key, value in result.items() if key[0] > 80} == {
        key: value[:4] for key, value in expected.items() if key[0] > 80
    }
