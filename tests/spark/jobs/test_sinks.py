"""What Spark writes for jobs that are killed: files are seen when they are committed; tables get
rows once or more."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.connector import SinkRequest, WriteMode
from runnel.processor import Guarantee
from tests.connectors.conformance import Row
from tests.sinks.durable_conformance import BATCHES, OWNER, ROWS, DurableConformance


def table_of(connection: runnel.Connection, name: str) -> Any:
    return connection._database.catalog.snapshot.get(name).table  # type: ignore[union-attr]


class TestFilesOfSpark(DurableConformance):
    seeds = 1

    @pytest.fixture(autouse=True)
    def _connected(self, connection: runnel.Connection) -> None:
        self.connection = connection

    def reopened(self, path: Path) -> Any:
        (path / "rows").mkdir(exist_ok=True)
        self.connection.cursor().execute(
            "CREATE OR REPLACE MAPPING t (id BIGINT, name VARCHAR, score DOUBLE) "
            f"TYPE Spark OPTIONS ('format' = 'parquet', 'path' = '{path}/rows')"
        )
        return table_of(self.connection, "t")

    def rows_in(self, table: Any) -> list[Row]:
        return self.connection.cursor().execute("SELECT * FROM t").fetchall()

    def traces(self, path: Path) -> list[str]:
        return [str(item) for item in path.rglob("_runnel-*")]

    def test_a_file_taken_away_after_its_commit_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        table = self.reopened(tmp_path)
        token = self.staged(table, BATCHES[0])
        sink = self.sink(table)
        sink.commit(token)
        finals = [final for _, final in token["renames"]]
        for final in finals:
            Path(final.removeprefix("file:")).unlink()
        with caplog.at_level(logging.WARNING, "runnel.connectors.spark"):
            self.sink(table).recover([token])
        assert caplog.messages == [
            f'file "{final}" was written by a job and has been taken away since' for final in finals
        ]


def test_a_table_of_sparks_gets_the_rows_before_the_snapshot_counts(
    session: Any, connection: runnel.Connection
) -> None:
    session.sql("CREATE TABLE appended (id BIGINT, name STRING, score DOUBLE) USING parquet")
    try:
        cursor = connection.cursor()
        cursor.execute("CREATE MAPPING t TYPE Spark OPTIONS ('table' = 'appended')")
        table = table_of(connection, "t")
        assert table.guarantee is Guarantee.AT_LEAST_ONCE
        sink = table.sink(SinkRequest(WriteMode.INSERT, (0, 1, 2), OWNER))
        sink.recover(())
        token = sink.stage(1)
        sink.write(BATCHES[0])
        sink.commit(token)
        assert cursor.execute("SELECT * FROM t").fetchall() == []
        token = sink.stage(2)
        assert sorted(cursor.execute("SELECT * FROM t").fetchall()) == ROWS[:3]
        sink.commit(token)
        sink.close()
        again = table.sink(SinkRequest(WriteMode.INSERT, (0, 1, 2), OWNER))
        again.recover([token])
        assert sorted(cursor.execute("SELECT * FROM t").fetchall()) == ROWS[:3]
    finally:
        session.sql("DROP TABLE appended")
