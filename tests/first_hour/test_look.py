"""Lines that a newcomer types at a Python prompt, and what the prompt shows."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import runnel

LINES = (
    ("con.sql('SELECT 42 AS answer')", "│      42 │"),
    ("con.execute('SELECT 42 AS answer').fetchone()", "(42,)"),
    ("con.sql('SELECT 42 AS a').fetchall()", "[(42,)]"),
    ("con.sql('SELECT 42 AS a').df()", "    a\n0  42"),
    ("con.sql('SELECT 42 AS a').pl().rows()", "[(42,)]"),
    ("con.sql('SELECT 42 AS a').arrow().to_pydict()", "{'a': [42]}"),
    ("con.sql('SELECT 42 AS a').fetch_record_batch().read_all().num_rows", "1"),
    ("con.sql('SELECT ? AS a', (7,)).fetchone()", "(7,)"),
    ("con.sql('SELECT ? AS a', [7]).fetchone()", "(7,)"),
    ("con.cursor()", "<runnel.Cursor idle>"),
    ("runnel.sql('SELECT 1 AS a').fetchone()", "(1,)"),
    ("runnel.sql('SELECT SUM(a) AS s FROM df').fetchall()", "[(6,)]"),
    ("con.sql('FROM df LIMIT 1').fetchall()", "[(1, 'x')]"),
    ("con.sql('FROM df')", "3 rows"),
    ("con.sql('SELECT d.b FROM df AS d WHERE d.a = 2').fetchall()", "[('y',)]"),
    ("con.sql('SELECT COUNT(*) AS n FROM polars_frame').fetchone()", "(2,)"),
    ("con.sql('SELECT COUNT(*) AS n FROM table').fetchone()", 'object "table" not found'),
    ("con.sql('SELECT COUNT(*) AS n FROM arrow_table').fetchone()", "(2,)"),
    ("con.sql('SELECT * FROM df JOIN polars_frame USING (a)')", "2 rows"),
    ("con.sql('WITH big AS (SELECT * FROM df WHERE a > 1) FROM big').fetchall()", "(3, None)"),
    ("con.sql('SELECT * FROM (SELECT a FROM df) AS x WHERE a = ?', (3,)).fetchall()", "[(3,)]"),
    ("con.sql('EXPLAIN SELECT a FROM df')", "Scan df"),
    ("con.sql('DESCRIBE df')", "│ a "),
    ("con.sql('SELECT * FROM dff')", 'did you mean "df"?'),
    ("con.sql('SELECT * FROM numbers')", 'the variable "numbers" is a list'),
    ("con.sql('SELECT c FROM df')", 'column "c" does not exist'),
    ("con.sql('CREATE VIEW v AS SELECT * FROM df')", "a view cannot read the variable"),
    ("con.sql('INSERT INTO df VALUES (1)')", 'not supported by table "df"'),
    ("con.sql('CREATE MAPPING m (a BIGINT) TYPE DuckDB')", "mapping m created"),
    ("con.sql('INSERT INTO m SELECT a FROM df')", "3 rows inserted"),
    ("con.sql('UPDATE m SET a = 9 WHERE a = 1')", "1 row updated"),
    ("con.sql('DELETE FROM m WHERE a = 9')", "1 row deleted"),
    ("con.sql('DROP MAPPING m')", "mapping m dropped"),
    ("con.sql('SET python_scan = off')", "SET done"),
    ("con.sql('FROM df')", 'object "df" not found'),
    ("con.sql('RESET python_scan')", "RESET done"),
    ("con.sql('FROM df').show()", "None"),
    ("con.sql('FROM df').show(max_rows=1, max_width=30)", "None"),
    ("con.sql('')", "the SQL text is empty"),
    ("con.sql(3)", "a statement is given as int, not as str"),
    ("con.sql('SELECT 1').df().shape", "(1, 1)"),
    ("con.sql('SET time_zone = \\'UTC\\'').df()", "there are no rows to fetch"),
)


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with runnel.connect() as con:
        names: dict[str, Any] = {
            "__name__": "__main__",
            "con": con,
            "runnel": runnel,
            "df": pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]}),
            "polars_frame": pl.DataFrame({"a": [1, 2]}),
            "arrow_table": pa.table({"a": [1, 2]}),
            "numbers": [1, 2],
        }
        wrong = []
        for line, expected in LINES:
            try:
                shown = repr(eval(line, names))
            except runnel.Error as error:
                shown = str(error)
                assert not isinstance(error, runnel.InternalError), line
            if expected not in shown:
                wrong.append(f"{line}\n{shown}")
        assert not wrong, "\n\n".join(wrong)
        assert capsys.readouterr().out.count("│ a ") + 1


QUERIES = (
    "SELECT * FROM df ORDER BY a",
    "SELECT b, COUNT(*) AS n FROM df GROUP BY b ORDER BY b NULLS LAST",
    "SELECT SUM(a) AS s, MIN(b) AS m, MAX(b) AS x FROM df",
    "SELECT x.a, y.a AS other FROM df AS x JOIN polars_frame AS y ON x.a = y.a ORDER BY 1",
    "SELECT a FROM arrow_table UNION ALL SELECT a FROM df ORDER BY 1",
    "SELECT a FROM df WHERE a NOT IN (SELECT a FROM polars_frame)",
    "SELECT a, ROW_NUMBER() OVER (ORDER BY a DESC) AS r FROM df ORDER BY a",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_duckdb_finds_the_same(sql: str) -> None:
    df = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
    polars_frame = pl.DataFrame({"a": [1, 2]})
    arrow_table = pa.table({"a": [1, 2]})
    assert len(df) + len(polars_frame) + len(arrow_table) == 7
    with runnel.connect() as con, duckdb.connect() as oracle:
        assert con.sql(sql).fetchall() == oracle.sql(sql).fetchall()
