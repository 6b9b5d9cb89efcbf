"""Tasks of a user of Flink SQL over streams: a query returns the rows that the same query returns
over a table. `flink_tasks.slt` has the tasks over tables, which are compared with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

import runnel
from runnel import Connection
from runnel.testing import ManualClock

COLUMNS = {"order_id": "BIGINT", "customer": "VARCHAR", "amount": "INTEGER", "ts": "TIMESTAMP"}
START = datetime(2030, 1, 1, 12)
ORDERS = [
    (number, "abc"[number % 3], number * 7 % 10, START + timedelta(seconds=number * 37))
    for number in range(60)
]
WINDOW = "TABLE(TUMBLE(TABLE {0}, DESCRIPTOR(ts), INTERVAL '5' MINUTES))"
QUERIES = {
    "windows": "SELECT window_start, customer, SUM(amount) FROM " + WINDOW + " "
    "GROUP BY window_start, window_end, customer",
    "group windows": "SELECT HOP_START(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE), COUNT(*) "
    "FROM {0} GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)",
    "named arguments": "SELECT window_start, window_end, COUNT(*) FROM TABLE(HOP(DATA => "
    "TABLE {0}, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '1' MINUTE, "
    "SIZE => INTERVAL '3' MINUTE)) "
    "GROUP BY window_start, window_end",
    "cumulate": "SELECT window_start, window_end, COUNT(*) FROM TABLE(CUMULATE(TABLE {0}, "
    "DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)) "
    "GROUP BY window_start, window_end",
    "sessions": "SELECT customer, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE {0} "
    "PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '1' MINUTES)) "
    "GROUP BY customer, window_start, window_end",
    "top n": "SELECT * FROM (SELECT order_id, window_start, ROW_NUMBER() OVER (PARTITION BY "
    "window_start, window_end ORDER BY amount DESC, order_id) AS rn FROM " + WINDOW + ") "
    "WHERE rn <= 2",
    "deduplication": "SELECT order_id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    "window_start, window_end, customer ORDER BY ts DESC) AS rn FROM " + WINDOW + ") WHERE rn = 1",
    "over": "SELECT order_id, SUM(amount) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN "
    "INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW) FROM {0}",
    "interval join": "SELECT a.order_id, b.order_id FROM {0} a, {0} b WHERE "
    "a.customer = b.customer AND b.ts BETWEEN a.ts + INTERVAL '1' SECOND "
    "AND a.ts + INTERVAL '4' MINUTE",
    "window join": "SELECT l.order_id, r.order_id FROM (SELECT * FROM " + WINDOW + ") l JOIN "
    "(SELECT * FROM " + WINDOW + ") r ON l.window_start = r.window_start AND "
    "l.window_end = r.window_end AND l.customer = r.customer WHERE l.order_id < r.order_id",
    "windows of windows": "SELECT window_end, MAX(n) FROM TABLE(TUMBLE((SELECT window_time AS t, "
    "COUNT(*) AS n FROM " + WINDOW + " GROUP BY window_start, window_end, window_time), "
    "DESCRIPTOR(t), INTERVAL '10' MINUTES)) GROUP BY window_end",
    "grouping sets": "SELECT window_end, customer, COUNT(*) FROM " + WINDOW + " "
    "GROUP BY window_start, window_end, GROUPING SETS ((customer), ())",
    "first and last": "SELECT customer, window_start, FIRST_VALUE(amount), LAST_VALUE(amount) FROM "
    + WINDOW
    + " GROUP BY customer, window_start, window_end",
    "union of two": "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE((SELECT customer, ts FROM {0} "
    "WHERE amount > 2 UNION ALL SELECT 'z', ts FROM {0}), DESCRIPTOR(ts), INTERVAL '1' MINUTES)) "
    "GROUP BY window_start, window_end",
    "interval left join": "SELECT a.order_id, b.amount FROM {0} a LEFT JOIN {0} b ON a.customer = "
    "b.customer AND b.amount > 5 AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' MINUTE",
    "full join of windows": "SELECT l.order_id, r.order_id FROM (SELECT * FROM "
    + WINDOW
    + " WHERE amount > 6) l FULL JOIN (SELECT * FROM "
    + WINDOW
    + " WHERE amount < 2) r ON l.customer = r.customer AND l.window_start = r.window_start AND "
    "l.window_end = r.window_end",
    "semi-join of windows": "SELECT l.order_id FROM (SELECT * FROM "
    + WINDOW
    + ") l WHERE l.customer IN (SELECT customer FROM (SELECT * FROM "
    + WINDOW
    + ") r WHERE l.window_start = r.window_start AND l.window_end = r.window_end "
    "AND r.amount > 7)",
    "top n of cumulate": "SELECT * FROM (SELECT order_id, window_end, ROW_NUMBER() OVER (PARTITION "
    "BY window_start, window_end ORDER BY amount DESC, order_id) AS rn FROM TABLE(CUMULATE("
    "TABLE {0}, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))) WHERE rn <= 2",
    "python function": "SELECT order_id, twice(amount) FROM {0}",
    "lookup join": "SELECT o.order_id, c.country FROM {0} AS o JOIN customers "
    "FOR SYSTEM_TIME AS OF PROCTIME() AS c ON o.customer = c.name",
    "versioned view": "WITH latest AS (SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY "
    "customer ORDER BY ts DESC) AS n FROM {0} WHERE amount > 4) WHERE n = 1) SELECT o.order_id, "
    "r.order_id, r.amount FROM {0} AS o LEFT JOIN latest FOR SYSTEM_TIME AS OF o.ts AS r "
    "ON o.customer = r.customer",
}


@pytest.fixture
def con() -> Iterator[Connection]:
    with runnel.connect() as made:
        made.execute(
            "CREATE TABLE orders_table "
            "(order_id BIGINT, customer VARCHAR, amount INTEGER, ts TIMESTAMP)"
        )
        made.cursor().executemany("INSERT INTO orders_table VALUES (?, ?, ?, ?)", ORDERS)
        made.execute("CREATE TABLE customers (name VARCHAR PRIMARY KEY, country VARCHAR)")
        made.execute("INSERT INTO customers VALUES ('a', 'AT'), ('b', 'BE')")
        made.create_function("twice", lambda x: 2 * x, ["INT"], "INT", scalar=True)
        yield made


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_over_a_stream(con: Connection, name: str) -> None:
    writer = con.register_stream("orders", COLUMNS, time_column="ts")
    cursor = con.execute(QUERIES[name].format("orders"))
    writer.write(ORDERS)
    writer.close()
    expected = con.execute(QUERIES[name].format("orders_table")).fetchall()
    assert len(expected) > 3
    assert sorted(cursor.fetchall(), key=repr) == sorted(expected, key=repr)


def available(con: Connection, query: str) -> list[Any]:
    con.settle()
    return con.execute(query).fetchall()


def test_a_job_over_generated_rows() -> None:
    clock = ManualClock(wall_start=START)
    with runnel.connect(clock=clock) as con:
        con.execute(
            "CREATE TABLE clicks (user_id INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts) "
            "WITH ('connector' = 'datagen', 'rows-per-second' = '2', 'fields.user_id.min' = '1', "
            "'fields.user_id.max' = '3')"
        )
        con.execute("CREATE TABLE per_minute (w TIMESTAMP, n BIGINT, users BIGINT)")
        con.execute(
            "CREATE JOB counting OPTIONS ('snapshotIntervalMillis' = '1000') AS "
            "INSERT INTO per_minute SELECT window_start, COUNT(*), COUNT(DISTINCT user_id) FROM "
            "TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end"
        )
        con.settle()
        for _ in range(3):
            clock.advance(timedelta(minutes=1))
            con.settle()
        clock.advance(timedelta(seconds=2))
        assert available(con, "SELECT * FROM per_minute ORDER BY w") == [
            (START + timedelta(minutes=i), 120, 3) for i in range(3)
        ]
        assert available(con, "SELECT name, status FROM information_schema.jobs") == [
            ("counting", "RUNNING")
        ]


def test_the_latest_result_of_each_key_in_a_map() -> None:
    with runnel.connect() as con:
        writer = con.register_stream("orders", COLUMNS, time_column="ts")
        con.execute("CREATE MAPPING totals (__key VARCHAR, total BIGINT) TYPE IMap")
        con.execute(
            "CREATE JOB j OPTIONS ('snapshotIntervalMillis' = '50') AS SINK INTO totals "
            "SELECT customer, SUM(amount) OVER (PARTITION BY customer ORDER BY ts) FROM orders "
            "OPTIONS ('allowUnboundedState' = 'true')"
        )
        con.settle()
        writer.write(ORDERS)
        writer.close()
        con.job("j").join(20)
        assert available(con, "SELECT * FROM totals ORDER BY __key") == [
            (name, sum(row[2] for row in ORDERS if row[1] == name)) for name in "abc"
        ]
