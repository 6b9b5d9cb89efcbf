"""A table or mapping that a job uses is not dropped or changed under it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import runnel
from runnel import Connection

KEYED = "TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='bigint')"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with runnel.connect() as made:
        made.execute(f"CREATE MAPPING src (__key BIGINT, this BIGINT) {KEYED}")
        made.execute("CREATE TABLE target (k BIGINT, v BIGINT)")
        made.execute("CREATE VIEW changes AS SELECT __key, this FROM TABLE(CHANGES(TABLE src))")
        made.execute("CREATE JOB copying AS INSERT INTO target SELECT __key, this FROM changes")
        yield made


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE target",
        "DROP MAPPING src",
        "ALTER TABLE target ADD COLUMN c INTEGER",
        "ALTER TABLE target RENAME TO other",
        "CREATE OR REPLACE TABLE target (a INTEGER)",
        f"CREATE OR REPLACE MAPPING src (__key BIGINT, that BIGINT EXTERNAL NAME this) {KEYED}",
    ],
)
def test_the_error_names_the_job(connection: Connection, statement: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match='is used by the job "copying"') as caught:
        connection.execute(statement)
    assert caught.value.hint is not None
    assert str(connection.job("copying").status) == "RUNNING"


def test_cascade_suspends_the_job(connection: Connection) -> None:
    connection.execute("ALTER TABLE target ADD COLUMN c INTEGER DEFAULT 7 CASCADE")
    assert str(connection.job("copying").status) == "SUSPENDED"
    with pytest.raises(runnel.ProgrammingError, match='table "target" is used by the job'):
        connection.execute("DROP TABLE target")
    connection.execute("DROP TABLE target CASCADE")
    connection.execute("DROP MAPPING src CASCADE")
    assert connection.execute("SHOW MAPPINGS").fetchall() == []


def test_a_mapping_is_replaced_by_an_equal_one(connection: Connection) -> None:
    connection.execute(f"CREATE OR REPLACE MAPPING src (__key BIGINT, this BIGINT) {KEYED}")
    assert str(connection.job("copying").status) == "RUNNING"


def test_an_ended_job_uses_nothing(connection: Connection) -> None:
    connection.execute("DROP JOB copying")
    connection.execute("DROP TABLE target")
    connection.execute("DROP MAPPING src")
