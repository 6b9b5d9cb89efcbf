"""LATE DATA INTO of joins of streams."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.runtime.simulation import Simulation, SimulationOptions
from runnel.testing.rows import rows_of
from tests.effort import some
from tests.streams.random_queries.simulated import late_rows
from tests.streams.scripted_table import ScriptedTable

SCHEMA = pa.schema([("__key", pa.int64()), ("k", pa.int64()), ("t", pa.int64())])
MAP = "TYPE IMap OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
JOIN = "SELECT {} FROM a {} JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 3 AND a.t + 2"
AS_OF = "SELECT {} FROM a ASOF {} JOIN b ON a.k = b.k AND a.t >= b.t"


@pytest.fixture
def con() -> Iterator[runnel.Connection]:
    with runnel.connect() as connection:
        connection.execute(f"CREATE MAPPING late (__key BIGINT, k BIGINT, t BIGINT) {MAP}")
        yield connection


def feed(rng: random.Random, first: int) -> list[pa.RecordBatch]:
    """Rows of which some are far behind, in batches."""
    rows = []
    for number in range(60):
        back = rng.randint(10, 40) if rng.random() < 0.15 else rng.randint(0, 3)
        rows.append((first + number, rng.randint(1, 3), number - back))
    batches = []
    while rows:
        size = rng.randint(1, 9)
        taken, rows = rows[:size], rows[size:]
        columns = [pa.array(column, pa.int64()) for column in zip(*taken, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    return batches


def simulated(
    con: runnel.Connection, sql: str, seed: int, parallelism: int
) -> tuple[list[Any], int]:
    con.execute("DELETE FROM late")
    plan: Any = con._session.prepare(sql, ())
    run = Simulation(plan.dag(parallelism), seed, SimulationOptions(parallelism=parallelism))
    rows = rows_of(run.run())
    assert run.error is None, run.error
    return rows, late_rows(run)


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "FULL"])
def test_what_is_missing_of_a_join_is_of_late_rows(con: runnel.Connection, kind: str) -> None:
    """With the late rows that were written the rest of the result could be worked out, and no more
    are written than that."""
    seen = missed = 0
    for seed in some(range(25), 3):
        rng = random.Random(f"{kind} {seed}")
        batches = {name: feed(rng, first) for name, first in (("a", 0), ("b", 1_000))}
        for name, script in batches.items():
            con._register(name, ScriptedTable(name, SCHEMA, [script], EventTime(2, 0, 0)))
        sql = JOIN.format("a.__key, b.__key", kind)
        found, count = simulated(con, f"{sql} LATE DATA INTO late", seed, rng.choice((1, 2)))
        written = con.execute("SELECT __key, k, t FROM late").fetchall()
        assert len(written) == count
        everything = {
            row for script in batches.values() for batch in script for row in rows_of(batch)
        }
        assert set(written) <= everything
        for name, script in batches.items():
            con.unregister(name)
            con.register(name, pa.Table.from_batches(script))
        expected = set(con.execute(sql).fetchall())
        for name in batches:
            con.unregister(name)
        late = {row[0] for row in written}
        pairs = {row for row in expected if None not in row}
        lost = pairs - set(found)
        assert all(left in late or right in late for left, right in lost)
        assert {row for row in found if None not in row} <= pairs
        for row in (item for item in found if None in item and item not in expected):
            partners = {item for pair in lost for item in pair if row[0] in pair or row[1] in pair}
            assert partners & late, "a row comes alone only if itself or its partner was late"
        seen, missed = seen + count, missed + len(lost)
    assert seen > 20 and missed > 5, "nothing was late: this proves nothing"


NEAR = "b.t BETWEEN a.t - 3 AND a.t + 2"
CONDITIONS = {
    f"EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND {NEAR})": f"a.k = b.k AND {NEAR}",
    f"NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND {NEAR})": f"a.k = b.k AND {NEAR}",
    f"a.k IN (SELECT b.k FROM b WHERE {NEAR})": f"a.k = b.k AND {NEAR}",
    "a.t IN (SELECT b.t AS k FROM b)": "a.t = b.t",
    "a.t = ANY (SELECT b.t + 1 AS t FROM b)": "a.t = b.t + 1",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_a_subquery_missed_is_of_late_rows(con: runnel.Connection, condition: str) -> None:
    """A row that is in the result of a stream or of tables only is late, or has a partner that
    is."""
    sql = f"SELECT a.__key FROM a WHERE {condition}"
    seen = wrong = 0
    for seed in some(range(25), 3):
        rng = random.Random(f"{condition} {seed}")
        batches = {name: feed(rng, first) for name, first in (("a", 0), ("b", 1_000))}
        for name, script in batches.items():
            con._register(name, ScriptedTable(name, SCHEMA, [script], EventTime(2, 0, 0)))
        found, count = simulated(con, f"{sql} LATE DATA INTO late", seed, rng.choice((1, 2)))
        written = con.execute("SELECT __key, k, t FROM late").fetchall()
        assert len(written) == count
        assert set(written) <= {
            row for script in batches.values() for batch in script for row in rows_of(batch)
        }
        for name, script in batches.items():
            con.unregister(name)
            con.register(name, pa.Table.from_batches(script))
        expected = con.execute(sql).fetchall()
        pairs = con.execute(
            f"SELECT a.__key, b.__key FROM a JOIN b ON {CONDITIONS[condition]}"
        ).fetchall()
        for name in batches:
            con.unregister(name)
        late = {row[0] for row in written}
        for (key,) in set(found) ^ set(expected):
            assert late & {key, *(right for left, right in pairs if left == key)}
            wrong += 1
        assert len(found) == len(set(found))
        seen += count
    assert seen > 20 and wrong, "nothing was late: this proves nothing"


@pytest.mark.parametrize("kind", ["", "LEFT"])
def test_late_rows_and_versions_of_an_as_of_join(con: runnel.Connection, kind: str) -> None:
    seen = 0
    for seed in some(range(20), 3):
        rng = random.Random(f"as of {kind} {seed}")
        for name, first in (("a", 0), ("b", 1_000)):
            con._register(name, ScriptedTable(name, SCHEMA, [feed(rng, first)], EventTime(2, 0, 0)))
        sql = f"{AS_OF.format('a.__key, b.__key', kind)} LATE DATA INTO late"
        found, count = simulated(con, sql, seed, rng.choice((1, 2)))
        written = con.execute("SELECT __key FROM late").fetchall()
        assert len(written) == count and found
        seen += len({key >= 1_000 for (key,) in written}) == 2
    assert seen > 3, "rows of both sides are late somewhere"


def pushed(con: runnel.Connection) -> tuple[runnel.StreamWriter, runnel.StreamWriter]:
    first = con.register_stream(
        "a", {"k": "BIGINT", "t": "BIGINT", "v": "VARCHAR"}, time_column="t", max_disorder=0
    )
    second = con.register_stream(
        "b", {"k": "BIGINT", "t": "BIGINT", "w": "INTEGER"}, time_column="t", max_disorder=0
    )
    return first, second


def test_columns_of_the_other_side_are_null(con: runnel.Connection, tmp_path: Any) -> None:
    first, second = pushed(con)
    con.execute(
        "CREATE MAPPING both (w BIGINT, t BIGINT, k BIGINT, V VARCHAR) "
        f"TYPE File OPTIONS ('path'='{tmp_path}/x', 'format'='json')"
    )
    sql = (
        "SELECT a.k, b.w FROM a LEFT JOIN b ON a.k = b.k AND b.t BETWEEN a.t AND a.t + 5 "
        "WHERE a.v <> 'no' LATE DATA INTO both"
    )
    with con.execute(sql) as cursor:
        first.write([(1, 10, "x")])
        second.write([(1, 11, 5)])
        assert cursor.fetchone() == (1, 5)
        first.write([(2, 100, "y")])
        second.write([(2, 100, 6)])
        assert cursor.fetchone() == (2, 6)
        first.write([(1, 12, "late"), (1, 13, "no"), (3, 101, "z")])
        second.write([(1, 7, 9), (3, 101, 8)])
        first.close()
        second.close()
        assert sorted(cursor.fetchall()) == [(1, None), (3, 8)]
    late = con.execute("SELECT k, t, v, w FROM both ORDER BY t").fetchall()
    assert late == [(1, 7, None, 9), (1, 12, "late", None)], (
        "a row that WHERE leaves out isn't late"
    )


def test_each_stream_of_several_joins_is_told_once(con: runnel.Connection) -> None:
    for name in "abc":
        con._register(
            name,
            ScriptedTable(
                name, SCHEMA, [feed(random.Random(name), ord(name) * 1_000)], EventTime(2, 0, 0)
            ),
        )
    sql = (
        "SELECT a.t FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 3 AND a.t + 2 "
        "JOIN c ON c.k = b.k AND c.t BETWEEN a.t - 3 AND a.t + 2 LATE DATA INTO late"
    )
    plan: Any = con._session.prepare(sql, ())
    lines = [line for (line,) in con.execute(f"EXPLAIN (PHYSICAL) {sql}").fetchall()]
    assert sum("late rows: late" in line for line in lines) == 2
    edges = [edge for edge in plan.dag(2).edges if edge.target.startswith("late rows")]
    assert [(edge.source, edge.source_ordinal) for edge in edges] == [
        ("join", 1),
        ("join", 2),
        ("join 2", 1),
    ]
    simulated(con, sql, 1, 2)
    assert {key // 1_000 for (key,) in con.execute("SELECT __key FROM late").fetchall()} <= {
        97,
        98,
        99,
    }


REFUSED = {
    "SELECT * FROM a JOIN b ON a.k = b.k AND a.t = b.t LATE DATA INTO other": (
        'have no column "__key", "name"'
    ),
    "SELECT * FROM a JOIN b ON a.k = b.k AND a.t = b.t LATE DATA INTO keyed": (
        'its key "__key" is a column of one only'
    ),
    "SELECT * FROM a JOIN d ON a.k = d.x LATE DATA INTO late": (
        "a stream that is joined with a table"
    ),
    "SELECT * FROM a JOIN b ON a.k = b.k AND a.t = b.t EMIT EVERY INTERVAL '1' SECOND": (
        "EMIT EVERY and ALLOWED LATENESS"
    ),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_does_not_fit_is_refused(con: runnel.Connection, sql: str) -> None:
    pushed(con)
    con.register("d", pa.table({"x": [1]}))
    con.execute(f"CREATE MAPPING other (__key BIGINT, name VARCHAR, t BIGINT) {MAP}")
    con.execute(f"CREATE MAPPING keyed (__key BIGINT, k BIGINT) {MAP}")
    if "keyed" in sql:
        sql = sql.replace("FROM a", "FROM (SELECT k AS __key, k, t FROM a) a")
    with pytest.raises(
        runnel.Error,
        match=REFUSED[sql.replace("FROM (SELECT k AS __key, k, t FROM a) a", "FROM a")],
    ) as caught:
        con.execute(sql)
    assert isinstance(caught.value, (runnel.NotSupportedError, runnel.ProgrammingError))
    assert caught.value.hint and caught.value.position is not None


@pytest.mark.parametrize(
    "source",
    [
        "a, b WHERE a.t = b.t",
        "a NATURAL JOIN b",
        "a RIGHT JOIN b ON a.t = b.t AND b.k IN (SELECT x FROM d)",
        "(SELECT x, a.t, a.v FROM d JOIN a ON d.x = a.k) e JOIN b ON e.t = b.t",
        "d JOIN (a JOIN b ON a.t = b.t) ON d.x = a.k LIMIT 5",
    ],
)
def test_joins_of_every_form_are_told(con: runnel.Connection, source: str, tmp_path: Any) -> None:
    pushed(con)
    con.register("d", pa.table({"x": [1]}))
    con.execute(
        "CREATE MAPPING plain (t BIGINT, w BIGINT) TYPE File "
        f"OPTIONS ('path'='{tmp_path}/x', 'format'='csv')"
    )
    lines = [
        line
        for (line,) in con.execute(
            f"EXPLAIN (PHYSICAL) SELECT 1 FROM {source} LATE DATA INTO plain"
        ).fetchall()
    ]
    assert sum("late rows: plain" in line for line in lines) == 1
    # The columns that only late rows need are read, too.
    assert any("Scan b" in line and " w" in line for line in lines)


def test_over_tables_it_changes_nothing(con: runnel.Connection) -> None:
    for name in "ab":
        con.register(name, pa.table({"__key": [1, 2], "k": [1, 2], "t": [3, 4]}))
    assert con.execute(f"{JOIN.format('a.k', 'FULL')} LATE DATA INTO late").fetchall() == [
        (1,),
        (2,),
    ]
    assert con.execute("SELECT COUNT(*) FROM late").fetchall() == [(0,)]
