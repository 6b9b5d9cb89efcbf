"""A connector of one's own: tables of a SQLite file, which is asked only for the columns and rows
that a query needs.

A package that brings it declares, in setup.cfg, [options.entry_points] runnel.connectors =
ExampleSQLite = module:SqliteConnector
"""

from __future__ import annotations

import sqlite3
import tempfile
from typing import Any

import runnel
from runnel.catalog import TableColumn
from runnel.connector import Connector, MappingDefinition, ReadableTable, ScanRequest
from runnel.connectors.comparisons import comparisons
from runnel.connectors.iterators import IteratorSource, batches_of_rows
from runnel.connectors.options import OptionSet, text
from runnel.processor import JobContext
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR

PATH, TABLE = text("path", required=True), text("table", required=True)
TYPES = {"INTEGER": BIGINT, "REAL": DOUBLE, "TEXT": VARCHAR}
SIGNS = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
quoted = '"{}"'.format


class SqliteConnector(Connector):
    name = "ExampleSQLite"

    def open(self, definition: MappingDefinition) -> SqliteTable:
        options = OptionSet(self.name, PATH, TABLE).read(definition.options)
        database = sqlite3.connect(options.require(PATH), check_same_thread=False)
        found = database.execute(
            "SELECT name, type FROM pragma_table_info(?)", [options.require(TABLE)]
        ).fetchall()
        if not found:
            raise runnel.ProgrammingError(f'table "{options.require(TABLE)}" of SQLite not found')
        columns = tuple(TableColumn(name, TYPES[kind]) for name, kind in found)
        return SqliteTable(definition.name, columns, database, options.require(TABLE))


class SqliteTable(ReadableTable):
    connector = "ExampleSQLite"

    def __init__(
        self, name: str, columns: tuple[TableColumn, ...], database: sqlite3.Connection, table: str
    ) -> None:
        self.name, self.columns, self.database, self.table = name, columns, database, quoted(table)

    def row_count(self) -> int:
        return int(self.database.execute(f"SELECT COUNT(*) FROM {self.table}").fetchone()[0])

    def scan(self, request: ScanRequest) -> IteratorSource:
        columns = [self.columns[i] for i in request.columns]
        return IteratorSource(
            lambda context: batches_of_rows(self.rows(request, columns, context), columns)
        )

    def rows(self, request: ScanRequest, columns: list[TableColumn], context: JobContext) -> Any:
        """Runs when a query starts. Comparisons with constants save work; whatever else is in WHERE
        is done by the caller. SQLite reads a quoted name without a table as a text if the column is
        gone, compares texts by the column's collation, and binds NaN as NULL."""
        tests = [
            item
            for item in comparisons(request.predicate, context.evaluation)
            if len(item.values) == 1 and item.values[0] == item.values[0]
        ]
        chosen = ", ".join(f"t.{quoted(column.name)}" for column in columns) or "1"
        where = "".join(
            f" AND t.{quoted(item.column.name)} COLLATE BINARY {SIGNS[item.operation]} ?"
            for item in tests
        )
        query, values = (
            f"SELECT {chosen} FROM {self.table} AS t WHERE 1{where}",
            [item.values[0] for item in tests],
        )
        print("SQLite runs:", query, values)
        return self.database.execute(query, values)


def main() -> None:
    with tempfile.NamedTemporaryFile(suffix=".db") as file, runnel.connect() as con:
        with sqlite3.connect(file.name) as own:
            own.execute("CREATE TABLE readings (sensor TEXT, hour INTEGER, value REAL)")
            own.executemany(
                "INSERT INTO readings VALUES (?, ?, ?)",
                [(f"s{i % 3}", i, i / 4) for i in range(1000)],
            )
        con.add_connector(SqliteConnector())
        con.execute(
            f"CREATE MAPPING readings TYPE ExampleSQLite OPTIONS ('path' = '{file.name}', "
            "'table' = 'readings')"
        )
        query = (
            "SELECT sensor, MAX(value) FROM readings WHERE hour >= ? AND hour < 200 "
            "GROUP BY sensor ORDER BY sensor"
        )
        print(con.execute(query, [190]).fetchall())


if __name__ == "__main__":
    main()
