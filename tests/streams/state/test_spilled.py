"""State that memory has no room for goes to files: the results are the same, also of jobs that are
killed and restored; the memory stays bounded, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO

import duckdb
import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.connector import EventTimeMark
from runnel.storage import spill
from runnel.storage.memory_budget import Memory
from tests.effort import ALL, crossed, some
from tests.snapshots.crashes import Crashes, tried
from tests.streams.eager_memory import spill_eagerly
from tests.streams.random_queries.generated import Bench
from tests.streams.scripted_table import ScriptedTable
from tests.waiting import eventually

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("s", pa.string())])
LIMIT = 1_000_000
COUNT = 30_000
BLOCKS, PLANS = 8, 15


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("block", some(range(BLOCKS), 2))
def test_random_queries_that_spill_crash_and_come_back(
    bench: Bench, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restored with other numbers of processors; what is in files is in the snapshots."""
    memory = spill_eagerly(monkeypatch)
    monkeypatch.setattr(Crashes, "memory", memory)
    refused: Counter[str] = Counter()
    found = [
        tried(bench, seed, refused)
        for seed in range(1_000 + block * PLANS, 1_000 + (block + 1) * PLANS)
    ]
    assert [message for message, _ in found if message is not None] == []
    assert sum(restored for _, restored in found) > PLANS // 2
    assert memory.spilled_bytes > 0
    assert memory.used == 0, "all is given back"


def rows(first: int, count: int, apart: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    keys = pa.array([number * 7 % 15_013 + apart for number in numbers])
    texts = pa.array([f"row {number * 13 % 20_011:060}" for number in numbers])
    return pa.RecordBatch.from_arrays([pa.array(numbers), keys, texts], schema=SCHEMA)


@cache
def script_of(number: int) -> tuple[pa.RecordBatch, ...]:
    return tuple(rows(first, 2_000, number) for first in range(0, COUNT, 2_000))


def streams(con: runnel.Connection) -> None:
    for number, name in enumerate("ab"):
        con._register(
            name, ScriptedTable(name, SCHEMA, [list(script_of(number))], EventTime(0, 0, 0))
        )


def table(number: int) -> pa.Table:
    return pa.Table.from_batches(script_of(number))


SPILLING = {
    "tumbling": (
        (
            "SELECT s, window_end, COUNT(*), MIN(k) "
            "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) GROUP BY s, window_end"
        ),
        "SELECT s, t // 15000 * 15000 + 15000 AS e, COUNT(*), MIN(k) FROM a GROUP BY ALL",
    ),
    "distinct": (
        (
            "SELECT window_end, k % 3, COUNT(DISTINCT s), COUNT(*) "
            "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) "
            "GROUP BY window_end, k % 3"
        ),
        (
            "SELECT t // 15000 * 15000 + 15000 AS e, k % 3 AS m, COUNT(DISTINCT s), COUNT(*) "
            "FROM a GROUP BY ALL"
        ),
    ),
    "sliding": (
        (
            "SELECT s, window_end, COUNT(*) FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), 20000, 10000)) "
            "GROUP BY s, window_end"
        ),
        (
            "SELECT s, e, COUNT(*) FROM a, (SELECT UNNEST(range(10000, 50000, 10000)) AS e) "
            "WHERE t >= e - 20000 AND t < e "
            "GROUP BY ALL"
        ),
    ),
    "sliding, texts": (
        (
            "SELECT s, window_end, MAX(s) FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), 20000, 10000)) "
            "GROUP BY s, window_end"
        ),
        (
            "SELECT s, e, MAX(s) FROM a, (SELECT UNNEST(range(10000, 50000, 10000)) AS e) "
            "WHERE t >= e - 20000 AND t < e "
            "GROUP BY ALL"
        ),
    ),
    "sliding, distinct": (
        (
            "SELECT window_end, COUNT(DISTINCT s) FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), 20000, "
            "10000)) GROUP BY window_end"
        ),
        "SELECT e, COUNT(DISTINCT s) FROM a, (SELECT UNNEST(range(10000, 50000, 10000)) AS e) "
        "WHERE t >= e - 20000 AND t < e GROUP BY ALL",
    ),
    "cumulating": (
        (
            "SELECT s, window_end, COUNT(*) FROM TABLE(CUMULATE(TABLE a, DESCRIPTOR(t), 10000, "
            "30000)) GROUP BY s, window_end"
        ),
        (
            "SELECT s, e, COUNT(*) FROM a, (SELECT UNNEST(range(10000, 40000, 10000)) AS e) "
            "WHERE t < e GROUP BY ALL"
        ),
    ),
    "sessions": (
        (
            "SELECT s, window_end, COUNT(*), MAX(k) "
            "FROM TABLE(SESSION(TABLE a PARTITION BY s, DESCRIPTOR(t), 20012)) "
            "GROUP BY s, window_end"
        ),
        "SELECT s, MAX(t) + 20012, COUNT(*), MAX(k) FROM a GROUP BY s",
    ),
    "tumbling, lateness": (
        (
            "SELECT s, window_end, COUNT(*), MIN(k) "
            "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) GROUP BY s, window_end "
            "ALLOWED LATENESS 10000"
        ),
        "SELECT s, t // 15000 * 15000 + 15000 AS e, COUNT(*), MIN(k) FROM a GROUP BY ALL",
    ),
    "tumbling, early": (
        (
            "SELECT s, window_end, COUNT(*), COUNT(DISTINCT k) "
            "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) "
            "GROUP BY s, window_end EMIT EVERY INTERVAL '1' DAY"
        ),
        (
            "SELECT s, t // 15000 * 15000 + 15000 AS e, COUNT(*), COUNT(DISTINCT k) FROM a "
            "GROUP BY ALL"
        ),
    ),
    "sessions, lateness": (
        (
            "SELECT s, window_end, COUNT(*), MAX(k) "
            "FROM TABLE(SESSION(TABLE a PARTITION BY s, DESCRIPTOR(t), 20012)) "
            "GROUP BY s, window_end ALLOWED LATENESS 2500"
        ),
        "SELECT s, MAX(t) + 20012, COUNT(*), MAX(k) FROM a GROUP BY s",
    ),
    "rows of sessions": (
        (
            "SELECT k, s, window_start FROM TABLE(SESSION(TABLE a PARTITION BY s, DESCRIPTOR(t), "
            "20012))"
        ),
        "SELECT k, s, MIN(t) OVER (PARTITION BY s) FROM a",
    ),
    "join": (
        (
            "SELECT a.k, b.k, a.s FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 50000 AND a.t + "
            "50000"
        ),
        "SELECT a.k, b.k, a.s FROM a JOIN b ON a.k = b.k",
    ),
    "outer join": (
        (
            "SELECT a.k, b.k, a.s, b.s FROM a FULL JOIN b ON a.s = b.s AND a.k = b.k AND b.t "
            "BETWEEN a.t - 50000 AND a.t + 50000"
        ),
        "SELECT a.k, b.k, a.s, b.s FROM a FULL JOIN b ON a.s = b.s AND a.k = b.k",
    ),
    "join without bounds": (
        "SELECT a.k, b.s FROM a JOIN b ON a.k = b.k OPTIONS ('allowUnboundedState'='true')",
        "SELECT a.k, b.s FROM a JOIN b ON a.k = b.k",
    ),
    "not exists": (
        (
            "SELECT a.k, a.s FROM a WHERE NOT EXISTS (SELECT 1 FROM b "
            "WHERE a.k = b.k - 1 AND a.s = b.s "
            "AND b.t BETWEEN a.t - 50000 AND a.t - 1)"
        ),
        (
            "SELECT a.k, a.s FROM a WHERE NOT EXISTS (SELECT 1 FROM b "
            "WHERE a.k = b.k - 1 AND a.s = b.s AND b.t < a.t)"
        ),
    ),
    "not in": (
        (
            "SELECT x.t, x.s FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) x WHERE x.s NOT IN "
            "(SELECT y.s FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), 15000)) y "
            "WHERE y.window_end = x.window_end AND y.k > 4500)"
        ),
        "SELECT a.t, a.s FROM a WHERE NOT EXISTS "
        "(SELECT 1 FROM b WHERE a.s = b.s AND a.t // 15000 = b.t // 15000 AND b.k > 4500)",
    ),
    "in as a value": (
        (
            "SELECT x.t, NULLIF(x.s, 'row 0') IN "
            "(SELECT NULLIF(y.s, 'row 1') FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), 1000)) y "
            "WHERE y.window_end = x.window_end) "
            "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 1000)) x"
        ),
        "SELECT t, TRUE FROM a",
    ),
    "join of windows": (
        (
            "SELECT x.k, y.s FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) x "
            "JOIN TABLE(TUMBLE(TABLE b, DESCRIPTOR(t), "
            "15000)) y ON x.window_end = y.window_end AND x.k = y.k"
        ),
        "SELECT a.k, b.s FROM a JOIN b ON a.k = b.k AND a.t // 15000 = b.t // 15000",
    ),
    "as of": (
        "SELECT a.t, a.k, b.s FROM a ASOF LEFT JOIN b ON a.k = b.k - 1 AND a.t >= b.t",
        "SELECT a.t, a.k, b.s FROM a ASOF LEFT JOIN b ON a.k = b.k - 1 AND a.t >= b.t",
    ),
    "OVER windows": (
        "SELECT t, s, ROW_NUMBER() OVER (PARTITION BY window_end, s ORDER BY t) "
        "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000))",
        "SELECT t, s, ROW_NUMBER() OVER (PARTITION BY t // 15000, s ORDER BY t) FROM a",
    ),
    "first rows of windows": (
        "SELECT t, s FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 15000)) "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_end, k % 4500 ORDER BY s, t) <= 2",
        (
            "SELECT t, s FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY t // 15000, k % 4500 "
            "ORDER BY s, t) <= 2"
        ),
    ),
    "OVER event time": (
        (
            "SELECT t, MAX(s) OVER (ORDER BY t RANGE 300 PRECEDING) "
            "FROM TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(t), 25000))"
        ),
        "SELECT t, MAX(s) OVER (ORDER BY t RANGE 300 PRECEDING) FROM a",
    ),
    "ORDER BY event time": (
        "SELECT t, s FROM TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(t), 25000)) ORDER BY t",
        "SELECT t, s FROM a",
    ),
}


@pytest.mark.parametrize(("name", "parallelism"), crossed(SPILLING, [1, 2]))
def test_gives_what_tables_give(name: str, parallelism: int) -> None:
    """Several times what may be in memory."""
    sql, over_tables = SPILLING[name]
    with duckdb.connect() as oracle:
        for number, given in enumerate("ab"):
            oracle.register(given, table(number))
        expected = Counter(oracle.execute(over_tables).fetchall())
    with runnel.connect(query_parallelism=parallelism, memory_limit=LIMIT) as con:
        streams(con)
        found = con.execute(sql, timeout=300).fetchall()
        memory = con._database.memory
        assert memory.spilled_bytes > LIMIT
        assert memory.used == 0
    assert Counter(found) == expected
    if name.startswith("ORDER"):
        assert [t for t, _ in found] == sorted(t for t, _ in found)


def test_groups_without_a_session_come_too() -> None:
    """Those of rows without a time, which end with the stream."""
    script = [
        pa.record_batch(
            [
                pa.array([None if i % 10 == 0 else i for i in range(first, first + 2_000)]),
                *batch.columns[1:],
            ],
            SCHEMA,
        )
        for first in range(0, 10_000, 2_000)
        for batch in [rows(first, 2_000, 0)]
    ]
    with runnel.connect(query_parallelism=1, memory_limit=LIMIT) as con:
        con._register("a", ScriptedTable("a", SCHEMA, [script], EventTime(0, 0, 0)))
        sql = (
            "SELECT k, window_end, COUNT(*), MAX(s) "
            "FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(t), 100000)) "
            "GROUP BY k, window_end"
        )
        found = con.execute(sql, timeout=120).fetchall()
        assert con._database.memory.spilled_bytes > 0
    assert len(found) == 10_000
    assert sum(end is None for _, end, _, _ in found) == 1_000


def test_many_sessions_that_end_while_others_go_on() -> None:
    """So many that the numbers of sessions are dealt out anew, while results are still being made
    of files."""
    count, gap = 150_000, 30_000
    script = [
        rows(first, 5_000, 0).set_column(1, "k", pa.array(range(first, first + 5_000)))
        for first in range(0, count, 5_000)
    ]
    with runnel.connect(query_parallelism=1, memory_limit=LIMIT) as con:
        con._register("a", ScriptedTable("a", SCHEMA, [script], EventTime(0, 0, 0)))
        sql = (
            "SELECT k, window_end, COUNT(*), MAX(s) "
            f"FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(t), {gap})) "
            "GROUP BY k, window_end"
        )
        found = con.execute(sql, timeout=300).fetchall()
        assert con._database.memory.spilled_bytes > LIMIT
    expected = [
        (k, k + gap, 1, text)
        for batch in script
        for k, text in zip(batch[1].to_pylist(), batch[2].to_pylist(), strict=True)
    ]
    assert sorted(found) == expected


def test_a_late_row_is_in_no_window_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not in one that had no rows when the watermark passed it, while something was in
    files."""
    schema = pa.schema([("t", pa.int64()), ("k", pa.int64())])

    def batch(*times: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.array(times), pa.array([1] * len(times))], schema=schema
        )

    memory = spill_eagerly(monkeypatch)
    script = [
        batch(1, 300),
        EventTimeMark(20),
        batch(300),
        EventTimeMark(100),
        batch(97),
        EventTimeMark(400),
    ]
    with runnel.connect(query_parallelism=1) as con:
        monkeypatch.setattr(con._database.jobs, "memory", memory)
        con._register("a", ScriptedTable("a", schema, [script], EventTime(0, 400, 0)))
        sql = (
            "SELECT window_end, COUNT(*) FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), 10, 5)) "
            "GROUP BY window_end"
        )
        found = con.execute(sql, timeout=60).fetchall()
    assert sorted(found) == [(5, 1), (10, 1), (105, 1), (305, 2), (310, 2)]
    assert memory.spilled_bytes > 0


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="the system doesn't tell what is mapped"
)
def test_few_files_are_mapped_at_once() -> None:
    """A process may map some 65,000; a window of many frames has groups of each frame in each
    leaf."""

    def mapped() -> int:
        with Path("/proc/self/maps").open() as file:
            return sum(1 for _ in file)

    columns = [
        (first, [number * 7_919 % 5_003 for number in range(first, first + 10_000)])
        for first in range(0, 60_000, 10_000)
    ]
    script = [
        pa.RecordBatch.from_arrays(
            [pa.array(range(first, first + 10_000)), pa.array(keys)], names=["t", "k"]
        )
        for first, keys in columns
    ]
    with runnel.connect(query_parallelism=1, memory_limit=1_000_000) as con:
        con._register("a", ScriptedTable("a", script[0].schema, [script], EventTime(0, 0, 0)))
        before = mapped()
        sql = (
            "SELECT k, window_end, COUNT(*), MAX(t) "
            "FROM TABLE(HOP(TABLE a, DESCRIPTOR(t), 20000, 1000)) GROUP BY k, window_end"
        )
        cursor = con.execute(sql, timeout=300)
        most = max(mapped() for _ in cursor.fetch_record_batch())
        assert con._database.memory.spilled_bytes > 10_000_000
    assert most - before < 1_300


BOUNDED = """
import sys
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import runnel
from runnel.catalog import EventTime
from tests.streams.scripted_table import ScriptedTable

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("s", pa.string())])


def rows(first, count):
    t = np.arange(first, first + count)
    k = pa.array(t * 7_919 % 10_000_019)
    texts = pc.binary_join_element_wise(
        "a rather long text of which there is one for each key ", k.cast(pa.string()), ""
    )
    return pa.RecordBatch.from_arrays([pa.array(t), k, texts], schema=SCHEMA)


class Script:
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count // 20_000

    def __getitem__(self, i):
        return rows(i * 20_000, 20_000)


count = int(sys.argv[2])
with runnel.connect(query_parallelism=1, memory_limit=20_000_000) as con:
    table = ScriptedTable("a", SCHEMA, [[]], EventTime(0, 0, 0))
    table.scripts = [Script(count)]
    con._register("a", table)
    with con.execute(sys.argv[1], timeout=400) as cursor:
        found = sum(batch.num_rows for batch in cursor.fetch_record_batch())
    print(found, pa.default_memory_pool().max_memory(), con._database.memory.spilled_bytes)
"""
HELD = {
    "tumbling": (
        "SELECT s, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), 100000000)) "
        "GROUP BY s, window_end"
    ),
    "ORDER BY": (
        "SELECT t, s FROM TABLE(IMPOSE_ORDER(TABLE a, DESCRIPTOR(t), 100000000)) ORDER BY t"
    ),
    "sessions": "SELECT s, window_end FROM TABLE(SESSION(TABLE a, DESCRIPTOR(t), 1000))",
}


@pytest.mark.parametrize("name", HELD)
def test_memory_stays_bounded(name: str) -> None:
    """Well over 40 MB of state with a limit of 20 MB for what is held and worked on."""
    count = 760_000 if ALL else 500_000
    command = [sys.executable, "-c", BOUNDED, HELD[name], str(count)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert process.returncode == 0, process.stderr
    found, peak, spilled = map(int, process.stdout.split())
    assert found == count
    assert spilled > 30_000_000
    assert peak < 40_000_000


def held_open(con: runnel.Connection) -> runnel.Cursor:
    """A query that has written to files and waits for more."""
    writer = con.register_stream("s", SCHEMA, time_column="t", max_disorder=0)
    cursor = con.execute(
        "SELECT s, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), 1000000)) "
        "GROUP BY s, window_end"
    )
    for first in range(0, 40_000, 4_000):
        writer.write(rows(first, 4_000, 0))
    assert eventually(lambda: con._database.memory.spilled_bytes > LIMIT)
    return cursor


def test_files_have_no_names(tmp_path: Path) -> None:
    """So none is left by whatever ends the process."""
    with runnel.connect(
        query_parallelism=1, memory_limit=LIMIT, temp_directory=str(tmp_path)
    ) as con:
        cursor = held_open(con)
        assert list(tmp_path.iterdir()) == []
        descriptors = (
            len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
        )
        assert descriptors < 200, "a file that is mapped has no descriptor"
        cursor.close()
        assert eventually(lambda: con._database.memory.used == 0)


def test_a_full_disk_is_a_clean_error(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = spill._opened
    count = 0

    def full(memory: Memory) -> IO[bytes]:
        nonlocal count
        count += 1
        return opened(memory) if count < 5 else open("/dev/full", "r+b", buffering=0)  # noqa: PTH123

    monkeypatch.setattr(spill, "_opened", full)
    for name in ("tumbling", "join", "ORDER BY event time", "sessions", "sliding"):
        count = 0
        with runnel.connect(query_parallelism=2, memory_limit=LIMIT) as con:
            streams(con)
            with pytest.raises(
                runnel.OperationalError, match="rows beyond memory_limit can't be written"
            ) as caught:
                con.execute(SPILLING[name][0], timeout=120).fetchall()
            assert (
                caught.value.detail is not None and "No space left on device" in caught.value.detail
            )
            assert caught.value.hint is not None and "temp_directory" in caught.value.hint
            assert con._database.memory.used == 0, "what failed gives everything back"
