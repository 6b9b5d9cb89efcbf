"""`Cursor.progress`: what it tells while a statement runs, and when there is nothing to tell."""

from __future__ import annotations

from threading import Thread

import pyarrow as pa

import runnel
from runnel.results.progress import QueryProgress, StepProgress


def test_rows_by_step_while_a_query_waits_for_its_reader(connection: runnel.Connection) -> None:
    connection.register("numbers", pa.table({"n": range(3_000_000)}))
    cursor = connection.cursor()
    assert cursor.progress() is None
    cursor.execute("SELECT n + 1 AS m FROM numbers WHERE n >= 10")
    cursor.fetchone()
    told = cursor.progress()
    assert told is not None
    assert not told.is_done
    assert told.share is None
    assert 0 < told.steps[0].rows_out < 3_000_000
    cursor.fetchall()
    assert cursor.progress() is None, "all rows are there"


def test_a_statement_that_still_executes_tells_another_thread(
    connection: runnel.Connection,
) -> None:
    held: list[QueryProgress | None] = []
    cursor = connection.cursor()

    def look(n: int) -> int:
        if n == 5_000:
            thread = Thread(target=lambda: held.append(cursor.progress()))
            thread.start()
            thread.join()
        return n

    connection.create_function("look", look, ["BIGINT"], "BIGINT", scalar=True)
    connection.register("numbers", pa.table({"n": range(10_000)}))
    cursor.execute(
        "CREATE MAPPING kept TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
    )
    cursor.execute("INSERT INTO kept SELECT n, look(n) FROM numbers")
    assert held and held[0] is not None
    assert not held[0].is_done
    assert held[0].steps


def test_how_it_reads() -> None:
    steps = (
        StepProgress("scan sales", 0, 1_200_000, 37, 100),
        StepProgress("aggregate", 1_200_000, 0),
    )
    assert str(QueryProgress(2.04, False, steps)).split("\n") == [
        "running for 2.0 s, 37% of the known tasks",
        "  scan sales: 1,200,000 rows out, 37 of 100 tasks",
        "  aggregate: 1,200,000 rows in, 0 rows out",
    ]
    assert str(QueryProgress(0.5, True, steps[1:])).split("\n")[0] == "done in 0.5 s"
