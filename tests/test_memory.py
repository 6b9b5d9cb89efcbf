"""Queries over several times the memory limit: measured in a process of their own, and compared
with DuckDB."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import runnel
from tests.effort import some

LIMIT = "16MB"
ROOM = {"group by": 250, "distinct": 220, "sort": 100, "join": 150, "window": 160, "except": 250}
"""MB by which the process may grow beyond what a small query needs: the limit, pages that
allocators keep, and batches on their way. Seen are 85, 149, 67, 78, 62 and 136; without a limit
620, 305, 115, 227, 286 and 410."""

ROWS = 3_000_000
FEWER = 1_500_000
"""Of what takes longer."""


def _series(rows: int) -> str:
    return (
        f"(SELECT v, v * 7919 % {rows} AS k, v % 1000 AS g "
        f"FROM TABLE(GENERATE_SERIES(1, {rows})) AS s(v))"
    )


SERIES, SHORTER = _series(ROWS), _series(FEWER)
CHILD = """
import sys
import runnel
def peak():
    # Not ru_maxrss, which begins with the peak of the process that started this one.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
con = runnel.connect(memory_limit=sys.argv[1], pushdown="off")
con.execute(sys.argv[3]).fetchall()
before = peak()
print(con.execute(sys.argv[2]).fetchall())
print((peak() - before) // 1024)
print(con._database.memory.spilled_bytes, con._database.memory.used)
con.close()
"""

QUERIES = {
    "group by": (
        (
            "SELECT COUNT(*), SUM(c), MAX(t) FROM (SELECT k, COUNT(*) AS c, SUM(v) AS t "
            f"FROM {SERIES} AS x GROUP BY k)"
        ),
        (ROWS, ROWS, ROWS),
    ),
    "distinct": (f"SELECT COUNT(DISTINCT k), COUNT(DISTINCT g) FROM {SERIES} AS x", (ROWS, 1000)),
    "sort": (
        (
            f"SELECT COUNT(*), SUM(k) FROM (SELECT k, g FROM {SERIES} AS x ORDER BY k DESC "
            f"LIMIT {ROWS} OFFSET 10)"
        ),
        (ROWS - 10, sum(range(ROWS - 10))),
    ),
    "join": (
        f"SELECT COUNT(*), SUM(a.v) FROM {SERIES} AS a JOIN {SERIES} AS b ON a.k = b.k",
        (ROWS, ROWS * (ROWS + 1) // 2),
    ),
    "window": (
        (
            "SELECT COUNT(*), SUM(r), MAX(t) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY g "
            "ORDER BY k) AS r, "
            f"SUM(v) OVER (PARTITION BY k) AS t FROM {SHORTER} AS x)"
        ),
        (FEWER, FEWER * (FEWER // 1000 + 1) // 2, FEWER),
    ),
    "except": (
        (
            f"SELECT COUNT(*) FROM (SELECT k FROM {SHORTER} AS a EXCEPT SELECT v - 1 "
            f"FROM {SHORTER} AS b WHERE g > 0)"
        ),
        (FEWER // 1000,),
    ),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", some(sorted(QUERIES), 2))
def test_a_query_over_many_times_the_limit(name: str) -> None:
    query, wanted = QUERIES[name]
    small = query.replace(str(ROWS), "2000").replace(str(FEWER), "2000")
    command = [sys.executable, "-c", CHILD, LIMIT, query, small]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows, growth, spilled = done.stdout.strip().split("\n")
    assert rows == str([wanted])
    assert 0 < int(growth) < ROOM[name]
    spilled_bytes, used = map(int, spilled.split())
    assert spilled_bytes > 5_000_000
    assert used == 0


def test_settings() -> None:
    with runnel.connect(memory_limit="1.5GB") as con:
        shown = dict(row[:2] for row in con.execute("SHOW ALL").fetchall())
        assert int(shown["memory_limit"]) == 1_500_000_000
        for text, size in (
            ("64MB", 64_000_000),
            ("64MiB", 1 << 26),
            ("1234567", 1_234_567),
            ("2000 kb", 2_000_000),
            ("0", 0),
        ):
            con.execute(f"SET memory_limit = '{text}'")
            assert con._database.memory.limit == size
        for wrong in ("much", "-1", "5XB", "1", "1000", "999 kB", "0.5MB"):
            with pytest.raises(runnel.ProgrammingError, match="wrong value") as caught:
                con.execute(f"SET memory_limit = '{wrong}'")
            assert "at least 1 MB" in (caught.value.hint or "")


def test_a_directory_that_is_missing(tmp_path: Any) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(runnel.ProgrammingError, match="folder that exists"):
        runnel.connect(temp_directory=missing)
    with runnel.connect() as con:
        with pytest.raises(runnel.ProgrammingError, match="missing") as refused:
            con.execute(f"SET temp_directory = '{missing}'")
        assert "folder that exists" in str(refused.value)
        (tmp_path / "file").touch()
        with pytest.raises(runnel.ProgrammingError, match="folder that exists"):
            con.execute(f"SET temp_directory = '{tmp_path / 'file'}'")
        (tmp_path / "file").unlink()


def test_a_directory_that_is_gone(tmp_path: Any) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with runnel.connect(memory_limit=1_000_000, temp_directory=str(gone), pushdown="off") as con:
        gone.rmdir()
        with pytest.raises(
            runnel.OperationalError, match="rows beyond memory_limit can't be written"
        ) as caught:
            con.execute(
                "SELECT v, COUNT(*) FROM TABLE(GENERATE_SERIES(1, 300000)) AS t(v) GROUP BY v"
            ).fetchall()
        assert "temp_directory" in str(caught.value)
        con.execute(f"SET temp_directory = '{tmp_path}'")
        rows = con.execute(
            "SELECT v, COUNT(*) FROM TABLE(GENERATE_SERIES(1, 300000)) AS t(v) GROUP BY v"
        ).fetchall()
        assert len(rows) == 300_000
        assert con._database.memory.used == 0
        assert list(tmp_path.iterdir()) == []


def test_a_limit_below_what_duckdb_can_open_with(tmp_path: Any) -> None:
    with runnel.connect(memory_limit=1_000_000) as con:
        con.execute(
            "CREATE MAPPING d (a BIGINT) TYPE DuckDB "
            f"OPTIONS ('path'='{tmp_path / 'd.duckdb'}', 'create'='true')"
        )
        con.execute("INSERT INTO d VALUES (1), (2)")
        assert con.execute("SELECT SUM(a) FROM d").fetchall() == [(3,)]
        assert con.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_name = 'd'"
        ).fetchall() == [("d",)]
        con.execute("SET memory_limit = '1MB'")
        assert con.execute("SELECT MAX(a) FROM d").fetchall() == [(2,)]


def test_a_query_that_is_given_up_leaves_nothing() -> None:
    with runnel.connect(memory_limit=1_000_000, pushdown="off") as con:
        cursor = con.execute("SELECT v FROM TABLE(GENERATE_SERIES(1, 400000)) AS t(v) ORDER BY -v")
        assert cursor.fetchone() == (400_000,)
        cursor.close()
        for job in con.jobs():
            job.wait()
        assert con._database.memory.spilled_bytes
        assert con._database.memory.used == 0


def test_a_cursor_over_a_long_series_holds_little() -> None:
    with runnel.connect() as con:
        cursor = con.execute("SELECT v, v * 2 FROM TABLE(GENERATE_SERIES(1, 1000000000)) AS t(v)")
        assert cursor.fetchmany(3) == [(1, 2), (2, 4), (3, 6)]
        (job,) = con.jobs()
        for _ in range(200_000):
            cursor.fetchone()
        assert len(job.results) <= job.results.capacity
        assert job.rows_in < 30_000_000
        cursor.close()
        assert job.wait(10)


READING = """
import sys
import runnel
def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 // 1_000_000
con = runnel.connect()
cursor = con.execute("SELECT v, v * 2 FROM TABLE(GENERATE_SERIES(1, 1000000000)) AS t(v)")
rows = batches = 0
most, before = 0, None
reader = cursor.fetch_record_batch() if sys.argv[1] == "Arrow" else None
while rows < int(sys.argv[2]):
    rows += reader.read_next_batch().num_rows if reader else len(cursor.fetchmany(10_000))
    batches += 1
    if before is None and rows >= 500_000:
        before = held()
    if before is not None and batches % 20 == 0:
        most = max(most, held() - before)
print(most)
cursor.close()
con.close()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("way", "rows"), [("Arrow", 20_000_000), ("tuples", 3_000_000)])
def test_reading_a_long_series_needs_no_more_memory_the_longer_it_takes(
    way: str, rows: int
) -> None:
    """The rows that are read would take 320 MB as Arrow, and as tuples more."""
    done = subprocess.run(
        [sys.executable, "-c", READING, way, str(rows)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 120


RECURSION = f"""
WITH RECURSIVE r(x) AS (
  SELECT 0 UNION ALL SELECT e.k + 1 FROM r JOIN {SERIES} AS e ON e.k = r.x WHERE r.x < 50
) SELECT COUNT(*), MAX(x) FROM r"""
"""What a recursion joins with stays in memory: each round needs the whole of it."""


def test_a_recursion_loses_no_rows_for_want_of_memory() -> None:
    query = RECURSION.replace(str(ROWS), "200000")
    with runnel.connect(memory_limit="10MB", pushdown="off") as con:
        assert con.execute(query).fetchall() == [(51, 50)]
    with runnel.connect(memory_limit="1MB", pushdown="off") as con:
        with pytest.raises(
            runnel.OperationalError,
            match="the rows that a recursion joins need more than the memory_limit",
        ):
            con.execute(query).fetchall()
        assert con._database.memory.used == 0


def test_aggregates_over_frames_hold_their_groups_whatever_the_limit() -> None:
    query = (
        "SELECT STRING_AGG(t, '+') OVER (ORDER BY v ROWS 1 PRECEDING), "
        "SUM(DISTINCT v) OVER (ORDER BY v ROWS 1 PRECEDING) "
        "FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c')) AS x(v, t)"
    )
    with runnel.connect(memory_limit=1_000_000) as con:
        assert con.execute(query).fetchall() == [("a", 1), ("a+b", 3), ("b+c", 5)]
        assert con._database.memory.used == 0


def test_duckdb_has_half_of_the_limit_and_its_own_without_one() -> None:
    def limit_of_duckdb() -> float:
        with con._database.kernel().cursor() as cursor:
            (text,) = cursor.execute("SELECT current_setting('memory_limit')").fetchone() or ("",)
        number, unit = str(text).split()
        return float(number) * 2 ** (10 * ["bytes", "KiB", "MiB", "GiB", "TiB"].index(unit))

    with runnel.connect(memory_limit=0) as con:
        own = limit_of_duckdb()
        con.execute("SET memory_limit = '64MiB'")
        assert limit_of_duckdb() == 32 << 20
        con.execute("SET memory_limit = 0")
        assert limit_of_duckdb() == own
