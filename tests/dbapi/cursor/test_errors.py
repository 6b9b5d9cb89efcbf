"""What passes the boundary: PEP 249 errors with the statement's text, and nothing else."""

from __future__ import annotations

import pickle

import pytest

import runnel
from runnel import Connection, Cursor
from runnel.errors import Position, presentable


def test_an_error_shows_the_place_in_the_statement(cursor: Cursor) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        cursor.execute("SELECT v,\n  nmae FROM TABLE(GENERATE_SERIES(1, 3))")
    error = caught.value
    assert error.sql == "SELECT v,\n  nmae FROM TABLE(GENERATE_SERIES(1, 3))"
    assert error.position is not None
    assert (error.position.line, error.position.column) == (2, 3)
    assert "\nLINE 2:   nmae FROM TABLE(GENERATE_SERIES(1, 3))\n          ^^^^" in str(error)


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        (
            "CREATE JOB j\n\tOPTIONS ()\nAS INSERT INTO t\n\tSELECT 'é', x FROM t".replace(
                "()", "('guarantee' = 'none')"
            ),
            ["LINE 4:  SELECT 'é', x FROM t", "                     ^"],
        ),
        (
            'CREATE JOB "jöb" AS INSERT INTO t SELECT a FROM tt',
            [
                'LINE 1: CREATE JOB "jöb" AS INSERT INTO t SELECT a FROM tt',
                "                                                        ^^",
            ],
        ),
        (
            "EXPLAIN CREATE JOB j AS\r\nINSERT INTO t SELECT b FROM t",
            ["LINE 2: INSERT INTO t SELECT b FROM t", "                             ^"],
        ),
        (
            "CREATE JOB j AS INSERT INTO t (b) SELECT 1",
            ["LINE 1: CREATE JOB j AS INSERT INTO t (b) SELECT 1", " " * 39 + "^"],
        ),
        (
            "CREATE VIEW v AS\n  SELECT a FROM tt",
            ["LINE 2:   SELECT a FROM tt", " " * 24 + "^^"],
        ),
        ("SELECT '日本', x FROM t", ["LINE 1: SELECT '日本', x FROM t", " " * 23 + "^"]),
        ("SELECT 日本 FROM t", ["LINE 1: SELECT 日本 FROM t", " " * 15 + "^^^^"]),
        ("SELECT 'e\u0301', x FROM t", ["LINE 1: SELECT 'e\u0301', x FROM t", " " * 20 + "^"]),
    ],
)
def test_the_marks_are_below_the_word(cursor: Cursor, sql: str, lines: list[str]) -> None:
    cursor.execute("CREATE MAPPING t (a INTEGER) TYPE DuckDB")
    with pytest.raises(runnel.Error) as caught:
        cursor.execute(sql)
    assert str(caught.value).splitlines()[1:3] == lines


def test_errors_are_raised_by_fetches_too(cursor: Cursor) -> None:
    sql = "SELECT 1 / (v - 150000) FROM TABLE(GENERATE_SERIES(1, 200000))"
    with pytest.raises(runnel.DataError, match="division by zero") as caught:
        cursor.execute(sql).fetchall()
    assert caught.value.sql == sql


def test_the_exceptions_are_attributes_of_the_connection(connection: Connection) -> None:
    names = [name for name in runnel.__all__ if name.endswith(("Error", "Warning"))]
    assert len(names) == 11
    for name in names:
        assert getattr(connection, name) is getattr(runnel, name)


def test_errors_survive_pickling() -> None:
    error = runnel.DataError("no", hint="yes", position=Position(1, 2, 1))
    error.sql = "x y"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is runnel.DataError and str(copy) == str(error)
    assert type(error).__module__ == "runnel"


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (ValueError("odd"), runnel.InternalError),
        (MemoryError(), runnel.OperationalError),
        (RecursionError(), runnel.OperationalError),
    ],
)
def test_foreign_exceptions_are_translated(raised: Exception, shown: type[runnel.Error]) -> None:
    error = presentable(raised, "SELECT 1")
    assert type(error) is shown
    assert error.__cause__ is raised
    assert isinstance(error, runnel.Error) and error.sql == "SELECT 1"


def test_an_internal_error_asks_for_a_report() -> None:
    error = presentable(KeyError("gone"), "SELECT 1")
    assert str(error) == (
        "internal error: unexpected KeyError\nDETAIL: 'gone'\n"
        "HINT: please report this with the statement, and with the traceback that "
        "RUNNEL_DEBUG=1 in the environment shows"
    )


def test_ctrl_c_passes() -> None:
    interrupt = KeyboardInterrupt()
    assert presentable(interrupt, "SELECT 1") is interrupt


def test_deep_nesting_is_refused_or_works(cursor: Cursor) -> None:
    for depth in (50, 5_000):
        try:
            assert cursor.execute("SELECT " + "(" * depth + "1" + ")" * depth).fetchall() == [(1,)]
        except runnel.Error as error:
            assert not isinstance(error, runnel.InternalError)
