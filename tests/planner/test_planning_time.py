"""Planning takes time in proportion to the statement, and no longer than the statement may take."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import process_time
from typing import Any

import pytest

import runnel
from runnel.deadline import within_time
from runnel.expressions.nodes import Literal
from runnel.planner.bind import bound_tables
from runnel.planner.bind.select import SelectBinder
from runnel.planner.parse.statement import parse
from runnel.planner.planner import _plan
from runnel.planner.rules import RULES, apply
from runnel.planner.rules.build_side import choose_build_side
from runnel.relation.nodes import Field, Join, JoinKind, Relation, Values, walk
from runnel.relation.streams import ImposeOrder
from runnel.session import session
from runnel.session.session import Session
from runnel.sqltypes import BIGINT
from runnel.statements import run


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def _doublings(number: int) -> str:
    tables = [
        f"q{i} AS (SELECT * FROM q{i - 1} UNION ALL SELECT * FROM q{i - 1})"
        for i in range(1, number + 1)
    ]
    return f"WITH q0 AS (SELECT 1 AS a), {', '.join(tables)} SELECT COUNT(*) FROM q{number}"


def test_a_common_table_is_bound_once(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[Any] = []
    bind = SelectBinder.bind

    def counted(self: SelectBinder, tree: Any) -> Any:
        bound.append(tree)
        return bind(self, tree)

    monkeypatch.setattr(SelectBinder, "bind", counted)
    assert con.execute(_doublings(6)).fetchall() == [(64,)]
    assert len(bound) == 6 * 2 + 2


def test_uses_of_a_common_table_have_their_own_names_and_levels(con: runnel.Connection) -> None:
    sql = (
        "WITH t(a, b) AS (VALUES (1, 10), (2, 20), (3, 30)), u AS (SELECT a + 1 AS a FROM t) "
        "SELECT x.a, y.b, (SELECT MAX(b) FROM t WHERE t.a < x.a), "
        "(SELECT COUNT(*) FROM u WHERE u.a IN (SELECT a FROM t z)) "
        "FROM t x JOIN t AS y(c, b) ON x.a = y.c ORDER BY x.a"
    )
    assert con.execute(sql).fetchall() == [(1, 10, None, 2), (2, 20, 10, 2), (3, 30, 20, 2)]
    nested = (
        "SELECT v, (WITH w AS (SELECT v * 2 AS d) "
        "SELECT (SELECT d FROM w) + (SELECT MAX(x.d + y.d) FROM w x, w y)) "
        "FROM (VALUES (1), (5)) o(v) ORDER BY v"
    )
    assert con.execute(nested).fetchall() == [(1, 6), (5, 30)]


def test_each_use_of_a_stream_has_a_watermark_of_its_own(con: runnel.Connection) -> None:
    con.execute(
        "CREATE VIEW s AS SELECT * FROM TABLE(IMPOSE_ORDER((SELECT v, TO_TIMESTAMP(v) AS t "
        "FROM TABLE(GENERATE_STREAM(1))), DESCRIPTOR(t), INTERVAL '1' SECOND))"
    )
    plan: Any = con._session.prepare(
        "WITH c AS (SELECT * FROM s) SELECT * FROM c UNION ALL SELECT * FROM c", ()
    )
    numbers = [item.watermark for item in walk(plan.logical) if isinstance(item, ImposeOrder)]
    assert len(numbers) == len(set(numbers)) == 2


def test_rules_look_at_the_time(con: runnel.Connection) -> None:
    plan: Any = con._session.prepare("SELECT 1 FROM (VALUES (1)) t(a) WHERE a > 0", ())
    looks: list[int] = []
    apply(plan.logical, check=lambda: looks.append(1))
    assert len(looks) >= len(RULES)


def test_the_time_out_ends_planning(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]

    def passing() -> int:
        now[0] += 1_000_000_000
        return now[0]

    monkeypatch.setattr(session, "monotonic_ns", passing)
    monkeypatch.setattr(run, "monotonic_ns", passing)
    with pytest.raises(runnel.OperationalError, match=r"took longer than its time-out of 4 s"):
        con.execute(_doublings(5), timeout=4)
    with pytest.raises(runnel.OperationalError, match=r"took longer than its time-out of 1 s"):
        con.cursor().executemany("SELECT ?", [(1,), (2,)], timeout=1)
    assert con.jobs() == []
    monkeypatch.undo()
    assert con.execute(_doublings(5), timeout=60).fetchall() == [(32,)]


def _chain(number: int, body: str, first: str = "SELECT 1 AS a") -> str:
    """Common tables each of which reads the one before, which is {before} in its body."""
    tables = [f"q{i} AS ({body.format(before=f'q{i - 1}')})" for i in range(1, number + 1)]
    return f"WITH RECURSIVE q0 AS ({first}), {', '.join(tables)} "


_DOUBLING = {
    "joins": ("SELECT l.a + 1 AS a FROM {before} l JOIN {before} r ON l.a = r.a", [(21,)]),
    "unions": (
        "SELECT a FROM {before} UNION SELECT a + 1 FROM {before} WHERE a < 3",
        [(1,), (2,), (3,)],
    ),
    "groups": (
        "SELECT l.a, COUNT(*) AS c FROM {before} l JOIN {before} r ON l.a = r.a GROUP BY l.a",
        [(1, 1)],
    ),
    "subqueries": ("SELECT a + (SELECT MAX(a) - 1 FROM {before}) AS a FROM {before}", [(1,)]),
    "IN": ("SELECT a FROM {before} WHERE a IN (SELECT a FROM {before})", [(1,)]),
}


@pytest.mark.parametrize("shape", _DOUBLING)
def test_common_tables_that_name_the_one_before_twice_are_planned_and_run_once(
    con: runnel.Connection, shape: str
) -> None:
    body, expected = _DOUBLING[shape]
    lengths = []
    for number in (10, 20):
        sql = _chain(number, body) + f"SELECT * FROM q{number} ORDER BY a"
        lengths.append(len(con.execute(f"EXPLAIN {sql}").fetchall()))
    assert lengths[1] < 3 * lengths[0]
    assert con.execute(sql).fetchall() == expected


def test_parameters_of_common_tables_that_run_once_keep_their_values(
    con: runnel.Connection,
) -> None:
    sql = (
        _chain(25, "SELECT a FROM {before} UNION SELECT a + ? FROM {before} WHERE a < ?")
        + "SELECT * FROM q25 ORDER BY a"
    )
    assert con.execute(sql, [2, 6] * 25).fetchall() == [(1,), (3,), (5,), (7,)]


def test_views_that_name_the_one_before_twice_are_planned_and_run_once(
    con: runnel.Connection,
) -> None:
    con.execute("CREATE VIEW v0 AS SELECT 1 AS a")
    for i in range(1, 31):
        con.execute(
            f"CREATE VIEW v{i} AS SELECT l.a + 1 AS a FROM v{i - 1} l JOIN v{i - 1} r ON l.a = r.a"
        )
    assert con.execute("SELECT * FROM v30").fetchall() == [(31,)]


def test_a_common_table_that_runs_once_is_explained_once(con: runnel.Connection) -> None:
    sql = _chain(10, _DOUBLING["joins"][0]) + "SELECT * FROM q10"
    lines = [line.strip() for (line,) in con.execute(f"EXPLAIN (LOGICAL) {sql}").fetchall()]
    assert lines.count("Common table 1") == 1
    assert "Common table 1, as before" in lines


def test_conditions_still_reach_into_common_tables_that_are_used_a_few_times(
    con: runnel.Connection,
) -> None:
    table = "WITH t AS (SELECT v FROM GENERATE_SERIES(1, 100) AS s(v))"
    sql = f"{table} SELECT * FROM t a JOIN t b ON a.v = b.v WHERE a.v = 3 AND b.v = 3"
    plan = "\n".join(line for (line,) in con.execute(f"EXPLAIN (LOGICAL) {sql}").fetchall())
    assert "Common table" not in plan
    assert plan.count("v = 3") == 2


_COPIED = {
    "volatile": _chain(20, "SELECT l.a + RAND() AS a FROM {before} l, {before} r")
    + "SELECT * FROM q20",
    "correlated": "SELECT ("
    + _chain(20, "SELECT l.a FROM {before} l, {before} r", "SELECT v AS a")
    + "SELECT a FROM q20) "
    "FROM (VALUES (1)) AS t(v)",
    "read by a recursion": _chain(20, "SELECT l.a FROM {before} l, {before} r")
    + (
        ", r AS (SELECT a FROM q20 UNION ALL SELECT r.a + 1 FROM r JOIN q20 ON q20.a = r.a) "
        "SELECT * FROM r"
    ),
    "of a stream": _chain(
        20,
        "SELECT * FROM {before} UNION ALL SELECT * FROM {before}",
        "SELECT * FROM TABLE(GENERATE_STREAM(1))",
    )
    + "SELECT * FROM q20",
    "beside a stream": _chain(20, "SELECT l.a FROM {before} l JOIN {before} r ON l.a = r.a")
    + "SELECT * FROM TABLE(GENERATE_STREAM(1)) AS s JOIN q20 ON s.v = q20.a",
}


@pytest.mark.parametrize("sql", _COPIED.values(), ids=_COPIED)
def test_what_cannot_run_once_is_refused_where_its_copies_are_too_many(
    con: runnel.Connection, sql: str
) -> None:
    with pytest.raises(runnel.ProgrammingError, match="refer to one another too often"):
        con.execute(sql)


def test_a_volatile_common_table_differs_in_each_use(con: runnel.Connection) -> None:
    sql = (
        _chain(5, "SELECT l.a + RAND() AS a FROM {before} l, {before} r")
        + "SELECT l.a = r.a FROM q5 l, q5 r"
    )
    assert con.execute(sql).fetchall() == [(False,)]


def _calls(action: Callable[[], object]) -> int:
    """How many functions are called meanwhile."""
    found = [0]

    def note(frame: Any, event: str, argument: Any) -> None:
        found[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    return found[0]


def _series(columns: str, rest: str = "") -> str:
    return f"SELECT {columns} FROM GENERATE_SERIES(1, 3) AS s(v) {rest}"


_LONG: dict[str, Callable[[int], str]] = {
    "aggregates": lambda n: _series(", ".join(f"SUM(v + {i})" for i in range(n))),
    "windows": lambda n: _series(", ".join(f"SUM(v + {i}) OVER (ORDER BY v)" for i in range(n))),
    "keys": lambda n: _series(
        ", ".join(f"v + {i}" for i in range(n)),
        "GROUP BY " + ", ".join(str(i + 1) for i in range(n)),
    ),
    "order": lambda n: _series(
        ", ".join(f"v + {i} AS c{i}" for i in range(n)),
        "ORDER BY " + ", ".join(f"c{i}" for i in range(n)),
    ),
    "unions": lambda n: " UNION ALL ".join(f"SELECT {i}" for i in range(n)),
    "conditions": lambda n: _series("v", "WHERE " + " AND ".join(f"v <> {i}" for i in range(n))),
    "branches": lambda n: _series(f"CASE v {' '.join(f'WHEN {i} THEN {i}' for i in range(n))} END"),
    "rows": lambda n: f"SELECT * FROM (VALUES {', '.join(f'({i})' for i in range(n))}) AS t(a)",
    "elements": lambda n: _series(
        "v", f"WHERE v NOT IN ({', '.join(f'v + {i + 1}' for i in range(n))})"
    ),
    "common tables": lambda n: _chain(n, "SELECT a + 1 AS a FROM {before}") + f"SELECT * FROM q{n}",
}


@pytest.mark.parametrize("shape", _LONG)
def test_work_grows_with_the_text(con: runnel.Connection, shape: str) -> None:
    con.execute(_LONG[shape](3)).fetchall()
    calls = [_calls(lambda n=n: con._session.prepare(_LONG[shape](n), ())) for n in (60, 240)]
    assert calls[1] < 8 * calls[0]


def test_work_grows_with_the_subqueries_over_a_duckdb_table(con: runnel.Connection) -> None:
    con.execute("CREATE MAPPING d (v BIGINT) TYPE DuckDB")

    def sql(number: int) -> str:
        return (
            f"SELECT {', '.join(f'(SELECT MAX(v) FROM d WHERE d.v < {i})' for i in range(number))}"
        )

    con._session.prepare(sql(2), ())
    calls = [_calls(lambda n=n: con._session.prepare(sql(n), ())) for n in (20, 80)]
    assert calls[1] < 6 * calls[0]


def test_many_parameters_are_read_in_time_with_their_number() -> None:
    def seconds(number: int) -> float:
        sql = f"SELECT 1 WHERE 1 IN ({', '.join('?' * number)})"
        times = []
        gc.disable()  # what it collects is of other tests
        try:
            for _ in range(3):
                start = process_time()
                parse(sql)
                times.append(process_time() - start)
        finally:
            gc.enable()
        return min(times)

    assert seconds(16_000) < 24 * seconds(2000), (
        "8 times where time goes with the number, 64 with its square"
    )


def test_thousands_of_elements_that_are_no_constants(con: runnel.Connection) -> None:
    elements = ", ".join(f"v + {i + 1}" for i in range(3000))
    assert con.execute(_series("COUNT(*)", f"WHERE v NOT IN ({elements})")).fetchall() == [(3,)]
    assert con.execute(_series("COUNT(*)", f"WHERE v IN ({elements}, v)")).fetchall() == [(3,)]


_STAGES: dict[str, str] = {
    "binding": _series(", ".join(f"v + {i}" for i in range(300))),
    "conditions": _series("v", "WHERE " + " AND ".join(f"v <> {i}" for i in range(300))),
    "unions": _LONG["unions"](150),
    "joins": _series(
        "COUNT(*)",
        " ".join(f"JOIN GENERATE_SERIES(1, 3) AS t{i}(v) ON t{i}.v = s.v" for i in range(30)),
    ),
    "subqueries": "SELECT "
    + ", ".join(f"(SELECT MAX(v) FROM GENERATE_SERIES(1, {i}) AS s(v))" for i in range(1, 60)),
}


@pytest.mark.parametrize("shape", _STAGES)
def test_no_stage_goes_on_for_long_without_a_look_at_the_time(
    con: runnel.Connection, shape: str
) -> None:
    """Between two looks there is at most a third of the calls."""
    snapshot = con._database.catalog.snapshot
    environment = replace(con._session.planning_environment("UTC"), check=lambda: None)
    tree = parse(_STAGES[shape])
    looked: list[int] = []
    calls = [0]

    def note(frame: Any, event: str, argument: Any) -> None:
        calls[0] += event == "call"

    def look() -> None:
        looked.append(calls[0])

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with within_time(look):
            _plan(tree, snapshot, (), environment)
    finally:
        sys.setprofile(before)
    gaps = [after - first for first, after in zip(looked, [*looked[1:], calls[0]], strict=True)]
    assert max(gaps) < calls[0] / 3


def test_the_statement_itself_may_not_have_too_many_copies(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bound_tables, "MOST_STEPS", 200)

    def planned(column: str, rows: int, uses: int) -> list[str]:
        table = " UNION ALL ".join([f"SELECT {column} AS a"] * rows)
        readers = ", ".join(f"w w{i}" for i in range(uses))
        lines = con.execute(
            f"EXPLAIN (LOGICAL) WITH w AS ({table}) SELECT COUNT(*) FROM {readers}"
        ).fetchall()
        return [line.strip() for (line,) in lines]

    with pytest.raises(runnel.ProgrammingError, match="refer to one another too often"):
        planned("RAND()", 20, 10)
    assert planned("1", 20, 10).count("Common table 1") == 1
    assert "Common table 1" not in planned("RAND()", 150, 1)


def test_the_side_of_each_of_many_joins_is_found_in_time_with_their_number() -> None:
    def calls(number: int) -> int:
        relation: Relation = Values(
            rows=((Literal(type=BIGINT, value=1),),), columns=(Field("a", BIGINT),)
        )
        one = relation
        for _ in range(number):
            relation = Join(kind=JoinKind.CROSS, left=relation, right=one)
        return _calls(lambda: choose_build_side(relation))

    assert calls(200) < 6 * calls(50)


def test_the_choice_of_sides_hears_the_time_out(con: runnel.Connection) -> None:
    plan: Any = con._session.prepare(
        _series("COUNT(*)", "JOIN GENERATE_SERIES(1, 3) AS t(v) ON t.v = s.v"), ()
    )
    looks: list[int] = []
    with within_time(lambda: looks.append(1)):
        choose_build_side(plan.logical)
    assert looks


_JOB = "SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1))"


@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE JOB k AS {_JOB}",
        "VERIFY JOB j",
        "ALTER JOB j RESUME",
    ],
)
def test_the_planning_of_a_job_hears_its_statement(
    con: runnel.Connection, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    con.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
    )
    con.execute(f"CREATE JOB j AS {_JOB}")
    con.execute("ALTER JOB j SUSPEND")
    plan_job = Session.plan_job
    cursor = con.cursor()

    def late(session: Session, *args: Any, **options: Any) -> Any:
        cursor.cancel()
        return plan_job(session, *args, **options)

    monkeypatch.setattr(Session, "plan_job", late)
    with pytest.raises(runnel.OperationalError) as caught:
        cursor.execute(sql).fetchall()
    assert caught.value.code is runnel.ErrorCode.CANCELLED


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_the_text_of_parts_that_can_fail_grows_with_their_number(word: str) -> None:
    """Each part that can fail stands twice in DuckDB's text, not twice for each one behind it."""

    def length(parts: int) -> int:
        condition = f" {word} ".join(f"a = a + {number}" for number in range(parts))
        return sum(
            len(line)
            for (line,) in con.execute(f"EXPLAIN SELECT a FROM t WHERE {condition}").fetchall()
        )

    with runnel.connect() as con:
        con.execute("CREATE MAPPING t (a BIGINT) TYPE DuckDB")
        assert length(16) < 2.5 * length(8)


def test_planning_of_many_columns_and_aggregates_is_linear(con: runnel.Connection) -> None:
    def calls(columns: int) -> int:
        names = [f"column_{number}" for number in range(columns)]
        con.execute(f"CREATE TABLE w{columns} ({', '.join(f'{name} BIGINT' for name in names)})")
        items = ", ".join(f"MIN({name}), AVG({name}), COUNT({name})" for name in names)
        return _calls(lambda: con.execute(f"SELECT {items} FROM w{columns}"))

    calls(5)
    assert calls(480) < 4.4 * calls(120)
