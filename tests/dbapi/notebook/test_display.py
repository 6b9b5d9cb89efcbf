"""What a notebook shows of a cursor."""

from __future__ import annotations

import runnel
from tests.waiting import eventually


def test_rows_are_shown_and_stay() -> None:
    with runnel.connect() as connection:
        cursor = connection.execute(
            "SELECT v, '<' || v AS t, CAST(NULL AS DATE) AS d "
            "FROM TABLE(GENERATE_SERIES(1, 100)) AS s(v)"
        )
        shown = cursor._repr_html_()
        assert "<th>v<br><small>BIGINT</small></th>" in shown
        assert "<td>1</td><td>&lt;1</td><td><i>NULL</i></td>" in shown
        assert "<td>20</td>" in shown and "<td>21</td>" not in shown
        assert "<p>the first 20 rows" in shown
        assert cursor.fetchone() == (1, "<1", None)
        assert "<td>21</td>" in cursor._repr_html_()
        assert [row[0] for row in cursor.fetchall()] == list(range(2, 101))
        assert "0 rows left" in cursor._repr_html_()


def test_statements_without_rows_and_failures() -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        assert "no statement" in cursor._repr_html_()
        cursor.execute("CREATE MAPPING t (a INTEGER) TYPE DuckDB")
        cursor.execute("INSERT INTO t VALUES (1), (2)")
        assert "2 rows inserted" in cursor._repr_html_()
        try:
            cursor.execute("SELECT 1 / (a - 1) FROM t")
            told = cursor._repr_html_()
        except runnel.DataError as error:  # it failed before `execute` was back
            told = str(error)
        assert "division by zero" in told.lower()
        cursor.close()
        assert "the cursor is closed" in cursor._repr_html_()


def test_a_stream_is_not_waited_for() -> None:
    with runnel.connect() as connection:
        writer = connection.register_stream("s", {"a": "INTEGER"})
        cursor = connection.execute("SELECT a FROM s")
        assert "no row yet" in cursor._repr_html_()
        writer.write([(7,)])
        assert eventually(lambda: "<td>7</td>" in cursor._repr_html_())
        assert cursor.fetchone() == (7,)


def test_long_values_are_cut() -> None:
    with runnel.connect() as connection:
        shown = connection.execute("SELECT REPEAT('x', 1000)")._repr_html_()
        assert "x" * 200 + "…" in shown and "x" * 201 not in shown
