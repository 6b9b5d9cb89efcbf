"""Planning takes time in proportion to the statement, and no longer than the statement may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import runnel
from runnel import database
from runnel.planner.bind_select import SelectBinder
from runnel.planner.rules import RULES, apply
from runnel.relation import walk
from runnel.streams import ImposeOrder


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        yield connection


def _doublings(number: int) -> str:
    tables = [f"q{i} AS (SELECT * FROM q{i - 1} UNION ALL SELECT * FROM q{i - 1})" for i in range(1, number + 1)]
    return f"WITH q0 AS (SELECT 1 AS a), {', '.join(tables)} SELECT COUNT(*) FROM q{number}"


def test_a_common_table_is_bound_once(con: runnel.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
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
        "SELECT x.a, y.b, (SELECT MAX(b) FROM t WHERE t.a < x.a), (SELECT COUNT(*) FROM u WHERE u.a IN (SELECT a FROM t z)) "
        "FROM t x JOIN t AS y(c, b) ON x.a = y.c ORDER BY x.a"
    )
    assert con.execute(sql).fetchall() == [(1, 10, None, 2), (2, 20, 10, 2), (3, 30, 20, 2)]
    nested = (
        "SELECT v, (WITH w AS (SELECT v * 2 AS d) SELECT (SELECT d FROM w) + (SELECT MAX(x.d + y.d) FROM w x, w y)) "
        "FROM (VALUES (1), (5)) o(v) ORDER BY v"
    )
    assert con.execute(nested).fetchall() == [(1, 6), (5, 30)]


def test_each_use_of_a_stream_has_a_watermark_of_its_own(con: runnel.Connection) -> None:
    con.execute(
        "CREATE VIEW s AS SELECT * FROM TABLE(IMPOSE_ORDER((SELECT v, TO_TIMESTAMP(v) AS t "
        "FROM TABLE(GENERATE_STREAM(1))), DESCRIPTOR(t), INTERVAL '1' SECOND))"
    )
    plan: Any = con._database.prepare("WITH c AS (SELECT * FROM s) SELECT * FROM c UNION ALL SELECT * FROM c", ())
    numbers = [item.watermark for item in walk(plan.logical) if isinstance(item, ImposeOrder)]
    assert len(numbers) == len(set(numbers)) == 2


def test_rules_look_at_the_time(con: runnel.Connection) -> None:
    plan: Any = con._database.prepare("SELECT 1 FROM (VALUES (1)) t(a) WHERE a > 0", ())
    looks: list[int] = []
    apply(plan.logical, check=lambda: looks.append(1))
    assert len(looks) >= len(RULES)


def test_the_time_out_ends_planning(con: runnel.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]

    def passing() -> int:
        now[0] += 1_000_000_000
        return now[0]

    monkeypatch.setattr(database, "monotonic_ns", passing)
    with pytest.raises(runnel.OperationalError, match=r"took longer than its time-out of 4 s"):
        con.execute(_doublings(5), timeout=4)
    with pytest.raises(runnel.OperationalError, match=r"took longer than its time-out of 1 s"):
        con.cursor().executemany("SELECT ?", [(1,), (2,)], timeout=1)
    assert con.jobs() == []
    monkeypatch.undo()
    assert con.execute(_doublings(5), timeout=60).fetchall() == [(32,)]
