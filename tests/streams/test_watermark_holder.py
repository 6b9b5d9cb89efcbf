"""SHOW JOBS names the partition that holds the watermark back, also if no row ever came from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

import runnel
from runnel.catalog import EventTime
from runnel.connector import EventTimeMark
from runnel.dag import DAG, between
from runnel.processor import Inbox, Item, Processor, Watermark
from tests.runtime.sample_processors import Collect, Pass
from tests.streams.scripted_table import HOLD, IDLE, Entry, ScriptedTable
from tests.waiting import eventually

SCHEMA = pa.schema([("t", pa.int64()), ("k", pa.int64())])
COUNTS = (
    "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), 10)) "
    "GROUP BY window_end"
)


def at(*times: int | None) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(times, pa.int64()), pa.array([1] * len(times), pa.int64())], schema=SCHEMA
    )


@pytest.fixture(params=[1, 2])
def con(request: pytest.FixtureRequest) -> Iterator[runnel.Connection]:
    with runnel.connect(cooperative_threads=2, query_parallelism=request.param) as connection:
        yield connection


def register(connection: runnel.Connection, name: str, *scripts: Sequence[Entry]) -> ScriptedTable:
    """A stream with these partitions, which are idle only where the script says so."""
    table = ScriptedTable(name, SCHEMA, scripts, EventTime(0, 0, 3_600_000))
    connection._register(name, table)
    return table


def shown(connection: runnel.Connection) -> tuple[str | None, str | None]:
    cursor = connection.execute("SHOW JOBS FULL")
    names = [column[0] for column in cursor.description or ()]
    (row,) = (dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    return row["watermark"], row["held_by"]


def shows(connection: runnel.Connection, query: str, *expected: str | None) -> None:
    """A query, started, comes to the watermark and the holder."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        assert eventually(lambda: shown(connection) == expected, 10), shown(connection)


def test_a_partition_without_rows(con: runnel.Connection) -> None:
    register(con, "orders", [at(5), HOLD], [at(7), HOLD], [at(9), HOLD], [HOLD])
    shows(con, COUNTS.format("orders"), None, "scan orders, partition 3 (no rows yet)")


def test_a_partition_whose_rows_have_no_time(con: runnel.Connection) -> None:
    register(con, "orders", [at(5), HOLD], [at(None), HOLD])
    shows(con, COUNTS.format("orders"), None, "scan orders, partition 1 (no event time yet)")


def test_the_partition_that_is_furthest_behind(con: runnel.Connection) -> None:
    register(con, "orders", [at(50), HOLD], [at(7), HOLD], [at(90), HOLD])
    shows(con, COUNTS.format("orders"), "7", "scan orders, partition 1")


def test_an_only_partition_has_no_number(con: runnel.Connection) -> None:
    register(con, "orders", [HOLD])
    shows(con, COUNTS.format("orders"), None, "scan orders (no rows yet)")


def test_a_mark_counts_without_rows(con: runnel.Connection) -> None:
    register(con, "orders", [EventTimeMark(30), HOLD], [at(70), HOLD])
    shows(con, COUNTS.format("orders"), "30", "scan orders, partition 0")


def test_an_idle_partition_holds_nothing_back(con: runnel.Connection) -> None:
    register(con, "orders", [at(5), HOLD], [IDLE, HOLD])
    shows(con, COUNTS.format("orders"), "5", "scan orders, partition 0")


def test_nothing_holds_it_back_when_all_are_idle(con: runnel.Connection) -> None:
    register(con, "orders", [at(5), IDLE, HOLD], [at(9), IDLE, HOLD])
    with con.cursor() as cursor:
        cursor.execute(COUNTS.format("orders"))
        assert eventually(lambda: shown(con) in (("5", None), ("9", None)), 10), shown(con)


JOINS = {
    "join over event time": (
        "SELECT a.k FROM {} AS a JOIN {} AS b ON a.k = b.k AND a.t BETWEEN b.t - 1 AND b.t + 1"
    ),
    "join of three": (
        "SELECT a.k FROM {} AS a JOIN {} AS b ON a.k = b.k AND a.t BETWEEN b.t - 1 AND b.t + 1 "
        "JOIN third AS c ON c.k = b.k AND c.t BETWEEN b.t - 1 AND b.t + 1"
    ),
    "union": (
        "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(t), 10)) "
        "GROUP BY window_end"
    ),
    "join with a table": (
        "SELECT a.k FROM {} AS a JOIN {} AS b ON a.k = b.k AND a.t BETWEEN b.t - 1 AND b.t + 1 "
        "JOIN names AS n ON n.k = a.k"
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_several_streams(con: runnel.Connection, name: str) -> None:
    register(con, "clicks", [at(5), HOLD], [at(8), HOLD])
    register(con, "third", [at(60), HOLD])
    register(con, "orders", [at(70), HOLD], [HOLD])
    con.register("names", pa.table({"k": pa.array([1], pa.int64())}))
    con.execute("CREATE VIEW u AS SELECT t, k FROM clicks UNION ALL SELECT t, k FROM orders")
    shows(
        con, JOINS[name].format("clicks", "orders"), None, "scan orders, partition 1 (no rows yet)"
    )


@pytest.mark.parametrize("name", JOINS)
def test_several_streams_of_which_one_is_behind(con: runnel.Connection, name: str) -> None:
    register(con, "clicks", [at(5), HOLD], [at(8), HOLD])
    register(con, "third", [at(60), HOLD])
    register(con, "orders", [at(70), HOLD], [at(40), HOLD])
    con.register("names", pa.table({"k": pa.array([1], pa.int64())}))
    con.execute("CREATE VIEW u AS SELECT t, k FROM clicks UNION ALL SELECT t, k FROM orders")
    shows(con, JOINS[name].format("clicks", "orders"), "5", "scan clicks, partition 0")


def test_imposed_order(con: runnel.Connection) -> None:
    table = ScriptedTable("plain", SCHEMA, [[HOLD]], None)
    con._register("plain", table)
    with con.cursor() as cursor:
        cursor.execute(
            "SELECT window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE plain, "
            "DESCRIPTOR(t), 2)), DESCRIPTOR(t), 10)) GROUP BY window_end"
        )
        assert eventually(lambda: "no rows yet" in (shown(con)[1] or ""), 10), shown(con)


def test_metrics_of_the_source(con: runnel.Connection) -> None:
    register(con, "orders", [at(5), HOLD], [HOLD])
    with con.cursor() as cursor:
        cursor.execute(COUNTS.format("orders"))
        (job,) = con._database.jobs.running()

        def holders() -> list[str | None]:
            return [item.held_by for item in job.metrics()["scan orders"].processors]

        expected = "scan orders, partition 1 (no rows yet)"
        assert eventually(lambda: expected in holders(), 10)


class Script(Processor):
    """A source of the user: offers its items, and then waits without an end."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = list(items)

    def complete(self) -> bool:
        while self.items and self.outbox.offer(self.items[0]):
            self.items.pop(0)
        if not self.items:
            self.context.wake_at(1 << 62)
        return False


class Swallow(Processor):
    """Passes on no watermark."""

    def process(self, ordinal: int, inbox: Inbox) -> None:
        inbox.clear()  # type: ignore[attr-defined]

    def process_watermark(self, watermark: Watermark) -> bool:
        return True


@pytest.mark.parametrize(
    ("left", "right", "watermark", "holder"),
    [
        ([Watermark(5)], [], None, "right (no watermark yet)"),
        ([Watermark(5)], [Watermark(3)], 3, "right"),
        ([Watermark(5)], [Watermark(7)], 5, "left"),
    ],
)
def test_sources_of_a_hand_built_dag(
    con: runnel.Connection,
    left: Sequence[Item],
    right: Sequence[Item],
    watermark: int | None,
    holder: str,
) -> None:
    dag = DAG()
    sides = [
        dag.vertex(name, lambda items=items: Script(items), 1)
        for name, items in (("left", left), ("right", right))
    ]
    meet = dag.vertex("meet", Pass, 1)
    for ordinal, side in enumerate(sides):
        step = dag.vertex(f"step {ordinal}", Pass, 2)
        dag.edge(between(side, step).partitioned("k"))
        dag.edge(between(step, meet).to_input(ordinal))
    dag.edge(between(meet, dag.vertex("end", lambda: Collect([]), 1)))
    job = con.submit(dag)
    assert eventually(lambda: job.watermark() == (watermark, holder), 10), job.watermark()
    job.cancel()
    job.wait()
