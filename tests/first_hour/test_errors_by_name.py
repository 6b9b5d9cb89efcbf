"""Exceptions by the names that users of DuckDB and psycopg catch."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import runnel
from runnel import errors
from runnel.base.error_records import CLASSES, class_name

TABLES = (
    "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR NOT NULL, c INT CHECK (c > 0))",
    "CREATE TABLE u (a INT REFERENCES t (a), x INT UNIQUE)",
    "INSERT INTO t VALUES (1, 'x', 1)",
    "INSERT INTO u VALUES (1, 1)",
)


def prepared(module: Any) -> Any:
    connection = module.connect()
    for statement in TABLES:
        connection.execute(statement)
    return connection


@pytest.fixture(scope="module")
def con() -> Iterator[runnel.Connection]:
    with prepared(runnel) as connection:
        yield connection


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with prepared(duckdb) as connection:
        yield connection


def failure(connection: Any, statement: str) -> Any:
    try:
        connection.execute(statement).fetchall()
    except Exception as error:
        return error
    raise AssertionError(f"no error: {statement}")


FAILURES: dict[str, tuple[str, str | None]] = {
    "FROM nope": ("UndefinedTable", "42P01"),
    "FROM nope.t": ("InvalidSchemaName", "3F000"),
    "INSERT INTO nope VALUES (1)": ("UndefinedTable", "42P01"),
    "UPDATE nope SET a = 1": ("UndefinedTable", "42P01"),
    "DELETE FROM nope": ("UndefinedTable", "42P01"),
    "ALTER TABLE nope ADD COLUMN x INT": ("UndefinedTable", "42P01"),
    "DROP TABLE nope": ("UndefinedTable", "42P01"),
    "DROP VIEW nope": ("UndefinedTable", "42P01"),
    "DROP INDEX nope": ("UndefinedObject", "42704"),
    "DROP SEQUENCE nope": ("UndefinedObject", "42704"),
    "SELECT nextval('nope')": ("UndefinedObject", "42704"),
    "DROP SCHEMA nope": ("InvalidSchemaName", "3F000"),
    "SET nope = 1": ("UndefinedObject", "42704"),
    "CREATE TABLE z (a NOPETYPE)": ("UndefinedObject", "42704"),
    "SELECT nope(1)": ("UndefinedFunction", "42883"),
    "FROM nope(1)": ("UndefinedFunction", "42883"),
    "CREATE TABLE t (a INT)": ("DuplicateTable", "42P07"),
    "CREATE VIEW t AS SELECT 1": ("DuplicateTable", "42P07"),
    "CREATE SCHEMA main": ("DuplicateSchema", "42P06"),
    "CREATE TABLE z (a INT, a INT)": ("DuplicateColumn", "42701"),
    "ALTER TABLE t ADD COLUMN b INT": ("DuplicateColumn", "42701"),
    "SELECT nope FROM t": ("UndefinedColumn", "42703"),
    "SELECT t.nope FROM t": ("UndefinedColumn", "42703"),
    "INSERT INTO t (nope) VALUES (1)": ("UndefinedColumn", "42703"),
    "UPDATE t SET nope = 1": ("UndefinedColumn", "42703"),
    "ALTER TABLE t DROP COLUMN nope": ("UndefinedColumn", "42703"),
    "SELECT a FROM t ORDER BY nope": ("UndefinedColumn", "42703"),
    "SELECT a FROM t, u": ("AmbiguousColumn", "42702"),
    "SELECT b, sum(a) FROM t": ("GroupingError", "42803"),
    "SELECT sum(sum(a)) FROM t": ("GroupingError", "42803"),
    "SELECT a FROM t WHERE sum(a) > 1": ("GroupingError", "42803"),
    "SELECT abs('a', 2)": ("BinderException", "42000"),
    "SELECT 1 UNION SELECT 1, 2": ("BinderException", "42000"),
    "INSERT INTO t VALUES (2, 'y')": ("BinderException", "42000"),
    "SELEC 1": ("SyntaxError", "42601"),
    "SELECT 1 +": ("SyntaxError", "42601"),
    "SELECT 'abc": ("SyntaxError", "42601"),
    "SELECT CAST('x' AS INT)": ("InvalidTextRepresentation", "22P02"),
    "SELECT b::INT FROM t": ("InvalidTextRepresentation", "22P02"),
    "SELECT DATE '2020-13-01'": ("InvalidTextRepresentation", "22P02"),
    "SELECT '{bad'::JSON": ("InvalidTextRepresentation", "22P02"),
    "SELECT CAST(300 AS TINYINT)": ("NumericValueOutOfRange", "22003"),
    "SELECT (a + 299)::TINYINT FROM t": ("NumericValueOutOfRange", "22003"),
    "SELECT 9223372036854775807 + 1": ("NumericValueOutOfRange", "22003"),
    "SELECT 9223372036854775807 + a FROM t": ("NumericValueOutOfRange", "22003"),
    "INSERT INTO t VALUES (1, 'y', 1)": ("UniqueViolation", "23505"),
    "INSERT INTO u VALUES (1, 1)": ("UniqueViolation", "23505"),
    "INSERT INTO t VALUES (2, NULL, 1)": ("NotNullViolation", "23502"),
    "INSERT INTO t VALUES (2, 'y', -1)": ("CheckViolation", "23514"),
    "UPDATE t SET c = -5": ("CheckViolation", "23514"),
    "INSERT INTO u VALUES (9, 2)": ("ForeignKeyViolation", "23503"),
    "DELETE FROM t": ("ForeignKeyViolation", "23503"),
    "FROM 'nope.csv'": ("UndefinedFile", "58P01"),
    "FROM read_parquet('nope.parquet')": ("UndefinedFile", "58P01"),
    "COPY t TO '/nonexistent/x.csv'": ("IoError", "58030"),
    "COMMIT": ("TransactionException", "25000"),
    "SELECT ?": ("InvalidInputException", "07001"),
}
"""The name of the class in `runnel.errors`, and the SQLSTATE, of statements that fail."""


@pytest.mark.parametrize("statement", FAILURES)
def test_classes_of_duckdb_and_psycopg(con: runnel.Connection, oracle: Any, statement: str) -> None:
    error, expected = failure(con, statement), failure(oracle, statement)
    name, state = FAILURES[statement]
    assert isinstance(error, getattr(errors, name)), type(error)
    assert error.sqlstate == state
    assert isinstance(error, getattr(runnel, type(expected).__name__)), type(expected)
    for base in ("ProgrammingError", "DataError", "IntegrityError", "OperationalError"):
        if isinstance(expected, getattr(duckdb, base)):
            assert isinstance(error, getattr(runnel, base))


OTHERS = {
    "SELECT 1 // 0": ("DivisionByZero", "22012"),
    "SELECT a % 0 FROM t": ("DivisionByZero", "22012"),
    "SELECT 1 / (a - 1) FROM t": ("DivisionByZero", "22012"),
    "EXECUTE nope": ("UndefinedObject", "42704"),
    "SELECT * FROM t NATURAL SEMI LATERAL JOIN u": ("SyntaxError", "42601"),
    "LOAD httpfs": ("FeatureNotSupported", "0A000"),
}
"""Statements whose class in DuckDB is another one, or that DuckDB runs."""


@pytest.mark.parametrize("statement", OTHERS)
def test_classes_that_differ_from_duckdb(con: runnel.Connection, statement: str) -> None:
    name, state = OTHERS[statement]
    error = failure(con, statement)
    assert type(error) is getattr(errors, name) and error.sqlstate == state


@pytest.mark.parametrize("pushdown", ["off", "on"])
def test_the_engine_of_a_fragment_does_not_change_the_class(pushdown: str) -> None:
    with prepared(runnel) as connection:
        connection.execute(f"SET pushdown = {pushdown}")
        for statement in (
            "SELECT b::INT FROM t",
            "SELECT 1 / (a - 1) FROM t",
            "SELECT 9223372036854775807 + a FROM t",
            "SELECT (a + 299)::TINYINT FROM t",
        ):
            error = failure(connection, statement)
            name, state = (FAILURES | OTHERS)[statement]
            assert isinstance(error, getattr(errors, name)) and error.sqlstate == state


def test_a_cancelled_statement(con: runnel.Connection) -> None:
    con.register_stream("quiet", {"a": "BIGINT"})
    cursor = con.execute("FROM quiet")
    cursor.cancel()
    with pytest.raises(runnel.InterruptException) as error:
        cursor.fetchone()
    assert isinstance(error.value, errors.QueryCanceled) and error.value.sqlstate == "57014"
    slow = con.execute("FROM quiet", timeout=0.001)
    with pytest.raises(errors.QueryCanceled) as late:
        slow.fetchone()
    assert not isinstance(late.value, runnel.InterruptException)


def test_objects_that_others_use() -> None:
    with prepared(runnel) as connection:
        connection.execute("CREATE SEQUENCE s")
        connection.execute("CREATE TABLE n (a BIGINT DEFAULT nextval('s'))")
        for statement in ("DROP SEQUENCE s", "DROP TABLE t"):
            with pytest.raises(runnel.DependencyException) as error:
                connection.execute(statement)
            assert error.value.sqlstate == "2BP01"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_each_class_is_stored_and_copied(name: str) -> None:
    error = CLASSES[name]("no", hint="yes")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.code, str(copy)) == (type(error), error.code, str(error))
    assert CLASSES[class_name(error)] is type(error)


def test_a_class_for_each_code() -> None:
    made = runnel.OperationalError("no", code=runnel.ErrorCode.CANCELLED)
    assert type(made) is runnel.InterruptException
    made = runnel.ProgrammingError("no", code=runnel.ErrorCode.OBJECT_NOT_FOUND)
    assert type(made) is errors.UndefinedObject
    assert type(runnel.ProgrammingError("no")) is runnel.ProgrammingError


def test_the_page_has_each_name() -> None:
    text = Path("docs/connecting.md").read_text("utf-8")
    rows = text.partition("| PEP 249 |")[2].partition("\n\n")[0].splitlines()[2:]
    shown = set()
    for row in rows:
        bases, duckdb_names, names = row.split("|")[1:4]
        base = getattr(runnel, bases.split()[0].strip(","))
        for name in re.findall(r"[A-Z]\w+", f"{duckdb_names} {names}"):
            assert issubclass(getattr(errors, name), base)
            assert getattr(runnel, name, None) is getattr(errors, name) or name in names
            shown.add(getattr(errors, name))
    left_out = {"CastOutOfRange", "TransactionState", "ArgumentsError", "FetchTimeoutError"}
    classes = {item for name, item in CLASSES.items() if name not in left_out}
    assert {item for item in classes if item.__mro__[1] not in _PEP_249} <= shown


_PEP_249 = (errors.Error, errors.DatabaseError, Exception)
