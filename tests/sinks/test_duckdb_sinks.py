"""DuckDB tables written by jobs that are killed: the rows and the record of their commit are one
transaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.duckdb import sink as duckdb_sink
from runnel.connectors.duckdb.connector import DuckDBConnector
from runnel.duckdb.kernel import DuckDBKernel
from runnel.errors import IntegrityError
from tests.connectors.conformance import PEOPLE, read_rows
from tests.sinks.durable_conformance import BATCHES, ROWS, DurableConformance

COLUMNS = tuple(ColumnDefinition(name, item) for name, item in PEOPLE)


class TestTablesOfAFile(DurableConformance):
    """Each opening is that of a new process: the database was closed."""

    seeds = 3

    @pytest.fixture(autouse=True)
    def _kernels(self) -> Iterator[None]:
        self.kernels: dict[Path, DuckDBKernel] = {}
        yield
        for kernel in self.kernels.values():
            kernel.close()

    def reopened(self, path: Path) -> Any:
        if path in self.kernels:
            self.kernels[path].close()
        self.kernels[path] = DuckDBKernel(2)
        return self.table(path, self.kernels[path])

    def table(self, path: Path, kernel: DuckDBKernel) -> Any:
        options = {"path": str(path / "rows.duckdb"), "table": "Rows", "create": "true"}
        return DuckDBConnector(lambda: kernel).open(MappingDefinition("t", COLUMNS, options))

    def traces(self, path: Path) -> list[str]:
        place = self.reopened(path).location
        cursor = place.kernel.cursor()
        names = [
            name
            for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            if name != "Rows"
        ]
        cursor.close()
        return names

    def test_rows_kept_by_duckdb_are_staged_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(duckdb_sink, "GATHERED_BYTES", 1)
        table = self.reopened(tmp_path)
        sink = self.sink(table)
        sink.recover(())
        for batch in BATCHES[:4]:
            sink.write(batch)
        token = sink.stage(1)
        sink.write(BATCHES[4])
        sink.commit(token)
        assert sorted(read_rows(table)) == ROWS[:12]
        sink.commit(sink.stage(2))
        assert sorted(read_rows(table)) == ROWS[:15]
        sink.close()

    def test_a_row_that_the_table_refuses_stays_staged(self, tmp_path: Path) -> None:
        table = self.reopened(tmp_path)
        cursor = table.location.kernel.cursor()
        cursor.execute(f"CREATE UNIQUE INDEX one_each ON {table.location.qualified}(id)")
        cursor.execute(f"INSERT INTO {table.location.qualified} VALUES (1, 'in the way', 0)")
        sink = self.sink(table)
        sink.recover(())
        sink.write(BATCHES[0])
        token = sink.stage(1)
        with pytest.raises(IntegrityError, match="a constraint of table"):
            sink.commit(token)
        assert read_rows(table) == [(1, "in the way", 0.0)]
        cursor.execute(f"DELETE FROM {table.location.qualified}")
        cursor.close()
        again = self.sink(table)
        again.recover([token])
        assert sorted(read_rows(table)) == ROWS[:3]

    def test_a_job_waits_for_a_statement_that_reads_and_writes(self, tmp_path: Path) -> None:
        table = self.reopened(tmp_path)
        sink = self.sink(table)
        sink.recover(())
        sink.write(BATCHES[0])
        token = sink.stage(1)
        committing = Thread(target=sink.commit, args=(token,))
        with table.exclusive():
            committing.start()
            committing.join(0.05)
            assert committing.is_alive()
        committing.join()
        assert sorted(read_rows(table)) == ROWS[:3]


class TestOwnTablesInMemory(DurableConformance):
    """Executions of one connection share its database."""

    seeds = 3

    @pytest.fixture(autouse=True)
    def _kernel(self) -> Iterator[None]:
        self.kernel = DuckDBKernel(2)
        self.connector = DuckDBConnector(lambda: self.kernel)
        yield
        self.kernel.close()

    def reopened(self, path: Path) -> Any:
        return self.connector.open(MappingDefinition(path.name, COLUMNS, {}))

    def traces(self, path: Path) -> list[str]:
        cursor = self.kernel.cursor()
        names = [
            name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        ]
        cursor.close()
        return [name for name in names if name.startswith(duckdb_sink.STAGED_PREFIX)]
