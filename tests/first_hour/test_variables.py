"""SET VARIABLE and GETVARIABLE: sessions, transactions, jobs and arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel


def test_variables_belong_to_a_connection(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute("SET VARIABLE x = 1")
        assert connection.cursor().execute("SELECT getvariable('x')").fetchone() == (1,)
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT getvariable('x')").fetchone() == (None,)


def test_arguments(connection: runnel.Connection) -> None:
    connection.execute("SET VARIABLE x = ?", (5,))
    connection.execute("SET VARIABLE y = $a || $b", {"a": "p", "b": "q"})
    sql = "SELECT getvariable('x') + ?, getvariable('y')"
    assert connection.execute(sql, (2,)).fetchone() == (7, "pq")


def test_plans_are_not_cached(connection: runnel.Connection) -> None:
    connection.execute("CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap")
    connection.execute("SINK INTO m VALUES (1, 10), (2, 20)")
    sql = "SELECT this FROM m WHERE __key = getvariable('k')"
    for key in (1, 2, None, 1):
        connection.execute("SET VARIABLE k = ?", (key,))
        found = connection.execute(sql).fetchone()
        assert found == (None if key is None else (key * 10,))
    assert sql not in [row[0] for row in connection.execute("SHOW PLANS").fetchall()]


@pytest.mark.parametrize(
    "value", ["[1, 2]", "[{'a': 1}]", "MAP {'k': 1}", "INTERVAL 2 HOUR", "uuid()", "'\\x00'::BLOB"]
)
def test_values_are_handed_to_duckdb(connection: runnel.Connection, value: str) -> None:
    """Literals of all types are constants of a fragment, too."""
    connection.execute("SET fragment_rows = 0")
    connection.execute("CREATE TABLE t AS SELECT i FROM range(3) r(i)")
    connection.execute(f"SET VARIABLE x = {value}")
    expected = connection.execute("SELECT getvariable('x')").fetchone()
    assert expected is not None
    sql = "SELECT i % 2 AS g, any_value(getvariable('x')), count(*) FROM t GROUP BY g ORDER BY g"
    assert connection.execute(sql).fetchall() == [(0, expected[0], 2), (1, expected[0], 1)]


def test_in_a_transaction(connection: runnel.Connection) -> None:
    connection.execute("CREATE TABLE t (a BIGINT)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (7)")
    connection.execute("SET VARIABLE x = (SELECT max(a) FROM t)")
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT getvariable('x')").fetchone() == (7,)


def test_not_in_jobs(connection: runnel.Connection) -> None:
    connection.execute("CREATE MAPPING o (v BIGINT) TYPE Discard")
    connection.execute("SET VARIABLE x = 1")
    with pytest.raises(runnel.NotSupportedError, match="GETVARIABLE is not supported in a job"):
        connection.execute(
            "CREATE JOB j AS INSERT INTO o SELECT getvariable('x') FROM GENERATE_STREAM(1)"
        )


def test_a_failed_value_changes_nothing(connection: runnel.Connection) -> None:
    connection.execute("SET VARIABLE x = 1")
    with pytest.raises(runnel.Error) as error:
        connection.execute("SET VARIABLE x = nothing + 1")
    assert error.value.position is not None and error.value.position.offset == 17
    assert connection.execute("SELECT getvariable('x')").fetchone() == (1,)
