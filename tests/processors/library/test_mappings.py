"""Steps that read, write and look up mappings, compared with the same statement of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.dag import DAG, Supplier, between
from runnel.processors.library import (
    accumulate_by_key,
    aggregate_by_key,
    aggregate_by_window,
    combine_by_key,
    counting,
    map_using_lookup,
    read_journal,
    read_mapping,
    result_sink,
    sink_to_list,
    source_of,
    summing,
    tumbling,
    write_mapping,
)
from runnel.testing import assert_rows
from runnel.testing.rows import rows_of
from tests.jobs.named import PATIENCE
from tests.waiting import eventually

MAP = (
    "CREATE MAPPING {} (__key BIGINT, name VARCHAR, price BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat', 'journalCapacity'='1000')"
)
ROWS = [(1, "pen", 5), (2, "ink", 20), (3, "pad", None), (4, "pen", 40)]


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(MAP.format("goods"))
        made.execute(MAP.format("copies"))
        for row in ROWS:
            made.execute("INSERT INTO goods VALUES (?, ?, ?)", row)
        yield made


def run(connection: runnel.Connection, *suppliers: Supplier) -> list[tuple[Any, ...]]:
    """The rows that a chain of vertices emits."""
    result: list[pa.RecordBatch] = []
    dag = chain(*suppliers, sink_to_list(result))
    connection.submit(dag).join(PATIENCE)
    return rows_of(result)


def chain(*suppliers: Supplier) -> DAG:
    dag = DAG()
    vertices = [dag.vertex(f"v{i}", item) for i, item in enumerate(suppliers)]
    for left, right in pairwise(vertices):
        dag.edge(between(left, right))
    return dag


@pytest.mark.parametrize(
    ("columns", "predicate"),
    [
        (None, None),
        (("price", "name"), None),
        (("name",), "price > 10 OR name = 'pad'"),
        (None, "__key = 2"),
        (("price",), "price + 1 > 20"),
        (None, "1 = 0"),
    ],
)
def test_a_mapping_is_read_as_by_sql(
    connection: runnel.Connection, columns: Any, predicate: str | None
) -> None:
    chosen = "*" if columns is None else ", ".join(columns)
    where = "" if predicate is None else f" WHERE {predicate}"
    expected = connection.execute(f"SELECT {chosen} FROM goods{where}").fetchall()
    found = run(connection, read_mapping("goods", columns, predicate))
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_the_watermarks_of_a_mapping_close_windows(
    connection: runnel.Connection, tmp_path: Path
) -> None:
    """A followed folder never ends: the windows are complete by its watermarks alone."""
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.csv").write_text("at,v\n" + "".join(f"{at},{at % 3}\n" for at in range(40)))
    connection.execute(
        "CREATE MAPPING events (at BIGINT, v BIGINT, WATERMARK FOR at AS at - 5) TYPE File "
        f"OPTIONS ('path'='{folder}', 'format'='csv', 'follow'='true')"
    )
    sql = connection.execute(
        "SELECT window_start, window_end, COUNT(*) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), 10)) GROUP BY window_start, window_end"
    )
    expected = [sql.fetchone() for _ in range(3)]
    sql.close()
    assert expected == [(start, start + 10, 10) for start in (0, 10, 20)]
    result: list[pa.RecordBatch] = []
    windows = aggregate_by_window(time="at", window=tumbling(10), n=counting())
    dag = chain(read_mapping("events"))
    dag.edge(between(dag.vertices["v0"], dag.vertex("windows", windows, 1)))
    dag.edge(between(dag.vertices["windows"], dag.vertex("sink", sink_to_list(result), 1)))
    job = connection.submit(dag)
    assert eventually(lambda: rows_of(result) == expected), rows_of(result)
    job.cancel()


def test_other_connectors_and_registrations(connection: runnel.Connection, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    connection.execute(
        "CREATE MAPPING files (a BIGINT, b VARCHAR) TYPE File "
        f"OPTIONS ('format'='csv', 'path'='{tmp_path}')"
    )
    connection.register("table", pa.table({"n": [1, 2, 3]}))
    assert run(connection, read_mapping("files", predicate="a > 1")) == [(2, "y")]
    assert sorted(run(connection, read_mapping("table"))) == [(1,), (2,), (3,)]


@pytest.mark.parametrize("mode", ["insert", "sink"])
def test_a_mapping_is_written(connection: runnel.Connection, mode: str) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"price": pa.array([7, None], pa.int16()), "name": ["a", "b"], "__key": [1, 2]}
    )
    assert run(connection, source_of(batch), write_mapping("copies", mode)) == [(2,)]
    assert_rows(
        connection.execute("SELECT * FROM copies").fetchall(),
        [(1, "a", 7), (2, "b", None)],
        ordered=False,
    )


def test_update_and_delete(connection: runnel.Connection) -> None:
    rows = pa.RecordBatch.from_pydict({"__key": [2, 9], "name": ["x", "y"], "price": [1, 1]})
    run(connection, source_of(rows), write_mapping("goods", "update"))
    keys = rows.select(["__key"])
    assert (2, "x", 1) in connection.execute("SELECT * FROM goods").fetchall()
    run(connection, source_of(keys), write_mapping("goods", "delete"))
    left = connection.execute("SELECT __key FROM goods").fetchall()
    assert sorted(left) == [(1,), (3,), (4,)]


def test_insert_of_a_key_that_exists_writes_nothing(connection: runnel.Connection) -> None:
    dag = chain(read_mapping("goods"), write_mapping("goods"))
    with pytest.raises(runnel.IntegrityError):
        connection.submit(dag).join(PATIENCE)
    assert len(connection.execute("SELECT * FROM goods").fetchall()) == len(ROWS)


@pytest.mark.parametrize("outer", [False, True])
def test_a_look_up_is_the_join_of_sql(connection: runnel.Connection, outer: bool) -> None:
    orders = pa.table({"id": [10, 11, 12], "good": pa.array([2, None, 7], pa.int32())})
    connection.register("orders", orders)
    join = "LEFT JOIN" if outer else "JOIN"
    expected = connection.execute(
        f"SELECT o.*, g.name, g.price AS unit FROM orders o {join} goods g ON o.good = g.__key"
    ).fetchall()
    found = run(
        connection,
        source_of(orders),
        map_using_lookup("goods", "good", columns={"name": "name", "price": "unit"}, outer=outer),
    )
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    plain = run(connection, source_of(orders), map_using_lookup("goods", "good", outer=outer))
    assert sorted(plain, key=repr) == sorted(expected, key=repr)


def test_the_journal_of_a_map(connection: runnel.Connection) -> None:
    columns = ["__key", "price", "operation"]
    query = f"SELECT {', '.join(columns)} FROM TABLE(CHANGES(TABLE goods)) WHERE __key > 4"
    expected = connection.execute(query)
    job = connection.submit(chain(read_journal("goods", columns, "__key > 4"), result_sink()))
    connection.execute("DELETE FROM goods WHERE __key = 4")
    for key in (4, 5, 6):
        connection.execute("SINK INTO goods VALUES (?, 'new', ?)", (key, key))
    found: list[Any] = []
    while len(found) < 2:
        found += rows_of([job.results.next_batch(PATIENCE)])
    job.cancel()
    assert found == expected.fetchmany(2)


@pytest.mark.parametrize(
    ("supplier", "message", "hint"),
    [
        (read_mapping("absent"), 'object "absent" not found', "create it"),
        (read_mapping("cheap"), "is a view", "name the mappings"),
        (read_mapping("goods", ["prise"]), 'column "prise" does not exist', None),
        (read_mapping("goods", predicate="price >"), "", None),
        (read_mapping("goods", predicate="price"), "", None),
        (
            read_mapping("goods", predicate="price > (SELECT MAX(price) FROM copies)"),
            "more than a scan",
            "without a subquery",
        ),
        (read_journal("table"), "CHANGES can't read", "IMap"),
        (write_mapping("table"), "INSERT is not supported", None),
        (write_mapping("goods", columns=["price"]), "key column", "add it"),
        (write_mapping("goods", columns=["__key", "pric"]), 'no column "pric"', "price"),
        (map_using_lookup("table", "n"), "can't be looked up", "IMap"),
        (map_using_lookup("goods", "n", "m"), "1 key columns", "__key"),
        (map_using_lookup("goods", "n", columns=["x"]), 'no column "x"', "price"),
    ],
)
def test_names_that_do_not_fit(
    connection: runnel.Connection, supplier: Supplier, message: str, hint: str | None
) -> None:
    connection.register("table", pa.table({"n": [1]}))
    connection.execute("CREATE VIEW cheap AS SELECT * FROM goods WHERE price < 10")
    dag = DAG()
    dag.vertex("step", supplier)
    with pytest.raises(runnel.Error) as caught:
        connection.submit(dag)
    assert message in caught.value.message
    assert 'vertex "step" names mapping' in str(caught.value.detail)
    assert hint is None or hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: write_mapping("m", "upsert"), "mode of write_mapping can't be 'upsert'"),
        (lambda: read_mapping("m", "price"), "columns must be a list of names"),
        (lambda: read_mapping("m", []), "at least one column"),
        (lambda: read_mapping("m", predicate=5), "SQL condition as text"),  # type: ignore[arg-type]
        (lambda: read_mapping(5), "a name must be a str"),  # type: ignore[arg-type]
        (lambda: map_using_lookup("m"), "at least one key column"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(runnel.Error, match=message):
        make()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"__key": [1], "name": ["x"]}, 'column "price" not found'),
        ({"__key": [1], "name": ["x"], "price": [1], "more": [1]}, 'has column "more"'),
        ({"__key": [1], "name": ["x"], "price": ["1"]}, "cannot assign to target field"),
    ],
)
def test_batches_that_do_not_fit(
    connection: runnel.Connection, batch: dict[str, Any], message: str
) -> None:
    dag = chain(source_of(pa.RecordBatch.from_pydict(batch)), write_mapping("copies"))
    with pytest.raises(runnel.ProgrammingError, match=message) as caught:
        connection.submit(dag).join(PATIENCE)
    assert 'in vertex "v1"' in str(caught.value.detail)


def test_a_result_with_two_columns_of_one_name(connection: runnel.Connection) -> None:
    batch = pa.RecordBatch.from_pydict({"name": ["x"], "good": [1]})
    dag = chain(source_of(batch), map_using_lookup("goods", "good"))
    with pytest.raises(runnel.ProgrammingError, match='two columns "name"') as caught:
        connection.submit(dag).join(PATIENCE)
    assert "columns={" in str(caught.value.hint)


def test_rows_are_written_by_one_processor(connection: runnel.Connection) -> None:
    dag = DAG()
    dag.vertex("write", write_mapping("goods"), parallelism=2)
    with pytest.raises(runnel.ProgrammingError, match="by one processor, not by 2"):
        connection.submit(dag)


def totals(parallelism: int) -> DAG:
    """The journal of goods, grouped by name in two stages, which are emitted at the end only; and
    each change written as it comes."""
    dag = DAG()
    changes = dag.vertex("changes", read_journal("goods", ["__key", "name", "price"]))
    write = dag.vertex("write", write_mapping("copies", "sink"))
    look = dag.vertex("look", map_using_lookup("goods", "__key", columns={"price": "now"}))
    first = dag.vertex("first", accumulate_by_key("name", s=summing("now")), parallelism)
    last = dag.vertex("last", combine_by_key("name", s=summing("now")), parallelism)
    dag.edge(between(changes, write)).edge(between(changes, look).from_output(1))
    dag.edge(between(look, first)).edge(between(first, last).partitioned("name"))
    sums = dag.vertex("sums", write_mapping("sums", "sink"))
    return dag.edge(between(last, sums))


def test_a_named_job_over_mappings_is_exactly_once(tmp_path: Path) -> None:
    def copied(connection: runnel.Connection, keys: range) -> bool:
        rows = connection.execute("SELECT __key, price FROM copies").fetchall()
        return sorted(rows) == [(key, key) for key in keys]

    with runnel.connect(tmp_path / "db") as connection:
        connection.execute(MAP.format("goods"))
        connection.execute(MAP.format("copies"))
        connection.execute(
            'CREATE MAPPING sums (name VARCHAR EXTERNAL NAME "__key", '
            's BIGINT EXTERNAL NAME "this") TYPE IMap '
            "OPTIONS ('keyFormat'='varchar', 'valueFormat'='bigint')"
        )
        job = connection.submit(
            totals(1),
            name="copy",
            guarantee="exactlyOnce",
            options={"snapshotIntervalMillis": 20},
        )
        for key in range(5):
            connection.execute("INSERT INTO goods VALUES (?, 'n', ?)", (key, key))
        assert eventually(lambda: copied(connection, range(5)))
        assert job.record.guarantee == "exactlyOnce" and job.record.is_unbounded
        job.suspend(PATIENCE)
        for key in range(5, 9):
            connection.execute("INSERT INTO goods VALUES (?, 'n', ?)", (key, key))
        job.update(totals(3), timeout=PATIENCE)
        job.resume()
        assert eventually(lambda: copied(connection, range(9)))
        connection.execute("DROP JOB copy", timeout=PATIENCE)


def test_a_dropped_mapping_suspends_the_job(connection: runnel.Connection) -> None:
    job: Any = connection.submit(
        chain(read_journal("goods"), aggregate_by_key("name", n=counting())),
        name="j",
        guarantee="exactlyOnce",
    )
    job.suspend(PATIENCE)
    connection.execute("DROP MAPPING goods CASCADE")
    with pytest.raises(runnel.ProgrammingError, match='object "goods" not found') as caught:
        job.resume()
    assert 'vertex "v0" names mapping "goods"' in str(caught.value.detail)
    assert job.status.name == "SUSPENDED"
    connection.execute(MAP.format("goods"))
    job.resume()


def test_a_step_without_a_connection() -> None:
    from runnel.testing import verify_processor

    with pytest.raises(runnel.ProgrammingError, match="found by a connection only"):
        verify_processor(read_mapping("goods"), [], [])
