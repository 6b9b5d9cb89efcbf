"""Streaming DataFrames: rows of micro-batches come as they are made, and the queries end
together."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.errors import Error

SCHEMA = "id BIGINT, name STRING, at TIMESTAMP_NTZ, price DECIMAL(9, 2)"


def write(folder: Path, name: str, *ids: int) -> None:
    """A file that appears whole."""
    unfinished = folder / f".{name}"
    rows = [
        {"id": i, "name": f"n{i}", "at": f"2024-01-01T00:00:{i:02}", "price": i / 4} for i in ids
    ]
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unfinished.rename(folder / name)


def test_rows_come_while_the_query_runs(
    session: Any, connection: runnel.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    monkeypatch.setattr(DataFrame, "toArrow", None)  # a batch may be larger than memory
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    write(tmp_path, "a.json", 1, 2)
    frame = session.readStream.schema(SCHEMA).json(str(tmp_path))
    connection.register("events", frame.where("id <> 2"))
    cursor = connection.execute("SELECT id, name, at, price FROM events")
    first = cursor.fetchone()
    assert first is not None
    assert first[:3] == (1, "n1", datetime(2024, 1, 1, 0, 0, 1))
    assert str(first[3]) == "0.25"
    write(tmp_path, "b.json", 3)
    assert (cursor.fetchone() or ())[0] == 3
    (query,) = session.streams.active
    cursor.close()
    assert query.awaitTermination(60)
    assert not session.streams.active
    assert session.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
    session.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def test_a_failure_in_spark_ends_ours(
    session: Any, connection: runnel.Connection, tmp_path: Path
) -> None:
    write(tmp_path, "a.json", 1)
    frame = (
        session.readStream.schema(SCHEMA)
        .json(str(tmp_path))
        .selectExpr("id", "raise_error(name) AS bad")
    )
    connection.register("events", frame)
    with pytest.raises(Error, match="n1"):
        connection.execute("SELECT id, bad FROM events").fetchone()


def test_a_stream_that_is_stopped_ends(
    session: Any, connection: runnel.Connection, tmp_path: Path
) -> None:
    write(tmp_path, "a.json", 1)
    connection.register("events", session.readStream.schema(SCHEMA).json(str(tmp_path)))
    cursor = connection.execute(
        "SELECT COUNT(*) AS n, window_end FROM TABLE(TUMBLE(TABLE(IMPOSE_ORDER(TABLE events, "
        "DESCRIPTOR(at), INTERVAL '0' SECOND)), DESCRIPTOR(at), INTERVAL '1' MINUTE)) "
        "GROUP BY window_end"
    )
    waiting = connection.execute("SELECT id FROM events")
    assert waiting.fetchone() == (1,)
    for query in session.streams.active:
        query.processAllAvailable()
        query.stop()
    assert cursor.fetchall() == [(1, datetime(2024, 1, 1, 0, 1))]
    assert waiting.fetchone() is None
