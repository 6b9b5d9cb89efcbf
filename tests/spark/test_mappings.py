"""CREATE MAPPING … TYPE Spark: its options, what it reads, and writing to it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.connectors.spark.options import read_options
from tests.effort import crossed


def visible(folder: Path) -> list[str]:
    """What a reader of the folder would look at."""
    return (
        sorted(item.name for item in folder.iterdir() if not item.name.startswith(("_", ".")))
        if folder.exists()
        else []
    )


def leftovers(folder: Path) -> list[str]:
    return [item.name for item in folder.rglob("*") if item.name.startswith("_runnel-")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a format and path, a table or a query"),
        ({"format": "parquet"}, 'option "path" of connector Spark is missing'),
        (
            {"path": "/a/b"},
            'option "format" of connector Spark is missing, and the path "/a/b" does not imply it',
        ),
        (
            {"table": "a", "query": "b"},
            'options "table" and "query" of connector Spark contradict each other',
        ),
        (
            {"format": "csv", "path": "x", "table": "a"},
            'options "format" and "table" of connector Spark contradict each other',
        ),
        (
            {"path": "x", "query": "a"},
            'options "path" and "query" of connector Spark contradict each other',
        ),
        (
            {"format": "csv", "path": "x", "heeder": "true"},
            'unknown option "heeder" of Spark\'s format csv',
        ),
        (
            {"format": "parquet", "path": "x", "header": "true"},
            'unknown option "header" of Spark\'s format parquet',
        ),
        (
            {"format": "csv", "path": "x", "header": "yes"},
            'option "header" of Spark\'s format csv can\'t be "yes"',
        ),
        ({"path": "x.csv", "sep": ""}, 'option "sep" of Spark\'s format csv can\'t be ""'),
        (
            {"path": "x.csv", "delimiter": "\\"},
            'option "delimiter" of Spark\'s format csv can\'t be "\\"',
        ),
        (
            {"path": "x.json", "Mode": "strict"},
            'option "Mode" of Spark\'s format json can\'t be "strict"',
        ),
        (
            {"table": "a", "header": "true"},
            'option "header" of connector Spark is not for a mapping on a table',
        ),
        (
            {"query": "a", "header": "true"},
            'option "header" of connector Spark is not for a mapping on a query',
        ),
        ({"path": "x", "PATH": "y"}, 'option "path" of connector Spark is given twice'),
        ({"path": ""}, 'option "path" of connector Spark is empty'),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(runnel.ProgrammingError) as failure:
        read_options(options, None)
    assert failure.value.message.endswith(message) or message in failure.value.message
    with pytest.raises(runnel.ProgrammingError, match="both an external name"):
        read_options({"table": "a"}, "b")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("sepp", 'did you mean "sep"?'),
        ("seperator", 'did you mean "sep"?'),
        ("has_header", 'did you mean "header"?'),
        ("Headers", 'did you mean "header"?'),
        ("null_value", 'did you mean "nullValue"?'),
        ("zzz", "Spark's reader and writer have basePath, "),
    ],
)
def test_options_that_are_nearly_right(option: str, hint: str) -> None:
    with pytest.raises(
        runnel.ProgrammingError, match=f'unknown option "{option}" of Spark\'s format csv'
    ) as failure:
        read_options({"path": "a.csv", option: ";"}, None)
    assert (failure.value.hint or "").startswith(hint)


def test_options_that_go_on() -> None:
    found = read_options({"Format": "CSV", "path": "x", "header": "true"}, None)
    assert (found.format, found.path, found.passed) == ("csv", "x", {"header": "true"})
    found = read_options({"format": "jdbc", "url": "jdbc:x", "query": "SELECT 1"}, None)
    assert (found.format, found.path, found.query, found.passed) == (
        "jdbc",
        None,
        None,
        {"url": "jdbc:x", "query": "SELECT 1"},
    )
    assert read_options({}, "db.t").table == "db.t"


def test_files(session: Any, cursor: runnel.Cursor, tmp_path: Path) -> None:
    session.range(0, 100, 1, 3).selectExpr("id", "id / 4 AS q").write.parquet(str(tmp_path / "p"))
    cursor.execute(
        f"CREATE MAPPING p TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{tmp_path}/p')"
    )
    assert cursor.execute("SELECT COUNT(*), SUM(id), MAX(q) FROM p").fetchall() == [
        (100, 4950, 24.75)
    ]
    session.range(100, 101).selectExpr("id", "0D AS q").write.mode("append").parquet(
        str(tmp_path / "p")
    )
    assert cursor.execute("SELECT COUNT(*) FROM p").fetchall() == [(101,)], (
        "a query sees the files that are there when it starts"
    )


NAN = float("nan")
ABOVE = [1, 3, 6, 7, 8, 9, 10]
NANS = [1, 6, 7, 8, 10]
FILES = 3


@pytest.mark.parametrize(("sources", "is_vectorized"), crossed(["", "parquet"], ["true", "false"]))
def test_nan_that_statistics_leave_out(
    session: Any, tmp_path: Path, sources: str, is_vectorized: str
) -> None:
    floats = [1.0, NAN, 2.0, 3.0, 2.0, 1.0, NAN, NAN, NAN, 200.0, NAN, 1.0]
    table = pa.table({"n": range(12), "d": floats, "r": pa.array(floats, pa.float32())})
    for number, options in enumerate(
        ({"row_group_size": 3}, {"row_group_size": 3, "write_page_index": True}, {})
    ):
        pq.write_table(table, tmp_path / f"{number}.parquet", use_dictionary=number == 1, **options)
    own = session.newSession()
    for name, value in (
        ("spark.sql.sources.useV1SourceList", sources),
        ("spark.sql.parquet.enableVectorizedReader", is_vectorized),
        ("spark.sql.parquet.aggregatePushdown", "true"),
    ):
        own.conf.set(name, value)
    with runnel.connect(spark=own) as connection:
        connection.execute(
            f"CREATE MAPPING t TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{tmp_path}')"
        )
        connection.register("registered", own.read.parquet(str(tmp_path)))
        for source in ("t", "registered"):
            _check_nan(connection, source)


def _check_nan(connection: runnel.Connection, source: str) -> None:
    expected = {
        "{0} >= 3": ABOVE,
        "NOT {0} < 3": ABOVE,
        "{0} > 200": NANS,
        "{0} = CAST('NaN' AS DOUBLE)": NANS,
        "{0} IN (7, CAST('NaN' AS DOUBLE))": NANS,
        "{0} BETWEEN 300 AND CAST('NaN' AS DOUBLE)": NANS,
        "{0} < CAST('NaN' AS DOUBLE)": [0, 2, 3, 4, 5, 9, 11],
    }
    by_condition = {
        text.format(column): numbers for column in ("d", "r") for text, numbers in expected.items()
    }
    texts = [
        f"SELECT {place} AS place, n FROM {source} WHERE {text}"
        for place, text in enumerate(by_condition)
    ]
    rows = connection.execute(" UNION ALL ".join(texts)).fetchall()
    for place, (text, numbers) in enumerate(by_condition.items()):
        assert sorted(n for where, n in rows if where == place) == sorted(numbers * FILES), text
    assert (
        repr(connection.execute(f"SELECT MAX(d), MIN(d), MAX(r), MIN(r) FROM {source}").fetchall())
        == "[(nan, 1.0, nan, 1.0)]"
    )


def test_csv(cursor: runnel.Cursor, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;name\n1;Ada\n2;\n")
    options = f"'path' = '{tmp_path}/a.csv', 'header' = 'true', 'sep' = ';'"
    cursor.execute(
        f"CREATE MAPPING inferred TYPE Spark OPTIONS ({options}, 'inferSchema' = 'true')"
    )
    assert cursor.execute("SELECT * FROM inferred ORDER BY id").fetchall() == [
        (1, "Ada"),
        (2, None),
    ]
    cursor.execute(
        "CREATE MAPPING declared (name VARCHAR, number SMALLINT EXTERNAL NAME id) TYPE Spark "
        f"OPTIONS ({options})"
    )
    with pytest.raises(runnel.Error):
        # The columns of a CSV file go by place: these are declared in another order than the
        # header's.
        cursor.execute("SELECT * FROM declared").fetchall()
    cursor.execute(
        "CREATE OR REPLACE MAPPING declared (number SMALLINT EXTERNAL NAME id, name VARCHAR) "
        f"TYPE Spark OPTIONS ({options})"
    )
    assert sorted(cursor.execute("SELECT * FROM declared").fetchall()) == [(1, "Ada"), (2, None)]


def test_malformed_values_are_no_nulls(cursor: runnel.Cursor, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\nx\n")
    cursor.execute(f"CREATE MAPPING t (id BIGINT) TYPE Spark OPTIONS ('path' = '{tmp_path}/a.csv')")
    with pytest.raises(runnel.Error, match=r"[Mm]alformed|MALFORMED"):
        cursor.execute("SELECT * FROM t").fetchall()


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            "'path' = 's3a://bucket/a.parquet'",
            "Spark can't reach addresses that begin with s3a://",
            ":hadoop-aws:VERSION",
        ),
        (
            "'format' = 'jdbc', 'url' = 'jdbc:nothing:x', 'dbtable' = 't'",
            "Spark has no JDBC driver for the address",
            "'driver'",
        ),
        (
            (
                "'format' = 'jdbc', 'url' = 'jdbc:postgresql://h/x', 'dbtable' = 't', 'driver' = "
                "'org.postgresql.Driver'"
            ),
            "Spark has no JDBC driver org.postgresql.Driver",
            "=org.postgresql:postgresql:VERSION",
        ),
    ],
)
def test_a_package_that_spark_has_not(
    cursor: runnel.Cursor, options: str, message: str, hint: str
) -> None:
    with pytest.raises(runnel.OperationalError) as failure:
        cursor.execute(f"CREATE MAPPING t TYPE Spark OPTIONS ({options})")
    assert failure.value.message.startswith(message)
    assert hint in (failure.value.hint or "")


def test_tables_and_temporary_views(session: Any, cursor: runnel.Cursor) -> None:
    session.range(3).createOrReplaceTempView("three")
    cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'three')")
    cursor.execute('CREATE MAPPING u EXTERNAL NAME "three" TYPE Spark')
    assert cursor.execute("SELECT COUNT(*) FROM t JOIN u ON t.id = u.id").fetchall() == [(3,)]
    session.range(4).createOrReplaceTempView("three")
    assert cursor.execute("SELECT COUNT(*) FROM t").fetchall() == [(4,)]
    session.catalog.dropTempView("three")
    with pytest.raises(runnel.ProgrammingError, match="`three` cannot be found"):
        cursor.execute("SELECT * FROM t").fetchall()


CHANGING_COLUMNS = {
    "gone": "1L",
    "wider": "CAST(1 AS DOUBLE)",
    "text": "1L",
    "narrow": "1S",
    "cut": "1L",
    "digits": "CAST(1 AS DECIMAL(6, 2))",
    "day": "DATE '2024-01-01'",
    "nested": "NAMED_STRUCT('x', 1, 'y', 2)",
    "list": "ARRAY(1L)",
    "span": "INTERVAL '1' DAY",
    "odd": "1L",
}


def replace_columns(session: Any, **now: str | None) -> None:
    """Gives the table of the tests below other columns; None drops a column."""
    texts = [
        f"{text} AS `{name}`"
        for name, text in {**CHANGING_COLUMNS, **now}.items()
        if text is not None
    ]
    session.sql(f"SELECT {', '.join(texts)}").createOrReplaceTempView("changing")


def test_values_of_changed_columns_are_converted(session: Any, cursor: runnel.Cursor) -> None:
    """A value that does not fit the mapping's type is an error that names column and value."""
    replace_columns(session)
    cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'changing')")
    replace_columns(
        session,
        wider="CAST(1.5 AS FLOAT)",
        text="'12'",
        narrow="12L",
        digits="CAST(1.5 AS DECIMAL(20, 1))",
        list="ARRAY(7)",
    )
    found = cursor.execute(
        "SELECT wider, text, narrow, digits, list FROM t WHERE text = 12"
    ).fetchall()
    assert found == [(1.5, 12, 12, Decimal("1.50"), [7])]
    for value, now in (
        ("x y", {"text": "'x y'"}),
        ("70000", {"narrow": "70000L"}),
        ("1000", {"digits": "1000000"}),
    ):
        replace_columns(session, **now)
        with pytest.raises(
            runnel.DataError,
            match=f"value '{value}.*' doesn't fit column \"{next(iter(now))}\" of type",
        ):
            cursor.execute("SELECT * FROM t").fetchall()
    session.catalog.dropTempView("changing")


def test_columns_that_changed_since_create_mapping(session: Any, cursor: runnel.Cursor) -> None:
    """A column whose new type does not fit the mapping is an error that names it."""
    replace_columns(session)
    cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'changing')")
    for name, now_is, reported in [
        ("gone", None, "no longer exists"),
        ("cut", "1.5D", "is DOUBLE in Spark, and BIGINT in the mapping"),
        (
            "digits",
            "CAST(1 AS DECIMAL(6, 3))",
            r"is DECIMAL\(6, 3\) in Spark, and DECIMAL\(6, 2\) in the mapping",
        ),
        (
            "day",
            "TIMESTAMP_NTZ '2024-01-01 10:00:00'",
            "is TIMESTAMP in Spark, and DATE in the mapping",
        ),
        (
            "nested",
            "NAMED_STRUCT('y', 1, 'x', 2)",
            r"is ROW\(y INTEGER, x INTEGER\) in Spark, and ROW",
        ),
        ("list", "ARRAY(1.5D)", r"is DOUBLE\[\] in Spark, and BIGINT\[\] in the mapping"),
        ("span", "'1 day'", "is VARCHAR in Spark, and INTERVAL DAY TO SECOND in the mapping"),
        ("odd", "MAKE_INTERVAL(1, 2)", "can no longer be read"),
    ]:
        replace_columns(session, **{name: now_is})
        with pytest.raises(
            runnel.OperationalError, match=f'column "{name}" of "t" {reported}'
        ) as failure:
            cursor.execute("SELECT text FROM t").fetchall()
        assert failure.value.hint == "CREATE OR REPLACE MAPPING adopts the current columns"
    session.catalog.dropTempView("changing")


def test_files_that_changed_since_create_mapping(cursor: runnel.Cursor, tmp_path: Path) -> None:
    """Where Spark itself finds out, on its way through the files: it goes by the schema of one, or
    by the mapping's."""
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    cursor.execute(
        "CREATE MAPPING p (id BIGINT) TYPE Spark OPTIONS ('format' = 'parquet', "
        f"'path' = '{tmp_path}')"
    )
    with pytest.raises(
        runnel.OperationalError, match=r"column id of file .*b\.parquet is BINARY, and not bigint"
    ) as failure:
        cursor.execute("SELECT id FROM p").fetchall()
    assert "CREATE OR REPLACE MAPPING" in (failure.value.hint or "")
    (tmp_path / "a.csv").write_text("id,name\n1,Ada\n")
    options = f"'path' = '{tmp_path}/a.csv', 'header' = 'true'"
    cursor.execute(f"CREATE MAPPING c TYPE Spark OPTIONS ({options})")
    cursor.execute(
        "CREATE MAPPING places (a VARCHAR, b VARCHAR) TYPE Spark "
        f"OPTIONS ({options}, 'enforceSchema' = 'true')"
    )
    assert cursor.execute("SELECT c.name, p.b FROM c JOIN places p ON p.a = c.id").fetchall() == [
        ("Ada", "Ada")
    ]
    assert cursor.execute("SELECT (SELECT COUNT(*) FROM c), MAX(name) FROM c").fetchall() == [
        (1, "Ada")
    ]
    (tmp_path / "a.csv").write_text("name,id\nBo,2\n")
    with pytest.raises(
        runnel.OperationalError,
        match=r"the header of file .*a\.csv has other columns than the mapping",
    ) as failure:
        cursor.execute("SELECT id FROM c").fetchall()
    assert "'enforceSchema' = 'true'" in (failure.value.hint or "")


def test_a_new_path(cursor: runnel.Cursor, tmp_path: Path) -> None:
    path = tmp_path / "new"
    cursor.execute(
        "CREATE MAPPING t (id BIGINT, name VARCHAR) TYPE Spark "
        f"OPTIONS ('format' = 'parquet', 'path' = '{path}')"
    )
    with pytest.raises(runnel.ProgrammingError, match="path does not exist"):
        cursor.execute("SELECT * FROM t").fetchall()
    assert cursor.execute("INSERT INTO t VALUES (1, 'a'), (2, NULL)").rowcount == 2
    assert (
        cursor.execute("SINK INTO t (name) SELECT 'x' FROM TABLE(GENERATE_SERIES(1, 3))").rowcount
        == 3
    )
    assert sorted(cursor.execute("SELECT * FROM t").fetchall(), key=repr) == sorted(
        [(1, "a"), (2, None), *[(None, "x")] * 3], key=repr
    )
    assert (
        cursor.execute("INSERT INTO t SELECT id + 10, name FROM t WHERE id IS NOT NULL").rowcount
        == 2
    )
    assert cursor.execute("SELECT COUNT(*), MAX(id) FROM t").fetchall() == [(7, 12)]
    assert not leftovers(tmp_path)


COLUMNS = [
    ("BOOLEAN", True),
    ("TINYINT", -1),
    ("BIGINT", -(2**63)),
    ("DECIMAL(38, 10)", Decimal("-1.5000000000")),
    ("REAL", 1.5),
    ("DOUBLE", 0.1),
    ("VARCHAR", "Grüße 🦀"),
    ("VARBINARY", b"\x00\xff"),
    ("DATE", date(1, 1, 1)),
    ("TIMESTAMP", datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("TIMESTAMP WITH TIME ZONE", datetime(2024, 2, 29, 1, tzinfo=UTC)),
    ("INTERVAL DAY TO SECOND", timedelta(days=-1, microseconds=1)),
    ("BIGINT[]", [1, None]),
]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_types_go_there_and_back(cursor: runnel.Cursor, tmp_path: Path, file_format: str) -> None:
    columns = ", ".join(f"c{i} {name}" for i, (name, _) in enumerate(COLUMNS))
    cursor.execute(
        f"CREATE MAPPING t ({columns}) TYPE Spark OPTIONS ('format' = '{file_format}', "
        f"'path' = '{tmp_path}/new')"
    )
    marks = ", ".join("?" for _ in COLUMNS)
    values = tuple(value for _, value in COLUMNS)
    cursor.executemany(f"INSERT INTO t VALUES ({marks})", [values, (None,) * len(COLUMNS)])
    assert sorted(cursor.execute("SELECT * FROM t").fetchall(), key=repr) == sorted(
        [values, (None,) * len(values)], key=repr
    )


def test_time_of_day_in_parquet(cursor: runnel.Cursor, tmp_path: Path) -> None:
    cursor.execute(
        "CREATE MAPPING t (t TIME) TYPE Spark OPTIONS ('format' = 'parquet', "
        f"'path' = '{tmp_path}/new')"
    )
    cursor.execute("INSERT INTO t VALUES (?)", (time(23, 59, 59, 999999),))
    assert cursor.execute("SELECT t FROM t").fetchall() == [(time(23, 59, 59, 999999),)]


def test_a_failure_leaves_nothing(
    connection: runnel.Connection, cursor: runnel.Cursor, tmp_path: Path
) -> None:
    path = tmp_path / "new"
    cursor.execute(
        f"CREATE MAPPING t (id BIGINT) TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{path}')"
    )
    with pytest.raises(runnel.DataError, match="division by zero"):
        cursor.execute(
            "INSERT INTO t SELECT 10 / (500000 - v) FROM TABLE(GENERATE_SERIES(1, 1000000))"
        )
    assert visible(path) == []
    assert not leftovers(tmp_path)


def test_rows_are_invisible_before_the_commit(
    connection: runnel.Connection, cursor: runnel.Cursor, tmp_path: Path
) -> None:
    from runnel.connector import SinkRequest, WriteMode

    path = tmp_path / "new"
    cursor.execute(
        f"CREATE MAPPING t (id BIGINT) TYPE Spark OPTIONS ('format' = 'json', 'path' = '{path}')"
    )
    table: Any = connection._database.catalog.snapshot.get("t").table  # type: ignore[union-attr]
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0,)))
    sink.write(pa.record_batch({"id": pa.array([1, 2])}))
    first = sink.stage(1)
    sink.write(pa.record_batch({"id": pa.array([3])}))
    second = sink.stage(2)
    assert visible(path) == []
    sink.commit(first)
    assert sorted(cursor.execute("SELECT id FROM t").fetchall()) == [(1,), (2,)]
    sink.commit(first)
    sink.abort(second)
    sink.close()
    assert sorted(cursor.execute("SELECT id FROM t").fetchall()) == [(1,), (2,)]
    assert not leftovers(tmp_path)


def test_a_table_that_was_read_before_is_read_anew(session: Any, cursor: runnel.Cursor) -> None:
    session.sql("CREATE TABLE grown (id BIGINT) USING parquet")
    try:
        cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'grown')")
        assert cursor.execute("SELECT id FROM t").fetchall() == []
        cursor.execute("INSERT INTO t VALUES (1)")
        assert cursor.execute("SELECT id FROM t").fetchall() == [(1,)]
    finally:
        session.sql("DROP TABLE grown")


def test_writing_to_a_table(session: Any, cursor: runnel.Cursor) -> None:
    session.sql("CREATE TABLE written (id BIGINT, name STRING, later DOUBLE) USING parquet")
    try:
        cursor.execute(
            "CREATE MAPPING t (name VARCHAR, id BIGINT) TYPE Spark OPTIONS ('table' = 'written')"
        )
        assert cursor.execute("INSERT INTO t VALUES ('a', 1), ('b', 2)").rowcount == 2
        assert sorted(tuple(row) for row in session.table("written").collect()) == [
            (1, "a", None),
            (2, "b", None),
        ]
        assert sorted(cursor.execute("SELECT * FROM t").fetchall()) == [("a", 1), ("b", 2)]
        with pytest.raises(runnel.DataError):
            cursor.execute(
                "INSERT INTO t SELECT 'c', 1 / (v - 2) FROM TABLE(GENERATE_SERIES(1, 3))"
            )
        assert session.table("written").count() == 2
    finally:
        session.sql("DROP TABLE written")


def test_what_can_not_be_written(
    session: Any, connection: runnel.Connection, cursor: runnel.Cursor, tmp_path: Path
) -> None:
    cursor.execute("CREATE MAPPING q TYPE Spark OPTIONS ('query' = 'SELECT 1 AS a')")
    connection.register("r", session.range(1))
    for name in ("q", "r"):
        with pytest.raises(
            runnel.NotSupportedError,
            match=f'INSERT is not supported by table "{name}" of connector Spark',
        ):
            cursor.execute(f"INSERT INTO {name} VALUES (1)")
    (tmp_path / "a.json").write_text('{"a": 1}\n')
    cursor.execute(f"CREATE MAPPING f (a BIGINT) TYPE Spark OPTIONS ('path' = '{tmp_path}/a.json')")
    with pytest.raises(runnel.OperationalError, match="is a file, to which rows can't be added"):
        cursor.execute("INSERT INTO f VALUES (1)")


def test_a_saved_mapping_needs_no_spark_before_it_is_used(session: Any, tmp_path: Path) -> None:
    session.range(3).write.parquet(str(tmp_path / "p"))
    with runnel.connect(tmp_path / "home", spark=session) as connection:
        connection.execute(
            f"CREATE MAPPING t TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{tmp_path}/p')"
        )
    with runnel.connect(tmp_path / "home") as connection:
        owner = connection._database.connectors.get("Spark").owner  # type: ignore[attr-defined]
        assert owner.running is None
        connection.register("frame", session.range(3))
        assert connection.execute(
            "SELECT COUNT(*) FROM t JOIN frame ON t.id = frame.id"
        ).fetchall() == [(3,)]


@pytest.mark.usefixtures("making_code")
def test_data_connections(session: Any, cursor: runnel.Cursor) -> None:
    session.range(3).createOrReplaceTempView("shown")
    try:
        cursor.execute("CREATE DATA CONNECTION catalog TYPE Spark")
        assert ('"shown"', "VIEW") in [
            row[:2] for row in cursor.execute("SHOW RESOURCES FOR catalog").fetchall()
        ]
        cursor.execute('CREATE MAPPING t EXTERNAL NAME "shown" DATA CONNECTION catalog')
        assert cursor.execute("SELECT COUNT(*) FROM t").fetchall() == [(3,)]
        with pytest.raises(
            runnel.ProgrammingError,
            match='a data connection of connector Spark has no option "path"',
        ):
            cursor.execute("CREATE DATA CONNECTION other TYPE Spark OPTIONS ('path' = 'x')")
    finally:
        session.catalog.dropTempView("shown")
