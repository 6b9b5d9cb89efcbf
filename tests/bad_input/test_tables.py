"""DuckDB tables, data connections, partitions and URLs that are asked for wrongly: the whole texts
are pinned."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import runnel
from tests.bad_input.pinned import refused

TOPIC = "tables"
CASES = {
    "a file that isn't there": (
        "CREATE MAPPING m TYPE DuckDB OPTIONS ('path' = 'FOLDER/god.duckdb', 'table' = 't')"
    ),
    "a folder that isn't there": (
        "CREATE MAPPING m TYPE DuckDB OPTIONS ('path' = 'FOLDER/no/x.duckdb')"
    ),
    "a folder for a file": "CREATE MAPPING m TYPE DuckDB OPTIONS ('path' = 'FOLDER')",
    "no database": "CREATE MAPPING m TYPE DuckDB OPTIONS ('path' = 'FOLDER/text.duckdb')",
    "a table that isn't there": (
        "CREATE MAPPING m TYPE DuckDB OPTIONS ('path' = 'FOLDER/good.duckdb', 'table' = 'goods')"
    ),
    "a table that could be made": (
        "CREATE MAPPING new (x INT) TYPE DuckDB OPTIONS ('path' = 'FOLDER/good.duckdb')"
    ),
    "a column that isn't there": (
        "CREATE MAPPING m (idd INT) TYPE DuckDB OPTIONS ('path' = 'FOLDER/good.duckdb', "
        "'table' = 'good')"
    ),
    "a column of another type": (
        "CREATE MAPPING m (id VARCHAR) TYPE DuckDB "
        "OPTIONS ('path' = 'FOLDER/good.duckdb', 'table' = 'good')"
    ),
    "a type without counterpart": (
        "CREATE MAPPING m TYPE DuckDB OPTIONS ('path' = 'FOLDER/good.duckdb', 'table' = 'strange')"
    ),
    "columns unknown": "CREATE MAPPING m TYPE DuckDB",
    "two names": "CREATE MAPPING m EXTERNAL NAME a.b (x INT) TYPE DuckDB OPTIONS ('table' = 'c')",
    "an unknown option": "CREATE MAPPING m (x INT) TYPE DuckDB OPTIONS ('read_only' = 'true')",
    "a connection twice": "CREATE DATA CONNECTION d TYPE DuckDB",
    "a connection of a map": "CREATE DATA CONNECTION e TYPE IMap",
    "a connection's unknown option": "CREATE DATA CONNECTION e TYPE DuckDB OPTIONS ('pathh' = 'x')",
    "an unknown connection": "CREATE MAPPING m DATA CONNECTION dd",
    "an option twice": "CREATE MAPPING m DATA CONNECTION d OPTIONS ('Path' = 'x')",
    "a connection in use": "DROP DATA CONNECTION d",
    "resources of nothing": "SHOW RESOURCES FOR e",
    "UPDATE of a row's number": "UPDATE good SET rowid = 1",
    "INSERT of a row's number": "INSERT INTO good (rowid) VALUES (1)",
    "INSERT out of range": "INSERT INTO good VALUES (3000000000)",
    "INSERT of a key that exists": "INSERT INTO good VALUES (1)",
    "UPDATE of information_schema": "UPDATE information_schema.tables SET table_name = 'x'",
    "an unknown table of information_schema": "SELECT * FROM information_schema.table",
    "GET_DDL of nothing": "SELECT GET_DDL('relation', 'goood')",
    "GET_DDL of an unknown kind": "SELECT GET_DDL('index', 'good')",
    "DESCRIBE of nothing": "DESCRIBE goood",
    "partition keys that differ": "CREATE MAPPING m TYPE File OPTIONS ('path' = 'FOLDER/mixed')",
    "no partitions": (
        "CREATE MAPPING m TYPE File OPTIONS ('path' = 'FOLDER/mixed/a=1', "
        "'hivePartitioning' = 'true')"
    ),
    "a partition key without a column": (
        "CREATE MAPPING m (x INT) TYPE File OPTIONS ('path' = 'FOLDER/new', 'format' = 'csv', "
        "'partitionBy' = 'y')"
    ),
    "a partition's value": "SELECT * FROM parted",
    "no Avro": "CREATE MAPPING m TYPE File OPTIONS ('path' = 'FOLDER/text.avro')",
    "an unknown file system": "SELECT * FROM TABLE(CSV_FILE('nosuch://x/y.csv'))",
    "a missing package": "SELECT * FROM TABLE(CSV_FILE('s3://x/y.csv'))",
    "a URL of nothing": "SELECT * FROM TABLE(CSV_FILE('memory://x/y.csv'))",
    "ANALYZE without an end": "EXPLAIN ANALYZE SELECT * FROM TABLE(GENERATE_STREAM(1))",
    "EXPLAIN without brackets": "EXPLAIN DAG SELECT 1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables")
    with duckdb.connect(str(path / "good.duckdb")) as own:
        own.execute("CREATE TABLE good (id INTEGER PRIMARY KEY)")
        own.execute("INSERT INTO good VALUES (1)")
        own.execute("CREATE TABLE strange (id INTEGER, bits BIT)")
    (path / "text.duckdb").write_text("no database at all")
    (path / "text.avro").write_text("no Avro at all")
    for name in ("mixed/a=1", "mixed/b=1", "parted/k=1", "parted/k=x"):
        (path / name).mkdir(parents=True)
        (path / name / "f.csv").write_text("v\n1\n")
    return path


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, folder: Path) -> None:
    with runnel.connect() as connection:
        connection.execute(
            f"CREATE DATA CONNECTION d TYPE DuckDB OPTIONS ('path' = '{folder}/good.duckdb')"
        )
        connection.execute("CREATE MAPPING good DATA CONNECTION d")
        connection.execute(
            f"CREATE MAPPING parted (v INT, k INT) TYPE File OPTIONS ('path' = '{folder}/parted')"
        )
        sql = CASES[name].replace("FOLDER", str(folder))
        refused(TOPIC, name, lambda: connection.execute(sql).fetchall(), folder)
        assert connection.execute("SELECT * FROM good").fetchall() == [(1,)]
