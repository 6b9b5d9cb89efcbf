"""CREATE MACRO: names, stored catalogs, cached plans, jobs and errors.

`macros.slt` compares results with DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest

import runnel
from runnel.planner.bind.query import MOST_EXPANSIONS


def test_names_of_arguments_are_the_callers(connection: runnel.Connection) -> None:
    """DuckDB's macros capture: `m(k)` compares t.k with itself there."""
    connection.execute("CREATE TABLE t AS SELECT i AS k, i * 10 AS v FROM range(3) r(i)")
    connection.execute("CREATE MACRO m(x) AS (SELECT max(v) FROM t WHERE t.k = x)")
    found = connection.execute("SELECT k, m(k), m(k - 1), m(t.k) FROM t ORDER BY k").fetchall()
    assert found == [(0, 0, None, 0), (1, 10, 0, 10), (2, 20, 10, 20)]
    # Two levels: the argument crosses both subqueries.
    connection.execute("CREATE MACRO n(x) AS (SELECT max(k) FROM t WHERE k <= m(x) + 1)")
    found = connection.execute("SELECT n(v / 10) FROM t ORDER BY k").fetchall()
    assert found == [(1,), (2,), (2,)]


def test_names_of_lambda_parameters_are_the_callers(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO added(l, n) AS list_transform(l, e -> e + n)")
    assert connection.execute("SELECT added([1, 2], e) FROM (SELECT 10 AS e)").fetchone() == (
        [11, 12],
    )
    nested = "SELECT list_transform([100, 200], e -> added([1, 2], e)[1])"
    assert connection.execute(nested).fetchone() == ([101, 201],)
    own = "SELECT added([1, 2], list_sum(list_transform([1, 2], e -> e * n))) FROM (SELECT 2 AS n)"
    assert connection.execute(own).fetchone() == ([7, 8],)
    connection.execute("CREATE MACRO named(e) AS [e + 1 for e in [1, 2]]")
    assert connection.execute("SELECT named(50)").fetchone() == ([2, 3],)


def test_fields_of_an_argument(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO size(s) AS s.a + s.b")
    assert connection.execute("SELECT size({a: 1, b: 2})").fetchone() == (3,)


def test_lateral_arguments(connection: runnel.Connection) -> None:
    connection.execute(
        "CREATE MACRO up_to(n) AS TABLE SELECT i AS k FROM range(5) r(i) WHERE k < n"
    )
    sql = "SELECT s.k, x.k FROM (VALUES (1), (2)) s(k), LATERAL up_to(s.k) x ORDER BY ALL"
    assert connection.execute(sql).fetchall() == [(1, 0), (2, 0), (2, 1)]


def test_an_argument_with_a_query_in_a_query_of_the_body(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO twice(x) AS x * 2")
    assert connection.execute("SELECT twice((SELECT max(i) FROM range(4) r(i)))").fetchone() == (6,)
    connection.execute("CREATE MACRO up_to(n) AS TABLE SELECT i FROM range(5) r(i) WHERE i < n")
    with pytest.raises(runnel.NotSupportedError, match="a subquery as an argument"):
        connection.execute("FROM up_to((SELECT 3))")


def test_replaced_macro_in_cached_plan(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO f(x) AS x + 1")
    connection.execute("CREATE MACRO g(x) AS f(x) * 10")
    connection.execute("CREATE MACRO h(x) AS TABLE SELECT g(x) AS v")
    connection.execute("CREATE VIEW w AS SELECT v FROM h(2)")
    statements = ("SELECT g(1)", "FROM h(1)", "FROM w")
    assert [connection.execute(sql).fetchone() for sql in statements] == [(20,), (20,), (30,)]
    connection.execute("CREATE OR REPLACE MACRO f(x) AS x + 2")
    assert [connection.execute(sql).fetchone() for sql in statements] == [(30,), (30,), (40,)]
    connection.execute("DROP MACRO f")
    for sql in statements:
        with pytest.raises(runnel.ProgrammingError, match='function "f" not found'):
            connection.execute(sql)


def test_a_macro_hides_a_built_in_function_in_cached_plans(connection: runnel.Connection) -> None:
    sql = "SELECT add(1, 2), instr('abc', 'c')"
    assert connection.execute(sql).fetchone() == (3, 3)
    connection.execute("CREATE MACRO add(a, b) AS a * 100 + b")
    # INSTR stands for STRPOS: its meaning does not change.
    connection.execute("CREATE MACRO strpos(a, b) AS -1")
    assert connection.execute(sql).fetchone() == (102, 3)
    connection.execute("DROP MACRO add")
    assert connection.execute(sql).fetchone() == (3, 3)


def test_stored_macros(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute('CREATE MACRO "Plus"(a, b := 5) AS a + b')
        connection.execute("CREATE MACRO up_to(n) AS TABLE SELECT * FROM range(n)")
        connection.execute("CREATE MACRO gone(a) AS a")
        connection.execute("CREATE TEMP MACRO t(a) AS a")
        connection.execute("DROP MACRO gone")
        connection.execute("CREATE VIEW v AS SELECT plus(1) AS p")  # saves the catalog again
    with runnel.connect(tmp_path / "db") as connection:
        assert connection.execute("SELECT plus(1), count(*) FROM up_to(3)").fetchone() == (6, 3)
        assert connection.execute("FROM v").fetchone() == (6,)
        shown = connection.execute(
            "SELECT macro_name, macro_type, macro_definition FROM information_schema.macros"
        ).fetchall()
        assert shown == [
            ("Plus", "MACRO", "CREATE MACRO Plus(a, b := 5) AS a + b"),
            ("up_to", "TABLE MACRO", "CREATE MACRO up_to(n) AS TABLE SELECT * FROM range(n)"),
        ]
        for _, _, text in shown:
            connection.execute(text.replace("CREATE", "CREATE OR REPLACE"))
        listed = connection.execute("SHOW FUNCTIONS LIKE 'plus'").fetchall()
        assert listed == [("PLUS", "macro", "a, b", "(a, b := 5) AS a + b", "CREATE MACRO")]


def test_jobs_hold_their_macros(tmp_path: Path) -> None:
    with runnel.connect(tmp_path / "db") as connection:
        connection.execute("CREATE MAPPING o (v BIGINT) TYPE Discard")
        connection.execute("CREATE MACRO f(x) AS x + 1")
        connection.execute("CREATE MACRO g(x) AS f(x)")
        connection.execute("CREATE MACRO s(n) AS TABLE SELECT g(v) AS v FROM GENERATE_STREAM(n)")
        connection.execute("CREATE JOB j AS INSERT INTO o SELECT v FROM s(10)")
        for sql in (
            "DROP MACRO f",
            "DROP MACRO TABLE s",
            "CREATE OR REPLACE MACRO f(x) AS x + 2",
        ):
            with pytest.raises(runnel.ProgrammingError, match='is used by the job "j"'):
                connection.execute(sql)
        connection.execute("ALTER JOB j SUSPEND")
        connection.execute("CREATE OR REPLACE MACRO f(x) AS x + 1 + 0")
        with pytest.raises(runnel.ProgrammingError, match='is used by the job "j"'):
            connection.execute("DROP MACRO f")
        connection.execute("ALTER JOB j RESUME")
    with runnel.connect(tmp_path / "db") as connection:
        status = connection.execute("SELECT status FROM information_schema.jobs").fetchone()
        assert status is not None and status[0] in ("STARTING", "RUNNING")
        connection.execute("DROP JOB j")
        connection.execute("DROP MACRO f")


def test_recursion_by_replacement(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO f(x) AS x")
    connection.execute("CREATE MACRO g(x) AS f(x)")
    connection.execute("CREATE OR REPLACE MACRO f(x) AS g(x)")
    for sql in ("SELECT f(1)", "SELECT g(f(1))"):
        with pytest.raises(runnel.ProgrammingError, match="refers to itself") as error:
            connection.execute(sql)
        assert error.value.position is not None and sql[error.value.position.offset] in "fg"
    connection.execute("CREATE MACRO a(x) AS TABLE SELECT x AS y")
    connection.execute("CREATE MACRO b(x) AS TABLE FROM a(x)")
    connection.execute("CREATE OR REPLACE MACRO a(x) AS TABLE FROM b(x)")
    with pytest.raises(runnel.ProgrammingError, match="refers to itself"):
        connection.execute("FROM a(1)")


def test_expansions_are_bounded(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO m0(x) AS x + 1")
    for number in range(6):
        connection.execute(f"CREATE MACRO m{number + 1}(x) AS m{number}(x) + m{number}(x)")
    assert connection.execute("SELECT m6(1)").fetchone() == (128,)
    calls = "1"
    for _ in range(11):
        calls = f"m1({calls})"
    with pytest.raises(runnel.ProgrammingError, match=r"too large|expands more than"):
        connection.execute(f"SELECT {calls}")
    with pytest.raises(runnel.ProgrammingError, match=f"more than {MOST_EXPANSIONS:,} calls"):
        connection.execute("SELECT " + ", ".join(["m6(1)"] * 20))


def test_errors_point_at_the_call_and_name_the_macro(connection: runnel.Connection) -> None:
    connection.execute("CREATE MACRO inner_one(x) AS upper(x) + x")
    connection.execute("CREATE MACRO outer_one(x) AS inner_one(x)")
    sql = "SELECT 1, outer_one(DATE '2024-01-01')"
    with pytest.raises(runnel.ProgrammingError) as error:
        connection.execute(sql)
    assert error.value.position is not None
    assert error.value.position.offset >= len("SELECT 1, ")
    assert 'in macro "inner_one"' in str(error.value)
    assert 'in macro "outer_one"' in str(error.value)
    with pytest.raises(runnel.ProgrammingError, match='column "nothing" does not exist') as error:
        connection.execute("SELECT outer_one(nothing)")
    assert error.value.position is not None and error.value.position.offset == 17
    connection.execute("CREATE MACRO rows_of(x) AS TABLE SELECT upper(x) + 1 AS v")
    with pytest.raises(runnel.ProgrammingError, match='in macro "rows_of"') as error:
        connection.execute("SELECT v FROM rows_of('a')")
    assert error.value.position is not None and error.value.position.offset == 14


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE MACRO f(x) AS x + ?", "can't have parameters of the statement"),
        ("CREATE MACRO f(x) AS x, (y) AS y", "two lists of 1 parameters"),
        ("CREATE MACRO f(x)", "AS"),
        ("CREATE MACRO f AS 1", r"\("),
        ("CREATE MACRO f(x) AS", "an expression is missing"),
        ("CREATE MACRO f(x) AS TABLE", "a query"),
        ("CREATE MACRO f(x AS x", "unknown type"),
        ("SELECT f(DISTINCT 1)", "DISTINCT is not supported in a call of macro"),
        ("SELECT f(*)", r"\* is not allowed here"),
        ("CREATE FUNCTION f AS 'com.example.F'", "CREATE FUNCTION in JAVA is not supported"),
        (
            "CREATE FUNCTION f(a int) RETURNS int AS 'SELECT 1' LANGUAGE sql",
            "CREATE FUNCTION is not supported",
        ),
        ("SELECT upper(x := 'a')", "is a named argument, which"),
        ("DROP MACRO public.f(x)", "syntax error"),
    ],
)
def test_refused(connection: runnel.Connection, sql: str, message: str) -> None:
    connection.execute("CREATE OR REPLACE MACRO f(x) AS x")
    with pytest.raises(runnel.Error, match=message):
        connection.execute(sql, (1,) if "?" in sql else ())


def test_python_functions_and_macros(connection: runnel.Connection) -> None:
    connection.create_function("doubled", lambda x: x * 2, ["BIGINT"], "BIGINT")
    connection.execute("CREATE MACRO m(x) AS doubled(x) + 1")
    assert connection.execute("SELECT m(4)").fetchone() == (9,)
    with pytest.raises(runnel.ProgrammingError, match="exists already"):
        connection.execute("CREATE MACRO doubled(x) AS x")
    with pytest.raises(runnel.ProgrammingError, match="use DROP FUNCTION doubled"):
        connection.execute("DROP MACRO doubled")
    connection.execute("DROP FUNCTION doubled")
    with pytest.raises(runnel.ProgrammingError, match='"doubled" not found'):
        connection.execute("SELECT m(4)")


def test_macros_in_transactions(connection: runnel.Connection) -> None:
    connection.execute("CREATE TABLE t (a BIGINT)")
    connection.execute("CREATE MACRO f(x) AS x + 1")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (f(1))")
    assert connection.execute("SELECT f(a) FROM t").fetchone() == (3,)
    with pytest.raises(runnel.NotSupportedError, match="CREATE MACRO is not supported in a tran"):
        connection.execute("CREATE MACRO g(x) AS x")
    connection.execute("ROLLBACK")
