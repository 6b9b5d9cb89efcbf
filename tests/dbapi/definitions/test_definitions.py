"""CREATE and DROP of mappings, views and indexes; registrations; what they refuse."""

from __future__ import annotations

import pyarrow as pa
import pytest

import runnel
from runnel import Connection, Cursor

MAP = (
    "(__key BIGINT, name VARCHAR, price DECIMAL(10, 2)) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
)


@pytest.fixture
def trades(connection: Connection) -> Cursor:
    cursor = connection.cursor()
    cursor.execute(f"CREATE MAPPING trades {MAP}")
    cursor.executemany("INSERT INTO trades VALUES (?, ?, ?)", [(1, "a", 1.5), (2, "b", 2.5)])
    return cursor


def names(cursor: Cursor, what: str) -> list[str]:
    return [row[0] for row in cursor.execute(f"SHOW {what}")]


def test_definitions_have_no_rows_and_no_count(cursor: Cursor) -> None:
    cursor.execute(f"CREATE MAPPING m {MAP}")
    assert cursor.description is None
    assert cursor.rowcount == -1


def test_show_lists_what_there_is(trades: Cursor) -> None:
    trades.execute("CREATE VIEW cheap AS SELECT name FROM trades WHERE price < 2")
    trades.execute("CREATE INDEX by_name ON trades (name) TYPE HASH")
    assert trades.execute("SHOW MAPPINGS").fetchall() == [
        ("trades", "IMap", None, "__key BIGINT, name VARCHAR, price DECIMAL(10, 2)")
    ]
    assert trades.execute("SHOW VIEWS").fetchall() == [
        ("cheap", "SELECT name FROM trades WHERE price < 2", "name VARCHAR")
    ]
    assert trades.execute("SHOW INDEXES").fetchall() == [("by_name", "trades", "name", "hash")]


def test_names_match_without_regard_to_case(trades: Cursor) -> None:
    assert trades.execute("SELECT NAME FROM Trades WHERE __KEY = 1").fetchall() == [("a",)]
    with pytest.raises(runnel.ProgrammingError, match='mapping "trades" exists already'):
        trades.execute(f"CREATE MAPPING TRADES {MAP}")


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (f"CREATE MAPPING trades {MAP}", 'mapping "trades" exists already', "OR REPLACE MAPPING"),
        (
            "CREATE VIEW trades AS SELECT 1 AS x",
            'mapping "trades" exists already',
            "DROP MAPPING trades",
        ),
        (
            "CREATE VIEW flights AS SELECT 1 AS x",
            'registration "flights" exists already',
            'unregister("flights")',
        ),
        (f"CREATE OR REPLACE MAPPING v {MAP}", 'view "v" exists already', "DROP VIEW v"),
        ("CREATE INDEX i ON trades (name)", 'index "i" exists already', "IF NOT EXISTS"),
        ("CREATE INDEX j ON v (one)", 'view "v" can\'t have an index', "TYPE IMap"),
        ("CREATE INDEX j ON tradse (name)", 'object "tradse" not found', 'did you mean "trades"?'),
        ("DROP MAPPING tradse", 'mapping "tradse" not found', 'did you mean "trades"?'),
        ("DROP VIEW nothing", 'view "nothing" not found', None),
        ("DROP INDEX nothing", 'index "nothing" not found', None),
        ("DROP VIEW trades", '"trades" is a mapping, not a view', "DROP MAPPING trades"),
        ("DROP MAPPING v", '"v" is a view, not a mapping', "DROP VIEW v"),
        (
            "DROP MAPPING flights",
            '"flights" is a registration, not a mapping',
            'unregister("flights")',
        ),
    ],
)
def test_refusals(trades: Cursor, sql: str, message: str, hint: str | None) -> None:
    trades.execute("CREATE VIEW v AS SELECT 1 AS one")
    trades.execute("CREATE INDEX i ON trades (name)")
    trades.connection.register("flights", pa.table([pa.array([1])], names=["x"]))
    with pytest.raises(runnel.ProgrammingError) as caught:
        trades.execute(sql)
    assert caught.value.message == message
    if hint is not None:
        assert caught.value.hint is not None and hint in caught.value.hint


def test_conditional_forms_do_nothing_where_there_is_nothing_to_do(trades: Cursor) -> None:
    trades.execute(f"CREATE MAPPING IF NOT EXISTS trades {MAP}")
    trades.execute("CREATE VIEW IF NOT EXISTS trades AS SELECT 1 AS x")
    trades.execute("CREATE INDEX IF NOT EXISTS i ON trades (name)")
    trades.execute("CREATE INDEX IF NOT EXISTS i ON trades (price)")
    assert trades.execute("SHOW INDEXES").fetchall() == [("i", "trades", "name", "sorted")]
    trades.execute("DROP MAPPING IF EXISTS nothing")
    trades.execute("DROP VIEW IF EXISTS nothing")
    trades.execute("DROP INDEX IF EXISTS nothing")
    assert names(trades, "MAPPINGS") == ["trades"]


def test_data_outlive_the_mapping(trades: Cursor) -> None:
    trades.execute("CREATE INDEX i ON trades (name)")
    trades.execute("DROP MAPPING trades")
    assert names(trades, "MAPPINGS") == [] and names(trades, "INDEXES") == []
    trades.execute(f"CREATE MAPPING trades {MAP}")
    assert trades.execute("SELECT COUNT(*) FROM trades").fetchone() == (2,)


def test_replacing_a_mapping_drops_indexes_that_it_cannot_have(trades: Cursor) -> None:
    trades.execute("CREATE INDEX by_name ON trades (name)")
    trades.execute("CREATE INDEX by_price ON trades (price)")
    trades.execute(
        "CREATE OR REPLACE MAPPING trades (__key BIGINT, name VARCHAR) TYPE IMap "
        "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
    )
    assert names(trades, "INDEXES") == ["by_name"]


def test_a_plan_sees_changes_of_what_it_names(trades: Cursor) -> None:
    trades.execute("CREATE VIEW v AS SELECT name FROM trades")
    select = "SELECT * FROM v ORDER BY 1"
    assert trades.execute(select).fetchall() == [("a",), ("b",)]
    trades.execute("CREATE OR REPLACE VIEW v AS SELECT price FROM trades")
    assert [float(price) for (price,) in trades.execute(select)] == [1.5, 2.5]
    trades.execute("DROP VIEW v")
    with pytest.raises(runnel.ProgrammingError, match='object "v" not found'):
        trades.execute(select)


def test_a_view_that_would_use_itself_is_refused(trades: Cursor) -> None:
    trades.execute("CREATE VIEW a AS SELECT name FROM trades")
    trades.execute("CREATE VIEW b AS SELECT name FROM a")
    with pytest.raises(runnel.ProgrammingError):
        trades.execute("CREATE OR REPLACE VIEW a AS SELECT name FROM b")
    assert trades.execute("SELECT COUNT(*) FROM b").fetchone() == (2,)


def test_an_unsound_view_is_refused(trades: Cursor) -> None:
    with pytest.raises(runnel.ProgrammingError, match="nmae"):
        trades.execute("CREATE VIEW v AS SELECT nmae FROM trades")
    assert names(trades, "VIEWS") == []


def test_unknown_connector(cursor: Cursor) -> None:
    with pytest.raises(runnel.ProgrammingError) as caught:
        cursor.execute("CREATE MAPPING m (a BIGINT) TYPE IMpa")
    assert caught.value.hint == 'did you mean "IMap"?'


def test_registrations(connection: Connection) -> None:
    cursor = connection.cursor()
    connection.register("t", pa.table([pa.array([1, 2])], names=["x"]))
    cursor.execute("CREATE VIEW v AS SELECT SUM(x) AS total FROM t")
    assert cursor.execute("SELECT total FROM v").fetchall() == [(3,)]
    connection.register("T", pa.table([pa.array([10, 20])], names=["x"]))
    assert cursor.execute("SELECT total FROM v").fetchall() == [(30,)]
    connection.unregister("t")
    with pytest.raises(runnel.ProgrammingError, match='object "t" not found'):
        cursor.execute("SELECT total FROM v")
    with pytest.raises(runnel.ProgrammingError, match='registration "t" not found'):
        connection.unregister("t")


def test_a_name_that_is_taken_cannot_be_registered(trades: Cursor) -> None:
    table = pa.table([pa.array([1])], names=["x"])
    with pytest.raises(runnel.ProgrammingError, match='mapping "trades" exists already'):
        trades.connection.register("trades", table)
    with pytest.raises(runnel.ProgrammingError):
        trades.connection.register("n", 17)
