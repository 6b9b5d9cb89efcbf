"""A part of what `python -m tests.both_runtimes` compares, on the one Spark of the suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.tpch import QUERIES, query
from runnel.connectors.spark.errors import spark_error
from runnel.errors import ERROR_MARK, DataError, ErrorCode, OperationalError
from tests.both_runtimes import expressions, queries, streams, tpch
from tests.both_runtimes.pair import Pair
from tests.both_runtimes.random_rows import random_columns
from tests.both_runtimes.tally import Tally
from tests.effort import ALL
from tests.spark_process import INTERPRETED, missing

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
]
ASKED = ("arithmetic", "date_functions", "functions", "number_functions", "text_functions")
"""The `.slt` files of which the expressions are compared here; the program takes all."""
SLT_FILES = {"joins/joins": 9, "subqueries/subqueries": 9, "queries/set_operations": 12}
"""Of these every so many-th query."""
TPCH = (3, 13, 16, 18, 21)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made = Pair(settings={} if ALL else INTERPRETED)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session() -> Any:
    return expressions.own_session()


def test_functions_over_random_rows(session: Any) -> None:
    sheet, tally = expressions.Sheet(session, random_columns(31, 60), cached=False), Tally()
    cases = expressions.of_matrix(sheet.names)[1::8]
    assert len(cases) > 100
    assert list(expressions.differences(cases, sheet, 1, 20, tally)) == []
    assert tally.fail_alike > 10
    sheet.close()


def test_what_slt_files_ask_without_a_table(session: Any) -> None:
    lifted = expressions.Lifted()
    for name in ASKED:
        lifted.add(queries.SLT / "expressions" / f"{name}.slt")
    cases = lifted.cases()
    assert len(cases) > 100
    sheet = expressions.Sheet(session, lifted.columns, cached=False)
    assert list(expressions.differences(cases, sheet, 1, 20, Tally())) == []
    sheet.close()


def test_queries_of_slt_files(pair: Pair, tmp_path: Path) -> None:
    asked = [
        item
        for name, every in SLT_FILES.items()
        for item in queries.of_file(queries.SLT / f"{name}.slt", tmp_path)[::every]
    ]
    before = pair.tally.compared
    assert list(map(str, queries.differences(pair, asked))) == []
    assert pair.tally.compared - before > len(asked) * 3 // 4


def test_sub_queries_as_values(pair: Pair) -> None:
    """Spark's own IN is no NULL there, and it can't plan EXISTS above a UNION ALL, nor a sort above
    sorted parts."""
    pair.put("p", pa.table({"x": pa.array([1, 2, None], pa.int32())}))
    pair.put("q", pa.table({"x": pa.array([2, None], pa.int32())}))
    first = "(SELECT x FROM p ORDER BY x DESC LIMIT 1)"
    for sql in (
        (
            "SELECT x, x IN (SELECT x FROM q), x NOT IN (SELECT x FROM q), "
            "x IN (SELECT x FROM q WHERE FALSE) FROM p"
        ),
        (
            "SELECT x, EXISTS (SELECT 1 FROM q WHERE q.x > r.x) "
            "FROM (SELECT x FROM p UNION ALL SELECT x FROM q) AS r"
        ),
        f"{first} UNION ALL {first} ORDER BY 1",
    ):
        assert pair.difference(sql) is None


def test_generated_queries(pair: Pair) -> None:
    before = pair.tally.compared
    assert list(map(str, queries.generated(pair, 17, 12))) == []
    assert pair.tally.compared - before > 8


def test_tpch(pair: Pair, tmp_path: Path) -> None:
    assert [found for _, found in tpch.differences([pair], tmp_path, TPCH)] == [[]] * len(TPCH)
    for number in QUERIES:
        line = str(pair.there.execute(f"EXPLAIN (PHYSICAL) {query(number)}").fetchone())
        assert "Fragment on Spark" in line, number


def test_streams(tmp_path: Path) -> None:
    """One of windows that overlap, one of sessions, one of a bound that is given another name."""
    names = ("windows: HOP, query 5", "windows: SESSION, query 0", "windows: TUMBLE, query 6")
    goldens = [golden for golden in streams.of_windows() if golden.name in names]
    tally = Tally()
    worker = streams.Streams(tmp_path, tally)
    try:
        assert [
            str(found) for _, found in streams.differences([worker], goldens) if found is not None
        ] == []
        assert tally.compared == len(names), tally.left
    finally:
        worker.close()


def test_groups_of_sessions_are_refused(tmp_path: Path) -> None:
    """Spark would put them together once more."""
    golden = next(
        golden for golden in streams.of_windows() if golden.name == "windows: SESSION, query 5"
    )
    worker = streams.Streams(tmp_path, Tally())
    try:
        assert worker.difference(golden) is None
        assert list(worker.tally.left) == [
            "GROUP BY of sessions that are groups already is not supported there"
        ]
    finally:
        worker.close()


def test_errors_are_compared() -> None:
    """Of another class or code, in other words where they are ours, on one side only."""
    tally = Tally()
    overflow, ours = (
        DataError("INTEGER overflow: 5"),
        DataError("overflow in Spark", detail="Spark: […]"),
    )
    assert tally.errors(overflow, ours) is None
    assert dict(tally.sentences) == {'"INTEGER overflow: …" is "overflow in Spark" on Spark': 1}
    for there in (
        None,
        OperationalError("x"),
        DataError("x", code=ErrorCode.GENERIC),
        DataError("x", detail=f"{ERROR_MARK}x"),
    ):
        assert tally.errors(overflow, there) is not None
    assert tally.errors(None, ours) is not None
    assert tally.fail_alike == 1


@pytest.mark.parametrize(
    ("value", "source", "target", "message"),
    [
        (
            "300S",
            "SMALLINT",
            "TINYINT",
            "numeric overflow while converting 300 from SMALLINT to TINYINT",
        ),
        (
            "-3000000000L",
            "BIGINT",
            "INT",
            "numeric overflow while converting -3000000000 from BIGINT to INTEGER",
        ),
        (
            "1.0E20D",
            "DOUBLE",
            "BIGINT",
            "numeric overflow while converting 1e+20 from DOUBLE to BIGINT",
        ),
        (
            "999.5BD",
            "DECIMAL(4,1)",
            "TINYINT",
            "numeric overflow while converting 999.5 from DECIMAL(4, 1) to TINYINT",
        ),
        ("NaND", "DOUBLE", "INT", "cannot convert infinite or NaN to an integer"),
        ("-Infinity", "FLOAT", "INT", "cannot convert infinite or NaN to an integer"),
        (
            "5L",
            "BIGINT",
            "INTERVAL SECOND",
            (
                'the value 5L of the type "BIGINT" cannot be cast to "INTERVAL SECOND" due to an '
                "overflow"
            ),
        ),
    ],
)
def test_casts_that_spark_refuses_are_told_as_ours(
    value: str, source: str, target: str, message: str
) -> None:
    told = (
        f'[CAST_OVERFLOW] The value {value} of the type "{source}" cannot be cast to "{target}" '
        "due to an overflow. "
    )
    found = spark_error(
        RuntimeError(
            f"{told}Use `try_cast` to tolerate overflow and return NULL instead. SQLSTATE: 22003"
        )
    )
    assert isinstance(found, DataError)
    assert found.message == message


def test_what_differs_is_told(pair: Pair, tmp_path: Path) -> None:
    pair.there.register(
        "d",
        pair.session.sql("SELECT CAST(1 AS DECIMAL(38, 10)) AS x, CAST(1 AS DECIMAL(20, 2)) AS y"),
    )
    lines = [
        line
        for (line,) in pair.there.execute("EXPLAIN (PHYSICAL) SELECT SUM(x), AVG(x), SUM(y) FROM d")
    ]
    told = lines[0].partition("differs: ")[2].partition("; sql:")[0]
    assert told.split("; ") == [
        (
            f"{name}(DECIMAL(38, 10)) also overflows where the sum of a part of the rows has more "
            "than 38 digits"
        )
        for name in ("SUM", "AVG")
    ]
    for name, columns in (
        ("events", "ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"),
        ("late", "a BIGINT"),
    ):
        (tmp_path / name).mkdir()
        follow = ", 'follow' = 'true'" if name == "events" else ""
        options = f"'format' = 'parquet', 'path' = '{tmp_path / name}'{follow}"
        pair.there.execute(f"CREATE MAPPING {name} ({columns}) TYPE Spark OPTIONS ({options})")
    sql = """EXPLAIN CREATE JOB j OPTIONS ('runtime' = 'spark') AS INSERT INTO late
        SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end"""
    lines = [line.strip() for (line,) in pair.there.execute(sql)]
    assert "a row is late one batch later than on tasklets" in lines
    assert "rows without event time are in no window, where tasklets have a group of them" in lines
