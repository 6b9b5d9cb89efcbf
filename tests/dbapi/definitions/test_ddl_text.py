"""GET_DDL gives statements that make the same objects again."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel
from runnel import Connection

DEFINITIONS = {
    "map": 'CREATE MAPPING m (__key BIGINT, "a b" VARCHAR, c DECIMAL(5, 2)) TYPE IMap '
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'json-flat')",
    "types": (
        "CREATE MAPPING m (a INT EXTERNAL NAME x, i INTERVAL YEAR TO MONTH, "
        "j INTERVAL DAY TO SECOND, u UUID, k JSON, "
        'r ROW("f ""g" INT, h VARCHAR[]), mm MAP(VARCHAR, DECIMAL(5, 2)), '
        "t TIMESTAMP WITH TIME ZONE) TYPE DuckDB"
    ),
    "schema": "CREATE MAPPING m EXTERNAL NAME s.t (a INT) TYPE DuckDB",
    "connection": 'CREATE MAPPING m EXTERNAL NAME "odd ""name" (a INT) DATA CONNECTION "d c"',
    "file": "CREATE MAPPING m (a INT, b VARCHAR) TYPE File "
    "OPTIONS ('path' = 'FOLDER/it''s', 'format' = 'csv', 'delimiter' = ';')",
    "view": "CREATE VIEW m (x, \"y z\") AS SELECT 1, 'it''s' -- the end",
}


def described(connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute("DESCRIBE m").fetchall()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_comes_back(name: str, tmp_path: Path) -> None:
    with runnel.connect() as connection:
        connection.execute(
            'CREATE DATA CONNECTION "d c" TYPE DuckDB '
            f"OPTIONS ('path' = '{tmp_path}/f.duckdb', 'create' = 'true')"
        )
        connection.execute(DEFINITIONS[name].replace("FOLDER", str(tmp_path)))
        columns = described(connection)
        (text,) = connection.execute("SELECT GET_DDL('relation', 'm')").fetchone() or ("",)
        connection.execute("DROP VIEW m" if name == "view" else "DROP MAPPING m")
        connection.execute(text)
        assert described(connection) == columns
        assert connection.execute("SELECT GET_DDL('relation', 'm')").fetchone() == (text,)


def test_a_data_connection_comes_back(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        connection.execute(
            "CREATE DATA CONNECTION d TYPE DuckDB NOT SHARED "
            f"OPTIONS ('path' = '{tmp_path}/it''s', 'create' = 'true')"
        )
        (text,) = connection.execute("SELECT GET_DDL('dataconnection', 'd')").fetchone() or ("",)
        shown = connection.execute("SELECT * FROM information_schema.dataconnections").fetchall()
        connection.execute("DROP DATA CONNECTION d")
        connection.execute(text)
        assert (
            connection.execute("SELECT * FROM information_schema.dataconnections").fetchall()
            == shown
        )


def test_a_plan_with_ddl_is_not_used_for_another_catalog() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE VIEW v AS SELECT 1")
        query = "SELECT GET_DDL('relation', 'v')"
        assert "SELECT 1" in str(connection.execute(query).fetchone())
        connection.execute("CREATE OR REPLACE VIEW v AS SELECT 2")
        assert "SELECT 2" in str(connection.execute(query).fetchone())
        connection.execute("DROP VIEW v")
        with pytest.raises(runnel.ProgrammingError, match='mapping or view "v" not found'):
            connection.execute(query)


def test_a_name_may_stand_with_its_schema() -> None:
    with runnel.connect() as connection:
        connection.execute("CREATE VIEW t AS SELECT 1")
        connection.execute('CREATE VIEW "public.u" AS SELECT 2')
        for name in ("t", "public.t", "runnel.public.t", "RUNNEL.Public.T"):
            assert "SELECT 1" in str(
                connection.execute(f"SELECT GET_DDL('relation', '{name}')").fetchone()
            )
            assert "SELECT 1" in str(
                connection.execute("SELECT GET_DDL('relation', ?)", [name]).fetchone()
            )
        assert "SELECT 2" in str(
            connection.execute("SELECT GET_DDL('relation', 'public.u')").fetchone()
        )
        for name, expected in {
            "runnel.other.t": 'schema "other" does not exist',
            "other.public.t": 'catalog "other" does not exist',
            "runnel.public.x": 'mapping or view "x" not found',
        }.items():
            with pytest.raises(runnel.ProgrammingError, match=expected):
                connection.execute(f"SELECT GET_DDL('relation', '{name}')")
            assert connection.execute("SELECT GET_DDL('relation', ?)", [name]).fetchone() == (None,)


def test_a_data_connection_of_spark_needs_no_spark(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        connection.execute(
            "CREATE DATA CONNECTION s TYPE Spark OPTIONS ('format' = 'parquet', "
            "'mergeSchema' = 'true')"
        )
        with pytest.raises(runnel.ProgrammingError, match='has no option "path"'):
            connection.execute("CREATE DATA CONNECTION w TYPE Spark OPTIONS ('path' = 'x')")
        connection.execute(
            f"CREATE MAPPING m (a INT) DATA CONNECTION s OPTIONS ('path' = '{tmp_path}')"
        )
        assert connection.execute("SHOW DATA CONNECTIONS").fetchall() == [
            ("s", "Spark", '["TABLE", "VIEW"]')
        ]
        with pytest.raises(runnel.NotSupportedError, match="can't be listed"):
            connection.execute("SHOW RESOURCES FOR s")
        assert "DATA CONNECTION" in str(
            connection.execute("SELECT GET_DDL('relation', 'm')").fetchone()
        )
