"""Wrong statements over windows, grouping sets, subqueries, recursion, functions and tables: what
they are told."""

from __future__ import annotations

import pytest

import runnel

WRONG = [
    ("SELECT ARRAY_AGG(ORDER BY a) FROM t", "ORDER BY in parentheses needs an argument before it"),
    (
        "SELECT SUM(ORDER BY a) OVER (ORDER BY a) FROM t",
        "ORDER BY in parentheses needs an argument before it",
    ),
]


@pytest.mark.parametrize(("sql", "message"), WRONG)
def test_what_is_wrong_is_said(cursor: runnel.Cursor, sql: str, message: str) -> None:
    cursor.execute("CREATE MAPPING t (a BIGINT, b VARCHAR) TYPE DuckDB")
    with pytest.raises(runnel.Error, match=message) as caught:
        cursor.execute(sql).fetchall()
    assert not isinstance(caught.value, runnel.InternalError)
    assert caught.value.position is not None
