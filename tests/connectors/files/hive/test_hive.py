"""Hive partitions: found, typed, pruned, written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel import Connection
from runnel.connectors.files.hive import table as hive_table


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as connection:
        yield connection


def csv(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rows(con: Connection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    for year in (2023, 2024):
        for country in ("de", "fr", "__HIVE_DEFAULT_PARTITION__"):
            csv(tmp_path / f"year={year}" / f"country={country}" / "f.csv", f"amount\n{year}\n1\n")
    (tmp_path / "_SUCCESS").write_text("")
    return tmp_path


def test_keys_are_columns_with_types(con: Connection, sales: Path) -> None:
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}')")
    assert rows(con, "DESCRIBE m") == [
        ("amount", "BIGINT", "YES", None, None, None),
        ("year", "BIGINT", "YES", None, None, None),
        ("country", "VARCHAR", "YES", None, None, None),
    ]
    assert rows(
        con, "SELECT year, country, sum(amount) FROM m GROUP BY year, country ORDER BY 1, 2"
    ) == [(year, country, year + 1) for year in (2023, 2024) for country in (None, "de", "fr")]
    assert rows(con, f"SELECT count(*) FROM TABLE(CSV_FILE('{sales}'))") == [(12,)]


def test_folders_that_a_predicate_excludes_are_not_read(con: Connection, sales: Path) -> None:
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}')")
    (sales / "year=2023" / "country=de" / "f.csv").write_text("amount\nbroken\n")
    for condition in (
        "year = 2024",
        "year > 2023",
        "country = 'fr'",
        "country IS NULL",
        "year IN (2024) AND amount > 0",
    ):
        assert rows(con, f"SELECT count(*) FROM m WHERE {condition}") == [
            (4 if "NULL" in condition or "fr" in condition else 6,)
        ]
    assert con.execute("SELECT count(*) FROM m WHERE year = ?", (2024,)).fetchall() == [(6,)]
    with pytest.raises(runnel.DataError, match="value 'broken' doesn't fit"):
        rows(con, "SELECT sum(amount) FROM m")


def test_explain_shows_the_conditions_that_select_folders(con: Connection, sales: Path) -> None:
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}')")
    condition = "year = 2024 AND amount > 0 AND country LIKE 'd%' AND (amount = 1 OR year = 2023)"
    plan = "\n".join(line for (line,) in rows(con, f"EXPLAIN SELECT * FROM m WHERE {condition}"))
    assert "pushed down: (year = 2024) AND (country LIKE 'd%')" in plan
    assert "pushed down" not in str(rows(con, "EXPLAIN SELECT * FROM m WHERE amount > 0"))


def test_a_condition_over_both_kinds_of_columns(con: Connection, sales: Path) -> None:
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}')")
    assert rows(con, "SELECT count(*) FROM m WHERE amount = year OR country = 'de'") == [(8,)]
    assert rows(
        con, "SELECT country FROM m WHERE amount = 2023 AND year = 2023 AND country > 'e'"
    ) == [("fr",)]
    assert rows(con, "SELECT year FROM m WHERE country = 'de' LIMIT 1") in ([(2023,)], [(2024,)])


def test_only_keys_are_asked_for(con: Connection, sales: Path) -> None:
    con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}')")
    assert rows(con, "SELECT DISTINCT year FROM m ORDER BY 1") == [(2023,), (2024,)]
    assert rows(con, "SELECT count(*) FROM m") == [(12,)]


def test_declared_keys_anywhere_among_the_columns(con: Connection, sales: Path) -> None:
    con.execute(
        "CREATE MAPPING m (land VARCHAR EXTERNAL NAME country, amount INT, year SMALLINT) "
        f"TYPE File OPTIONS ('path' = '{sales}')"
    )
    assert rows(con, "SELECT * FROM m WHERE year = 2024 AND land = 'de' ORDER BY amount") == [
        ("de", 1, 2024),
        ("de", 2024, 2024),
    ]
    con.execute(f"CREATE MAPPING few (amount INT) TYPE File OPTIONS ('path' = '{sales}')")
    assert rows(con, "SELECT sum(amount) FROM few") == [(12147,)]


def test_values_that_do_not_fit(con: Connection, tmp_path: Path) -> None:
    csv(tmp_path / "k=1" / "f.csv", "a\n1\n")
    csv(tmp_path / "k=x" / "f.csv", "a\n1\n")
    con.execute(f"CREATE MAPPING m (a INT, k INT) TYPE File OPTIONS ('path' = '{tmp_path}')")
    with pytest.raises(
        runnel.DataError, match="value 'x' of partition column \"k\" doesn't fit INTEGER"
    ) as caught:
        rows(con, "SELECT * FROM m")
    assert "k=x" in (caught.value.detail or "")


def test_escaped_values_and_types(con: Connection, tmp_path: Path) -> None:
    for name in ("d=2024-01-01", "d=2024-02-29"):
        csv(tmp_path / "dates" / name / "f.csv", "a\n1\n")
    for name in ("t=a%2Fb", "t=50%25", "t=007"):
        csv(tmp_path / "texts" / name / "f.csv", "a\n1\n")
    assert rows(con, f"SELECT d FROM TABLE(CSV_FILE('{tmp_path}/dates')) ORDER BY d") == [
        (date(2024, 1, 1),),
        (date(2024, 2, 29),),
    ]
    assert rows(con, f"SELECT t FROM TABLE(CSV_FILE('{tmp_path}/texts')) ORDER BY t") == [
        ("007",),
        ("50%",),
        ("a/b",),
    ]


def test_detection_can_be_told(con: Connection, sales: Path) -> None:
    with pytest.raises(runnel.OperationalError, match="has no files to read"):
        con.execute(
            f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}', 'hivePartitioning' = 'false')"
        )
    con.execute(
        f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{sales}', 'hivePartitioning' = 'false', "
        "'glob' = '**/*.csv')"
    )
    assert rows(con, "DESCRIBE m") == [("amount", "BIGINT", "YES", None, None, None)]
    con.execute(
        f"CREATE MAPPING g TYPE File OPTIONS ('path' = '{sales}/*/*/*.csv', "
        "'hivePartitioning' = 'true')"
    )
    assert rows(con, "SELECT count(*) FROM g WHERE year = 2023 AND country = 'fr'") == [(2,)]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ("", "'hivePartitioning' = 'true'", "are not in folders named key=value"),
        ("(a INT)", "'partitionBy' = 'nosuch'", "the partition keys of"),
        ("(a INT)", "'partitionBy' = 'a, A'", "wrong value 'a, A' for option"),
        ("(a INT)", "'partitionBy' = 'a', 'hivePartitioning' = 'false'", "contradicts"),
    ],
)
def test_wrong_options(
    con: Connection, tmp_path: Path, columns: str, options: str, said: str
) -> None:
    csv(tmp_path / "f.csv", "a\n1\n")
    with pytest.raises(runnel.ProgrammingError, match=said):
        con.execute(
            f"CREATE MAPPING m {columns} TYPE File OPTIONS ('path' = '{tmp_path}', {options})"
        )


def test_keys_that_differ(con: Connection, tmp_path: Path) -> None:
    csv(tmp_path / "k=1" / "f.csv", "a\n1\n")
    csv(tmp_path / "l=1" / "f.csv", "a\n1\n")
    with pytest.raises(runnel.ProgrammingError, match="different partition keys: k, but l"):
        con.execute(f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{tmp_path}')")


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "avro"])
def test_rows_are_written_to_their_folders(con: Connection, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "out"
    con.execute(
        f"CREATE MAPPING m (a INT, k VARCHAR, b VARCHAR, n INT) TYPE File "
        f"OPTIONS ('path' = '{folder}', 'format' = '{kind}', 'partitionBy' = 'n, k')"
    )
    given = [
        (1, "x", "one", 1),
        (2, "a/b", None, 1),
        (3, None, "three", 2),
        (4, "x", "four", 1),
        (5, "", "five", None),
    ]
    con.cursor().executemany("INSERT INTO m VALUES (?, ?, ?, ?)", given)
    names = sorted(str(path.relative_to(folder).parent) for path in folder.rglob("part-*"))
    null = "__HIVE_DEFAULT_PARTITION__"
    assert names == sorted(["n=1/k=x", "n=1/k=a%2Fb", f"n=2/k={null}", f"n={null}/k="])
    found = rows(con, "SELECT a, k, b, n FROM m ORDER BY a")
    assert found == given
    assert (
        con.execute(
            "INSERT INTO m (a, n) SELECT v, v % 3 FROM TABLE(GENERATE_SERIES(10, 12))"
        ).rowcount
        == 3
    )
    assert rows(con, "SELECT a FROM m WHERE n = 2 ORDER BY a") == [(3,), (11,)]


def test_others_read_what_is_written(con: Connection, tmp_path: Path) -> None:
    con.execute(
        f"CREATE MAPPING m (a INT, d DATE) TYPE File "
        f"OPTIONS ('path' = '{tmp_path / 'o'}', 'format' = 'parquet', 'partitionBy' = 'd')"
    )
    con.execute("INSERT INTO m VALUES (1, DATE '2024-01-01'), (2, DATE '2024-01-02')")
    with duckdb.connect() as own:
        files = f"read_parquet('{tmp_path}/o/**/*.parquet', hive_partitioning = true)"
        found = own.execute(f"SELECT a, d FROM {files} ORDER BY a").fetchall()
    assert found == [(1, date(2024, 1, 1)), (2, date(2024, 1, 2))]


def test_what_others_write_is_read(con: Connection, tmp_path: Path) -> None:
    table = pa.table(
        {"a": [1, 2, 3], "k": ["x", "y", "x"], "n": pa.array([1, None, 3], pa.int64())}
    )
    pq.write_to_dataset(table, tmp_path / "o", partition_cols=["k", "n"])
    assert rows(con, f"SELECT a, k, n FROM TABLE(PARQUET_FILE('{tmp_path}/o')) ORDER BY a") == [
        (1, "x", 1),
        (2, "y", None),
        (3, "x", 3),
    ]


def test_more_folders_than_are_open_at_a_time(
    con: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hive_table, "MOST_OPEN", 3)
    con.execute(
        f"CREATE MAPPING m (a INT, k INT) TYPE File "
        f"OPTIONS ('path' = '{tmp_path / 'o'}', 'format' = 'csv', 'partitionBy' = 'k')"
    )
    con.execute("INSERT INTO m SELECT v, v % 10 FROM TABLE(GENERATE_SERIES(1, 100)) ")
    assert rows(con, "SELECT k, count(*) FROM m GROUP BY k ORDER BY k") == [
        (k, 10) for k in range(10)
    ]


def test_nothing_stays_of_a_statement_that_fails(con: Connection, tmp_path: Path) -> None:
    folder = tmp_path / "o"
    con.execute(
        "CREATE MAPPING m (a INT, k INT) TYPE File "
        f"OPTIONS ('path' = '{folder}', 'format' = 'csv', 'partitionBy' = 'k')"
    )
    with pytest.raises(runnel.DataError):
        con.execute(
            "INSERT INTO m SELECT 10 / (v - 90000), v % 3 FROM TABLE(GENERATE_SERIES(1, 100000))"
        )
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_a_table_where_every_column_is_a_key(con: Connection, tmp_path: Path) -> None:
    with pytest.raises(runnel.ProgrammingError, match="all columns of the mapping"):
        con.execute(
            f"CREATE MAPPING m (a INT) TYPE File OPTIONS ('path' = '{tmp_path / 'o'}', "
            "'format' = 'csv', 'partitionBy' = 'a')"
        )
