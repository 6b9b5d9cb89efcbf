"""Tables whose rows change: logs of changes as inputs of queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import runnel
from tests.jobs.feeds import PATIENCE
from tests.waiting import eventually

EVENTS = [
    {"before": None, "after": {"id": 1, "name": "a", "amount": "1.50"}, "op": "r"},
    {"before": None, "after": {"id": 2, "name": "b", "amount": 2}, "op": "c", "ts_ms": 7},
    {
        "before": {"id": 1, "name": "a", "amount": 1.5},
        "after": {"id": 1, "name": "a", "amount": 10},
        "op": "u",
    },
    {"before": None, "after": {"id": 3, "name": None, "amount": None}, "op": "c"},
    {"before": {"id": 2, "name": "b", "amount": 2}, "after": None, "op": "d"},
]
COLUMNS = "id BIGINT, name VARCHAR, amount DECIMAL(10, 2)"


def written(folder: Path, events: list[Any], name: str = "log.jsonl") -> str:
    (folder / name).write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(folder / name)


def mapped(con: runnel.Connection, path: str, *more: str) -> None:
    options = ", ".join((f"'path' = '{path}', 'format' = 'json', 'changes' = 'debezium'", *more))
    con.execute(f"CREATE OR REPLACE MAPPING orders ({COLUMNS}) TYPE File OPTIONS ({options})")


@pytest.fixture
def con() -> Any:
    with runnel.connect(query_parallelism=2) as made:
        yield made


@pytest.mark.parametrize("more", [(), ("'changeKey' = 'id'",), ("'onInconsistency' = 'trust'",)])
@pytest.mark.parametrize("has_schema", [False, True])
def test_a_file_of_changes_is_a_table(
    con: runnel.Connection, tmp_path: Path, more: tuple[str, ...], has_schema: bool
) -> None:
    events: list[Any] = EVENTS
    if has_schema:
        events = [{"schema": {"type": "struct"}, "payload": event} for event in EVENTS]
        more = (*more, "'envelopeHasSchema' = 'true'")
    mapped(con, written(tmp_path, events), *more)
    rows = "SELECT id, name, CAST(amount AS VARCHAR) FROM orders"
    assert con.execute(rows + " ORDER BY id").fetchall() == [(1, "a", "10.00"), (3, None, None)]
    assert con.execute("SELECT COUNT(*) FROM orders").fetchall() == [(2,)]
    assert con.execute("SELECT name FROM orders WHERE id = 1").fetchall() == [("a",)]
    assert con.execute(
        "SELECT x.id FROM orders AS x JOIN orders AS y ON x.id = y.id WHERE x.id > 1"
    ).fetchall() == [(3,)]
    assert con.execute("SELECT SUM(id) FROM orders EMIT CHANGES").fetchall() == [(1, 1, 4)]


def test_flinks_table(con: runnel.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, EVENTS)
    con.execute(
        "CREATE TABLE orders (id BIGINT, name STRING, amount DECIMAL(10, 2), "
        "PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'filesystem', "
        f"'path' = '{path}', 'format' = 'debezium-json', "
        "'debezium-json.ignore-parse-errors' = 'false')"
    )
    assert con.execute("SELECT id FROM orders ORDER BY 1").fetchall() == [(1,), (3,)]


def test_rows_of_a_key_need_no_row_before(con: runnel.Connection, tmp_path: Path) -> None:
    events = [
        {"after": {"id": 1, "name": "a"}, "op": "c"},
        {"before": None, "after": {"id": 1, "name": "b"}, "op": "u"},
        {"after": {"id": 1, "name": "c"}, "op": "c"},  # Debezium has read the table again
        {"after": {"id": 2, "name": "x"}, "op": "c"},
        {"before": {"id": 2}, "after": None, "op": "d"},
    ]
    path = written(tmp_path, events)
    mapped(con, path, "'changeKey' = 'id'")
    assert con.execute("SELECT id, name FROM orders").fetchall() == [(1, "c")]
    mapped(con, path)
    with pytest.raises(runnel.DataError, match="has no row before the change") as error:
        con.execute("SELECT * FROM orders").fetchall()
    assert "'changeKey'" in (error.value.hint or "")


@pytest.mark.parametrize("key", [(), ("'changeKey' = 'id'",)])
def test_a_row_that_is_not_there(
    con: runnel.Connection,
    tmp_path: Path,
    key: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = {"before": {"id": 9, "name": "x", "amount": 0}, "after": None, "op": "d"}
    path = written(tmp_path, [*EVENTS, gone])
    mapped(con, path, *key)
    with pytest.raises(runnel.DataError, match="removes a row that the table does not") as error:
        con.execute("SELECT * FROM orders").fetchall()
    assert (error.value.detail or "").startswith('mapping "orders": row (9, x, 0.00)')
    mapped(con, path, *key, "'onInconsistency' = 'skip'")
    assert con.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(1,), (3,)]
    assert "row (9" in caplog.text


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"after": {"id": 1}, "op": "t"}, "operation 't' of a change log is not supported"),
        ({"after": {"id": 1}}, "has no operation"),
        ({"before": {"id": 1}, "op": "c"}, "has no row after the change"),
    ],
)
@pytest.mark.parametrize("key", [(), ("'changeKey' = 'id'",)])
def test_events_that_are_none(
    con: runnel.Connection, tmp_path: Path, event: Any, message: str, key: tuple[str, ...]
) -> None:
    mapped(con, written(tmp_path, [event]), *key)
    with pytest.raises(runnel.DataError, match=message):
        con.execute("SELECT * FROM orders").fetchall()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'changes' = 'canal'", "wrong value 'canal'"),
        ("'changeKey' = 'id'", "is for 'changes' = 'debezium'"),
        ("'changes' = 'debezium', 'changeKey' = 'ids'", '"ids", which is no column'),
        ("'changes' = 'debezium', 'onInconsistency' = 'x'", "wrong value 'x'"),
    ],
)
def test_wrong_options(con: runnel.Connection, options: str, message: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match=message):
        con.execute(
            "CREATE MAPPING t (id BIGINT) TYPE File OPTIONS ('path' = 'x', 'format' = 'json', "
            f"{options})"
        )


def test_a_followed_log(con: runnel.Connection, tmp_path: Path) -> None:
    path = Path(written(tmp_path, EVENTS[:2]))
    mapped(con, str(path), "'changeKey' = 'id'", "'follow' = 'true'", "'pollMillis' = '1'")
    with pytest.raises(runnel.NotSupportedError, match="whose rows change") as error:
        con.execute("SELECT * FROM orders")
    assert "EMIT CHANGES" in (error.value.hint or "")
    cursor = con.execute("SELECT id, name FROM orders EMIT CHANGES")
    assert sorted(cursor.fetchone()[1:] for _ in range(2)) == [(1, 1, "a"), (1, 2, "b")]
    with path.open("a") as file:
        file.write(json.dumps(EVENTS[4]) + "\n")
    assert cursor.fetchone()[1:] == (-1, 2, "b")
    cursor.close()


@pytest.mark.parametrize("key", [(), ("'changeKey' = 'id'",)])
def test_a_job_continues_with_the_rows(tmp_path: Path, key: tuple[str, ...]) -> None:
    path = Path(written(tmp_path, EVENTS[:2]))
    more = {"before": None, "after": {"id": 4, "name": "a", "amount": 4}, "op": "c"}
    with runnel.connect(tmp_path / "directory", query_parallelism=2) as con:
        mapped(con, str(path), *key, "'follow' = 'true'", "'pollMillis' = '1'")
        con.execute("CREATE TABLE totals (name VARCHAR PRIMARY KEY, n BIGINT, most DECIMAL(10, 2))")
        con.execute(
            "CREATE JOB j OPTIONS ('processingGuarantee' = 'exactlyOnce') AS INSERT INTO totals "
            "SELECT name, COUNT(*), MAX(amount) FROM orders GROUP BY name"
        )
        job = con.job("j")

        def holds(*expected: tuple[str | None, int]) -> bool:
            query = "SELECT name, n FROM totals ORDER BY name"
            return eventually(lambda: con.execute(query).fetchall() == [*expected], PATIENCE)

        assert holds(("a", 1), ("b", 1))
        con.execute("ALTER JOB j SUSPEND")
        assert job.await_status(runnel.JobStatus.SUSPENDED, PATIENCE)
        con.execute("SET query_parallelism = 1")
        con.execute("ALTER JOB j RESUME")
        with path.open("a") as file:
            file.write("".join(json.dumps(event) + "\n" for event in (EVENTS[2], EVENTS[4], more)))
        assert holds(("a", 2))
        assert con.execute("SELECT most FROM totals").fetchall() == [(10,)]
        con.execute("DROP JOB j")
