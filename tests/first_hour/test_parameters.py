"""Parameters as programs write them for DuckDB, psycopg and sqlite3: the rows, or the exact
refusal. Rows are compared with DuckDB's where DuckDB has the form."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pytest

import runnel
from runnel.serving.server import Server

MAP = (
    "CREATE MAPPING m (__key BIGINT, this VARCHAR) TYPE IMap "
    "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'varchar')"
)


@pytest.fixture(scope="module")
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute(MAP)
        connection.cursor().executemany("SINK INTO m VALUES (?, ?)", [(1, "a"), (2, "b")])
        yield connection


@pytest.fixture(scope="module")
def percent() -> Iterator[runnel.Connection]:
    with runnel.connect(paramstyle="pyformat") as connection:
        connection.execute(MAP)
        yield connection


BOTH: list[tuple[str, Any]] = [
    ("SELECT ?, ?", (1, "x")),
    ("SELECT ?, ?", [1, "x"]),
    ("SELECT $1 + $2, $1", (1, 2)),
    ("SELECT $2 - $1", (1, 5)),
    ("SELECT $1,$2", (1, "x")),
    ("SELECT ($1+$2)*$1", (3, 4)),
    ("SELECT '$1,$2',$1,$2", (1, 2)),
    ("SELECT $a,$b||'$a,$b'", {"a": 1, "b": "x"}),
    ("SELECT $1", {"1": 7}),
    ("SELECT $a || $b || $a", {"b": "y", "a": "x"}),
    ("SELECT $limit", {"limit": 3}),
    ("SELECT $1::INTEGER + 1", ("41",)),
    ("SELECT 'a$1', '$a', \"b\" FROM (SELECT 1 AS b)", ()),
    ("SELECT CAST($d AS DATE), $d || '!'", {"d": "2020-01-01"}),
    (
        "SELECT 1 WHERE DATE '2020-01-01' = $1 AND TIMESTAMP '2020-01-01 00:00:00' = $1",
        ("2020-01-01",),
    ),
    ("SELECT $x IS NULL, 1 = $x", {"x": None}),
    ("SELECT x + $1, count(*) FROM (VALUES (1), (1)) AS t(x) GROUP BY x + $1", (3,)),
    (
        "SELECT x FROM (VALUES (1), (2), (3)) AS t(x) ORDER BY x LIMIT $n OFFSET $m",
        {"n": 1, "m": 1},
    ),
    ("SELECT x FROM (VALUES (1), (2), (3)) AS t(x) WHERE x IN ($1, $2) ORDER BY x", (3, 1)),
    ("SELECT x FROM (VALUES (1), (2), (3)) AS t(x) WHERE x BETWEEN $1 AND $1 + 1 ORDER BY x", (2,)),
    ("SELECT CASE WHEN $f THEN $a ELSE $b END", {"f": True, "a": 1, "b": 2}),
    ("SELECT (SELECT max(x) FROM (VALUES (1), (2)) AS t(x) WHERE x < $1) + $1", (2,)),
    ("SELECT 7 % 4, 7 %4", ()),
    ("SELECT ?1 + ?2 + ?1", (1, 2)),
    ("SELECT x FROM (VALUES (1), (2), (3), (NULL)) AS t(x) WHERE x IN ? ORDER BY x", ([1, 3],)),
    ("SELECT x FROM (VALUES (1), (2), (NULL)) AS t(x) WHERE x NOT IN $l", {"l": [1, None]}),
    ("SELECT 'b' IN $1, 'z' IN $1, NULL IN $1, 1 IN [1, NULL]", (["a", "b"],)),
    ("SELECT x IN l FROM (VALUES (1, [1, 2]), (5, [2])) AS t(x, l) ORDER BY x", ()),
    ("SELECT ?, ?", (datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4))),
    ("SELECT ?, ?, ?", (Decimal("1.50"), UUID(int=5), b"ab")),
    ("SELECT ?, ?, ?, ?", (None, [1, None], {"a": 1, "b": "x"}, True)),
]

NUMPY = [
    (np.int8(5), 5),
    (np.int64(5), 5),
    (np.float32(1.5), 1.5),
    (np.float64(1.5), 1.5),
    (np.bool_(True), True),
    (np.str_("x"), "x"),
    (np.datetime64("2020-01-02T03:04:05"), datetime.datetime(2020, 1, 2, 3, 4, 5)),
    (np.timedelta64(5, "s"), datetime.timedelta(seconds=5)),
    (np.array([1, 2]), [1, 2]),
]


@pytest.mark.parametrize(("value", "fetched"), NUMPY, ids=str)
def test_values_of_numpy(con: runnel.Connection, value: Any, fetched: Any) -> None:
    assert con.execute("SELECT ?", [value]).fetchall() == [(fetched,)]


def test_an_array_after_in(con: runnel.Connection) -> None:
    with pytest.raises(runnel.BinderException, match="needs an array, not BIGINT"):
        con.execute("SELECT 1 WHERE 1 IN ?", [2**40])


@pytest.mark.parametrize(("sql", "args"), BOTH)
def test_as_duckdb(con: runnel.Connection, sql: str, args: Any) -> None:
    assert con.execute(sql, args).fetchall() == duckdb.execute(sql, args).fetchall()


OWN: list[tuple[str, Any, list[tuple[Any, ...]]]] = [
    ("SELECT :a + :b, :a", {"a": 1, "b": 2}, [(3, 1)]),
    ("SELECT * FROM m WHERE __key = :k", {"k": 2}, [(2, "b")]),
    ("SELECT * FROM m WHERE __key = $1", (2,), [(2, "b")]),
    ("SELECT this FROM m WHERE __key IN (:j, :k) ORDER BY 1", {"j": 1, "k": 2}, [("a",), ("b",)]),
    ("SELECT :x::INT", {"x": "5"}, [(5,)]),
    ("SELECT [:a, :b]", {"a": 1, "b": 2}, [([1, 2],)]),
    ("SELECT json_object('k' : :v)", {"v": 1}, [('{"k":1}',)]),
    ("SELECT json_object(KEY 'k' VALUE :v)", {"v": 1}, [('{"k":1}',)]),
    ("SELECT v FROM generate_series(1, 9) AS t(v) LIMIT :n OFFSET :m", {"n": 1, "m": 2}, [(3,)]),
    ("SELECT ':a', 1 -- :b", {}, [(":a", 1)]),
    ("SELECT 1", {}, [(1,)]),
]


@pytest.mark.parametrize(("sql", "args", "rows"), OWN)
def test_own(con: runnel.Connection, sql: str, args: Any, rows: list[Any]) -> None:
    assert con.execute(sql, args).fetchall() == rows
    assert con.execute(sql, args).fetchall() == rows, "with the cached plan"


REFUSED: list[tuple[str, Any, str]] = [
    ("SELECT :a", {}, "there is no value for the parameter :a"),
    ("SELECT :alpha", {"alpa": 1}, 'did you mean "alpa"?'),
    ("SELECT :a", {"a": 1, "b": 2}, "the statement has no parameter 'b'"),
    ("SELECT :a", (1,), "the value of :a is given by its name"),
    ("SELECT $a", [1], 'pass a dictionary: {"a": …}'),
    ("SELECT ?", {"a": 1}, "the values of ? are given in order, not as a dictionary"),
    ("SELECT 1", {"a": 1}, "the statement has no parameter 'a'"),
    ("SELECT $1, $2", (1,), "there is no value for $2"),
    ("SELECT ?, ?", (1,), "there is no value for ?, parameter 2"),
    ("SELECT $1", (1, 2), "no parameter of the statement uses argument 2"),
    ("SELECT $2", (1, 2), "the statement has $2, but no $1"),
    ("SELECT ?, $1", (1,), "the parameters of a statement are written in one way"),
    ("SELECT $0", (1,), 'syntax error at "$0"'),
    ("SELECT 1 WHERE 1 = %s", (1,), "connect(paramstyle='pyformat')"),
    ("SELECT 1 WHERE 1 IN (%(a)s)", {}, "connect(paramstyle='pyformat')"),
    ("SELECT :a", "x", "arguments are given as str, not as a sequence"),
    ("CREATE VIEW v AS SELECT :a", {"a": 1}, "a view can't have parameters"),
]


@pytest.mark.parametrize(("sql", "args", "message"), REFUSED)
def test_refused(con: runnel.Connection, sql: str, args: Any, message: str) -> None:
    with pytest.raises(runnel.Error) as error:
        con.execute(sql, args)
    assert message in str(error.value)


def test_names_in_order_are_refused_after_a_dictionary(con: runnel.Connection) -> None:
    assert con.execute("SELECT :a + 40", {"a": 2}).fetchall() == [(42,)]
    with pytest.raises(runnel.InterfaceError, match="by its name"):
        con.execute("SELECT :a + 40", (2,))


MANY: list[tuple[list[Any], str]] = [
    ([{"k": 1, "v": "a"}, {"k": 2}], "there is no value for 'v' in argument list 2"),
    ([{"k": 1, "v": "a"}, {"k": 2, "v": "b", "z": 1}], "argument list 2 has a value for 'z'"),
    ([{"k": 1, "v": "a"}, (1, "b")], "argument list 2 is given as tuple"),
    ([{"k": 1, "w": "a"}], "there is no value for the parameter :v"),
    ([(1, "a")], "the value of :k is given by its name"),
]


@pytest.mark.parametrize(("rows", "message"), MANY)
def test_executemany_refused(con: runnel.Connection, rows: list[Any], message: str) -> None:
    with pytest.raises(runnel.InterfaceError) as error:
        con.cursor().executemany("SINK INTO m VALUES (:k, :v)", rows)
    assert message in str(error.value)


def test_executemany_with_dictionaries(con: runnel.Connection) -> None:
    cursor = con.cursor()
    cursor.executemany("SINK INTO m VALUES (:k, :v)", [{"v": "x", "k": 5}, {"k": 6, "v": "y"}])
    assert cursor.rowcount == 2
    cursor.executemany("UPDATE m SET this = $v WHERE __key = $k", [{"k": 5, "v": "z"}])
    rows = con.execute("SELECT * FROM m WHERE __key IN (5, 6) ORDER BY 1").fetchall()
    assert rows == [(5, "z"), (6, "y")]
    cursor.executemany("DELETE FROM m WHERE __key = $1", [(5,), (6,)])


def test_a_server_receives_names(tmp_path: Any) -> None:
    token = "a token of the tests"
    with runnel.connect() as local, Server(local, token) as server:
        local.execute(MAP)
        with runnel.connect(server.url, token=token) as remote:
            assert remote.execute("SELECT :b, :a", {"a": 1, "b": "x"}).fetchall() == [("x", 1)]
            assert remote.execute("SELECT $1, $1", (1,)).fetchall() == [(1, 1)]
            rows = [{"v": "x", "k": 5}, {"k": 6, "v": "y"}]
            remote.cursor().executemany("SINK INTO m VALUES (:k, :v)", rows)
            with pytest.raises(runnel.InterfaceError, match="no value for the parameter :a"):
                remote.execute("SELECT :a", {"b": 1})
            with pytest.raises(runnel.InterfaceError, match="by its name"):
                remote.execute("SELECT :a", (1,))
            with pytest.raises(runnel.InterfaceError, match="is a str"):
                remote.execute("SELECT :a", {1: 1})
        with runnel.connect(server.url, token=token, paramstyle="format") as remote:
            assert remote.execute("SELECT this FROM m WHERE __key = %s", (6,)).fetchall() == [
                ("y",)
            ]


def test_a_named_job_has_named_parameters(con: runnel.Connection) -> None:
    con.execute(
        "CREATE JOB j AS SINK INTO m SELECT v + :k, :t || :t "
        "FROM TABLE(GENERATE_SERIES(1, 2)) AS g(v)",
        {"t": "x", "k": 100},
    )
    con.job("j").join()
    rows = con.execute("SELECT * FROM m WHERE __key > 100 ORDER BY 1").fetchall()
    assert rows == [(101, "xx"), (102, "xx")]


PERCENT: list[tuple[str, Any, list[tuple[Any, ...]]]] = [
    ("SELECT %s, 'a%%b', 7 %% %s", (1, 4), [(1, "a%b", 3)]),
    ("SELECT %(a)s + %(a)s, %(b)s", {"a": 1, "b": "x"}, [(2, "x")]),
    ("SELECT 7 % 4, 'a%%'", (), [(3, "a%%")]),
    ("SELECT /* %s */ %s -- 100%", (1,), [(1,)]),
    ("SELECT 'abc' LIKE 'a%%' AND %s", (True,), [(True,)]),
    ("SELECT 'it''s %%', %s", [1], [("it's %", 1)]),
]


@pytest.mark.parametrize(("sql", "args", "rows"), PERCENT)
def test_percent(percent: runnel.Connection, sql: str, args: Any, rows: list[Any]) -> None:
    assert percent.execute(sql, args).fetchall() == rows


PERCENT_REFUSED: list[tuple[str, Any, str]] = [
    ("SELECT %(a)s", (1,), "the value of %(a)s is given by its name"),
    ("SELECT %s", {"a": 1}, "the values of %s are given in order"),
    ("SELECT %s + %(a)s", {"a": 1}, "%s and %(name)s can't be mixed"),
    ("SELECT %d", (1,), 'syntax error at "%d"'),
    ("SELECT ? + %s", (1,), 'syntax error at "?"'),
    ("SELECT '%s'", (1,), '"%s" in quotes is no parameter'),
    ("SELECT %(a)s", {"b": 1}, "there is no value for the parameter %(a)s"),
    ("SELECT %(a)s", {"a": 1, "b": 1}, "the statement has no parameter 'b'"),
    ("SELECT %s, %s", (1,), "there is no value for %s, parameter 2"),
    ("SELECT %s", (1, 2), "no parameter of the statement uses argument 2"),
]


@pytest.mark.parametrize(("sql", "args", "message"), PERCENT_REFUSED)
def test_percent_refused(percent: runnel.Connection, sql: str, args: Any, message: str) -> None:
    with pytest.raises(runnel.Error) as error:
        percent.execute(sql, args)
    assert message in str(error.value)


def test_an_error_points_into_the_text_as_it_was_written(percent: runnel.Connection) -> None:
    sql = "SELECT 'a%%', %s, nosuch"
    with pytest.raises(runnel.ProgrammingError) as error:
        percent.execute(sql, (1,))
    assert error.value.position is not None
    assert error.value.position.offset == sql.index("nosuch")


def test_executemany_in_percent_style(percent: runnel.Connection) -> None:
    cursor = percent.cursor()
    cursor.executemany("SINK INTO m VALUES (%(k)s, %(v)s)", [{"v": "x", "k": 1}])
    cursor.executemany("SINK INTO m VALUES (%s, %s)", [(2, "y"), [3, "z"]])
    assert percent.execute("SELECT count(*) FROM m").fetchone() == (3,)
    with pytest.raises(runnel.InterfaceError, match="given in order"):
        cursor.executemany("SINK INTO m VALUES (%s, %s)", [{"a": 1}])


@pytest.mark.parametrize("style", ["numeric", "x", None, 5])
def test_styles_that_do_not_exist(style: Any) -> None:
    with pytest.raises((runnel.InterfaceError, runnel.NotSupportedError), match="paramstyle"):
        runnel.connect(paramstyle=style)


def test_paramstyle_is_one_of_pep_249() -> None:
    assert runnel.paramstyle == "qmark"
    runnel.connect(paramstyle=runnel.paramstyle).close()
    runnel.connect(paramstyle="named").close()


def test_a_parameter_before_a_cast(con: runnel.Connection) -> None:
    cursor = con.execute("SELECT ?::INT + 1, ?::DATE", ["41", "2026-01-02"])
    assert cursor.fetchall() == [(42, datetime.date(2026, 1, 2))]
    con.execute("PREPARE q AS SELECT ?::INT + ?::INT")
    assert con.execute("EXECUTE q(1, 2)").fetchall() == [(3,)]
