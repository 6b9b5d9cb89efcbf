"""Sequences: no number is returned twice, neither after a crash nor after a ROLLBACK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import runnel

CRASH = """
import os, sys, runnel
connection = runnel.connect(sys.argv[1])
print(connection.execute("INSERT INTO t (x) VALUES (2) RETURNING id").fetchone()[0])
print(connection.execute("SELECT nextval('alone')").fetchone()[0], flush=True)
os._exit(9)
"""


def test_numbers_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with runnel.connect(path) as connection:
        connection.execute("CREATE SEQUENCE ids")
        connection.execute("CREATE SEQUENCE alone START 100")
        connection.execute("CREATE TABLE t (id BIGINT DEFAULT nextval('ids'), x INT)")
        assert connection.execute("INSERT INTO t (x) VALUES (1) RETURNING id").fetchone() == (1,)
    for number in (2, 3):
        crashed = subprocess.run(
            [sys.executable, "-c", CRASH, str(path)], capture_output=True, text=True, check=False
        )
        assert crashed.returncode == 9, crashed.stderr
        assert crashed.stdout.split() == [str(number), str(98 + number)]
    with runnel.connect(path) as connection:
        connection.execute(f"BACKUP TO '{tmp_path / 'copy'}'")
        assert connection.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,), (3,)]
        assert connection.execute("SELECT nextval('ids')").fetchone() == (4,)
    with runnel.connect(tmp_path / "copy") as connection:
        sql = "SELECT nextval('ids'), nextval('alone')"
        assert connection.execute(sql).fetchone() == (4, 102)


def test_a_rollback_leaves_a_gap(connection: runnel.Connection) -> None:
    connection.execute("CREATE SEQUENCE ids")
    connection.execute("CREATE TABLE t (id BIGINT DEFAULT nextval('ids'), x INT)")
    connection.execute("BEGIN")
    assert connection.execute("INSERT INTO t (x) VALUES (1) RETURNING id").fetchone() == (1,)
    connection.execute("ROLLBACK")
    assert connection.execute("INSERT INTO t (x) VALUES (1) RETURNING id").fetchone() == (2,)


def test_many_rows_have_different_numbers(connection: runnel.Connection) -> None:
    connection.execute("CREATE SEQUENCE ids")
    connection.execute("CREATE TABLE t (id BIGINT DEFAULT nextval('ids'), x BIGINT)")
    connection.execute("INSERT INTO t (x) SELECT i FROM range(50000) r(i)")
    found = connection.execute("SELECT count(DISTINCT id), min(id), max(id) FROM t").fetchone()
    assert found == (50_000, 1, 50_000)
    connection.executemany("INSERT INTO t (x) VALUES (?)", [(1,), (2,)])
    found = connection.execute("SELECT count(DISTINCT id), max(id) FROM t").fetchone()
    assert found == (50_002, 50_002)


def test_a_new_sequence_of_the_name_in_cached_plans(connection: runnel.Connection) -> None:
    for _ in range(2):
        connection.execute("CREATE SEQUENCE s START 7")
        assert connection.execute("SELECT nextval('s')").fetchone() == (7,)
        assert connection.execute("SELECT nextval('s')").fetchone() == (8,)
        connection.execute("DROP SEQUENCE s")
        with pytest.raises(runnel.ProgrammingError, match='sequence "s" not found'):
            connection.execute("SELECT nextval('s')")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE SEQUENCE d CYCLE", "CYCLE of CREATE SEQUENCE is not supported"),
        ("CREATE SEQUENCE d START 1 START 2", "START is written twice"),
        ("CREATE SEQUENCE d START x", "a whole number of 64 bits"),
        ("CREATE SEQUENCE d START 99999999999999999999", "a whole number of 64 bits"),
        ("CREATE OR REPLACE SEQUENCE d", "CREATE OR REPLACE SEQUENCE is not supported"),
        ("SELECT nextval(1)", "NEXTVAL expects the name of a sequence"),
        ("SELECT nextval()", "NEXTVAL expects the name of a sequence"),
        ("SELECT currval('s')", "(?i)currval"),
        ("CREATE JOB j AS INSERT INTO o SELECT nextval('s') FROM GENERATE_STREAM(1)", "in a job"),
        ("DROP SEQUENCE s", "is used by the DEFAULT of column"),
    ],
)
def test_refused(connection: runnel.Connection, sql: str, message: str) -> None:
    connection.execute("CREATE MAPPING o (v BIGINT) TYPE Discard")
    connection.execute("CREATE SEQUENCE s")
    connection.execute("CREATE TABLE t (id BIGINT DEFAULT nextval('s'))")
    with pytest.raises(runnel.Error, match=message):
        connection.execute(sql)
