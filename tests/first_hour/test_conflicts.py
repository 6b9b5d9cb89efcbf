"""ON CONFLICT with rows to which foreign keys refer, and with unique indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel

MADE = (
    "CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR, v INT, tags VARCHAR[])",
    "CREATE TABLE c (uid INT REFERENCES u (id))",
    "INSERT INTO u VALUES (1, 'a', 1, ['x']), (2, 'b', 2, NULL)",
    "INSERT INTO c VALUES (1)",
)


@pytest.fixture(params=["memory", "directory", "file", "transaction"])
def con(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    place = {"directory": tmp_path / "d", "file": tmp_path / "f.duckdb"}.get(request.param)
    with runnel.connect(place) as made:
        for statement in MADE:
            made.execute(statement)
        if request.param == "transaction":
            made.execute("BEGIN")
        yield made


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO u (id, name) VALUES (1, 'new') "
        "ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name",
        "UPDATE u SET name = 'new' WHERE id = 1 RETURNING id",
        "UPDATE u SET name = 'new' WHERE id = 1",
        "MERGE INTO u USING (SELECT 1 AS id) AS s ON u.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'new'",
    ],
)
def test_a_row_to_which_others_refer_is_changed(con: runnel.Connection, statement: str) -> None:
    con.execute(statement)
    rows = con.execute("SELECT id, name, v, tags FROM u ORDER BY id").fetchall()
    assert rows == [(1, "new", 1, ["x"]), (2, "b", 2, None)]


def test_old_and_new_rows_of_one_statement(con: runnel.Connection) -> None:
    found = con.execute(
        "INSERT INTO u (id, name, v) VALUES (1, 'k', 7), (2, 'l', 8), (9, 'm', 9) "
        "ON CONFLICT (id) DO UPDATE SET v = u.v + EXCLUDED.v RETURNING id, name, v"
    ).fetchall()
    assert sorted(found) == [(1, "a", 8), (2, "b", 10), (9, "m", 9)]
    same = "INSERT INTO u VALUES (1, 'a', 8, ['x']) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v"
    con.execute(same)
    assert con.execute("SELECT count(*) FROM u").fetchone() == (3,)


def test_its_key_is_not_changed(con: runnel.Connection) -> None:
    with pytest.raises(runnel.IntegrityError, match="violated"):
        con.execute("UPDATE u SET id = 5 WHERE id = 1 RETURNING id")


def test_a_unique_index_is_a_key(connection: runnel.Connection) -> None:
    connection.execute('CREATE TABLE x (id INT, "b c" INT, "q""x" INT, n VARCHAR)')
    connection.execute('CREATE UNIQUE INDEX i ON x (id, "b c")')
    connection.execute('CREATE UNIQUE INDEX j ON x ("q""x")')
    connection.execute("INSERT INTO x VALUES (1, 1, 1, 'a')")
    update = (
        "INSERT INTO x VALUES (1, 1, 1, 'b'), (2, 1, 2, 'c') "
        'ON CONFLICT ("b c", id) DO UPDATE SET n = EXCLUDED.n'
    )
    connection.execute(update)
    ignored = """INSERT INTO x VALUES (3, 3, 1, 'z') ON CONFLICT ("q""x") DO NOTHING"""
    connection.execute(ignored)
    connection.execute("INSERT INTO x VALUES (1, 1, 9, 'z') ON CONFLICT DO NOTHING")
    rows = connection.execute("SELECT id, n FROM x ORDER BY id").fetchall()
    assert rows == [(1, "b"), (2, "c")]
    with pytest.raises(runnel.ProgrammingError, match="no key with the columns"):
        connection.execute("INSERT INTO x VALUES (1, 1, 1, 'b') ON CONFLICT (id) DO NOTHING")


def test_a_plan_ends_with_the_index(connection: runnel.Connection) -> None:
    connection.execute("CREATE TABLE x (id INT, n INT)")
    connection.execute("CREATE UNIQUE INDEX i ON x (id)")
    update = "INSERT INTO x VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = x.n + 1"
    for _ in range(3):
        connection.execute(update)
    assert connection.execute("FROM x").fetchall() == [(1, 3)]
    connection.execute("DROP INDEX i")
    with pytest.raises(runnel.ProgrammingError, match="no PRIMARY KEY or UNIQUE"):
        connection.execute(update)
    connection.execute("CREATE UNIQUE INDEX i ON x (id)")
    connection.execute(update)
    assert connection.execute("FROM x").fetchall() == [(1, 4)]
