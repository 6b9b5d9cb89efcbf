"""Queries of the `.slt` files over tables, with the tables as they are then, and generated ones."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
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
from tests.both_runtimes.workers import shared_out
from tests.differential.generator import Generator
from tests.differential.tables import tables
from tests.slt.records import Record, read
from tests.slt.runner import Failure, Run

SLT = Path(__file__).parents[1] / "slt"
BY_CHANCE = ("APPROX_DISTINCT(", "TABLESAMPLE")
AT_ONCE = 30


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
        if record.words.startswith("error") and sql.lstrip().upper().startswith(("SELECT", "WITH")):
            self._keep(record, sql, arguments)

    def _keep(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        if any(word in sql.upper() for word in BY_CHANCE):
            return
        database = self._connection._database
        try:
            plan = self._connection._session.prepare(sql, argument_types(arguments))
        except runnel.Error:
            return  # it is refused before a runtime is asked
        used = {id(table) for table in getattr(plan, "tables", ())}
        objects = database.catalog.snapshot.objects.values()
        found = {
            item.name: item.table
            for item in objects
            if not isinstance(item, View) and id(item.table) in used
        }
        kept = {
            name: table
            for name, table in found.items()
            if isinstance(table, ReadableTable) and not table.is_unbounded
        }
        if kept and len(kept) == len(used):
            try:
                rows = {
                    name: (tuple(c.type for c in table.columns), self._rows(name, table))
                    for name, table in kept.items()
                }
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


def differences(pair: Pair, asked: Sequence[Asked]) -> Iterator[Difference]:
    """What is otherwise on Spark."""
    for item in asked:
        try:
            for name, (types, rows) in item.tables.items():
                pair.put(name, rows, types)
        except NoTwinError as error:
            pair.tally.leave(str(error))
            continue
        for view in item.views.values():
            pair.view(view)
        try:
            found = pair.difference(item.sql, item.arguments)
        finally:
            pair.forget_views(list(item.views))
        if found is not None:
            yield Difference(f"{item.place}: {found.sql}", found.what)


def of_files(
    pairs: Sequence[Pair], paths: Iterable[Path], scratch: Path
) -> Iterator[tuple[str, list[Difference]]]:
    """What is otherwise on Spark in the queries of `.slt` files, some queries at a time, and where
    these stand."""
    asked = (item for path in paths for item in _parts(of_file(path, scratch)))
    yield from shared_out(asked, pairs, _of_part)


def _parts(asked: list[Asked]) -> Iterator[list[Asked]]:
    for start in range(0, len(asked), AT_ONCE):
        yield asked[start : start + AT_ONCE]


def _of_part(pair: Pair, part: list[Asked]) -> tuple[str, list[Difference]]:
    try:
        return f"{part[0].place} to {part[-1].place}", list(differences(pair, part))
    finally:
        pair.forget_rows()


def generated(pair: Pair, seed: int, count: int = 25) -> list[Difference]:
    """What is otherwise in so many random queries over random tables."""
    source = random.Random(seed)
    for name, rows in tables(source).items():
        pair.put(name, rows)
    generator = Generator(source)
    found = []
    for _ in range(count):
        sql, is_ordered = generator.query()
        difference = pair.difference(sql, is_ordered=is_ordered)
        if difference is not None:
            found.append(Difference(f"seed {seed}: {difference.sql}", difference.what))
    pair.forget_rows()
    return found
