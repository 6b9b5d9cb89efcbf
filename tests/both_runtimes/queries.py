"""Queries of the `.slt` files over tables, with the tables as they are then, and generated ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import runnel
from runnel.catalog import View
from runnel.connector import ReadableTable
from runnel.sqltypes import SqlType
from runnel.statements.arguments import argument_types
from tests.both_runtimes.pair import Difference, NoTwinError, Pair
from tests.differential.generator import Generator
from tests.differential.tables import tables
from tests.slt.records import Record, read
from tests.slt.runner import Failure, Run

SLT = Path(__file__).parents[1] / "slt"
BY_CHANCE = ("APPROX_DISTINCT(", "TABLESAMPLE")


class Asked(NamedTuple):
    """A query, and the tables and views that it needs."""

    place: str
    sql: str
    arguments: tuple[Any, ...]
    tables: dict[str, tuple[tuple[SqlType, ...], pa.Table]]
    views: dict[str, View]


class _Collecting(Run):
    """Runs a file as the suite does, and keeps its queries, those that must fail too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.found: list[Asked] = []

    def _query(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        super()._query(record, sql, arguments)
        self._keep(record, sql, arguments)

    def _statement(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        super()._statement(record, sql, arguments)
        if record.words.startswith("error") and sql.lstrip()[:6].upper() in ("SELECT", "WITH A"):
            self._keep(record, sql, arguments)

    def _keep(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        if any(word in sql.upper() for word in BY_CHANCE):
            return
        database = self._connection._database
        try:
            plan = database.prepare(sql, argument_types(arguments))
        except runnel.Error:
            return  # it is refused before a runtime is asked
        used = {id(table) for table in getattr(plan, "tables", ())}
        objects = database.catalog.snapshot.objects.values()
        found = {item.name: item.table for item in objects if not isinstance(item, View) and id(item.table) in used}
        kept = {name: table for name, table in found.items() if isinstance(table, ReadableTable) and not table.is_unbounded}
        if kept and len(kept) == len(used):
            try:
                rows = {name: (tuple(c.type for c in table.columns), self._rows(name, table)) for name, table in kept.items()}
            except runnel.Error:
                return  # a file that can't be read
            views = {item.name: item for item in objects if isinstance(item, View)}
            self.found.append(Asked(record.place, sql, arguments, rows, views))

    def _rows(self, name: str, table: ReadableTable) -> pa.Table:
        names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in table.columns)
        return self._connection.execute(f'SELECT {names} FROM "{name}"').fetch_arrow_table()


def of_file(path: Path, scratch: Path) -> list[Asked]:
    """The queries of an `.slt` file over tables."""
    folder = scratch / path.stem
    folder.mkdir()
    run = _Collecting(folder, {"query_parallelism": 1}, with_oracle=False)
    try:
        for record in read(path):
            with suppress(Failure):  # the suite tells of it
                run.run(record)
    finally:
        run.close()
    return run.found


def differences(pair: Pair, asked: Sequence[Asked], no_twin: list[str]) -> Iterator[Difference]:
    """What is otherwise on Spark; `no_twin` gets what Spark can't hold the tables of."""
    for item in asked:
        try:
            for name, (types, rows) in item.tables.items():
                pair.put(name, rows, types)
        except NoTwinError as error:
            no_twin.append(f"{item.place}: {error}")
            continue
        for view in item.views.values():
            pair.view(view)
        try:
            found = pair.difference(item.sql, item.arguments)
        finally:
            pair.forget_views(list(item.views))
        if found is not None:
            yield Difference(f"{item.place}: {found.sql}", found.what)


def generated(pair: Pair, seed: int, count: int) -> Iterator[Difference]:
    """What is otherwise in so many random queries over random tables."""
    source = random.Random(seed)
    for name, rows in tables(source).items():
        pair.put(name, rows)
    generator = Generator(source)
    for _ in range(count):
        sql, is_ordered = generator.query()
        found = pair.difference(sql, is_ordered=is_ordered)
        if found is not None:
            yield Difference(f"seed {seed}: {found.sql}", found.what)
