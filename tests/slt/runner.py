"""Runs `.slt` files (see `records.py` for what is in them).

python -m tests.slt.runner joins.slt             all records of a file
python -m tests.slt.runner joins.slt:120         the record at line 120, after what leads up to it
python -m tests.slt.runner joins.slt --complete  writes the results as the expected ones
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

import runnel
from runnel.catalog import View
from runnel.sqltypes import INTEGER_WIDTHS, Kind, SqlType
from tests.slt.oracle import Oracle, same
from tests.slt.records import Record, read, rewrite

Rows = list[tuple[Any, ...]]

_CREATE_MAPPING = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?MAPPING\s+(?:IF\s+NOT\s+EXISTS\s+)?(\"[^\"]+\"|\w+)",
    re.IGNORECASE,
)
_SPECIAL = re.compile(r"[][\\.^$*+?{}|()]")
_NAMES_IN_ARGUMENTS = {
    "Decimal": Decimal,
    "date": datetime.date,
    "time": datetime.time,
    "datetime": datetime.datetime,
    "timedelta": datetime.timedelta,
    "timezone": datetime.timezone,
}


class Failure(AssertionError):
    """A record that didn't do what it says."""


class Run:
    """One run of one file, on a connection of its own. `settings` are those of the connection."""

    def __init__(self, scratch: Path, settings: dict[str, Any], *, with_oracle: bool) -> None:
        self._scratch = scratch
        self._connection = runnel.connect(**settings)
        self._oracle = Oracle() if with_oracle else None
        self.results: dict[tuple[Path, int], list[str]] = {}
        self.heads: dict[tuple[Path, int], str] = {}
        self.compared = 0

    def close(self) -> None:
        self._connection.close()
        if self._oracle is not None:
            self._oracle.close()

    def run(self, record: Record) -> None:
        """Runs one record; `Failure` says what is wrong."""
        if record.kind == "file":
            (self._scratch / record.words).write_text(record.sql + "\n", "utf-8")
            return
        sql = record.sql.replace("$SCRATCH", str(self._scratch))
        arguments = _arguments(record)
        if record.only != "duckdb":
            if record.kind == "query":
                self._query(record, sql, arguments)
            else:
                self._statement(record, sql, arguments)
        elif self._oracle is not None:
            self._oracle.execute(sql, arguments)

    def says(self, error: runnel.Error, pattern: str) -> bool:
        """Whether an error is the one that is expected."""
        return re.search(pattern, str(error)) is not None

    def gives(self, shown: list[str], expected: list[str]) -> bool:
        """Whether rows are those that are expected."""
        return shown == expected

    def would_write(self, record: Record) -> bool:
        """Whether the outcome of a record that failed can be written as what is expected."""
        key = record.path, record.line
        return key in self.results or key in self.heads

    def _statement(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        outcome, _, detail = record.words.partition(" ")
        try:
            cursor = self._connection.cursor().execute(sql, arguments)
            if cursor.description is not None:
                cursor.fetchall()
        except runnel.Error as error:
            if outcome != "error" or not self.says(error, detail):
                self.heads[record.path, record.line] = (
                    f"statement error {_SPECIAL.sub(_escaped, error.message)}"
                )
            if outcome != "error":
                raise Failure(f"{record.place}: {sql}\nfailed: {error}") from error
            if not self.says(error, detail):
                raise Failure(
                    f"{record.place}: {sql}\nfailed with: {error}\nexpected:    {detail}"
                ) from error
            self._oracle_must_fail(record, sql, arguments)
            return
        if outcome == "count":
            self.heads[record.path, record.line] = f"statement count {cursor.rowcount}"
            if cursor.rowcount != int(detail):
                raise Failure(f"{record.place}: {sql}\nwrote {cursor.rowcount} rows, not {detail}")
        elif outcome == "error":
            self.heads[record.path, record.line] = "statement ok"
            raise Failure(f"{record.place}: {sql}\nworked, expected an error: {detail}")
        elif outcome != "ok":
            raise Failure(f'{record.place}: "statement {outcome}" is not known')
        self._mirror(record, sql, arguments, cursor.rowcount if outcome == "count" else None)

    def _query(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        try:
            cursor = self._connection.cursor().execute(sql, arguments)
            rows = cursor.fetchall()
        except runnel.Error as error:
            raise Failure(f"{record.place}: {sql}\nfailed: {error}") from error
        assert cursor.description is not None
        letters = "".join(_letter(column.type_code) for column in cursor.description)
        shown = _shown(rows, record)
        self.results[record.path, record.line] = shown
        if record.types:
            self.heads[record.path, record.line] = (
                f"query {letters} {record.words.partition(' ')[2]}".rstrip()
            )
            if len(letters) != len(record.types) or any(
                want not in ("?", got) for want, got in zip(record.types, letters, strict=True)
            ):
                raise Failure(
                    f"{record.place}: {sql}\ngave columns of types {letters}, not {record.types}"
                )
        if not self.gives(shown, _expected(record)):
            raise Failure(
                f"{record.place}: {sql}\ngave:\n{_indented(shown)}\nexpected:\n"
                f"{_indented(record.expected)}"
            )
        self._compare(record, sql, arguments, rows)

    def _asks_oracle(self, record: Record) -> bool:
        return self._oracle is not None and record.uses_oracle and record.skip != "duckdb"

    def _mirror(
        self, record: Record, sql: str, arguments: tuple[Any, ...], count: int | None
    ) -> None:
        if not self._asks_oracle(record):
            return
        assert self._oracle is not None
        created = _CREATE_MAPPING.match(sql)
        if created is not None and not record.oracle_sql:
            found = self._connection._database.catalog.snapshot.get(created[1].strip('"'))
            assert not isinstance(found, View)
            self._oracle.create(found.name, found.table)
            return
        theirs = self._ask(record, sql, arguments)
        if count is not None and theirs != [(count,)]:
            raise Failure(f"{record.place}: {sql}\nwrote {count} rows, but DuckDB {theirs}")
        self.compared += count is not None

    def _oracle_must_fail(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> None:
        if not self._asks_oracle(record):
            return
        assert self._oracle is not None
        try:
            rows = self._oracle.execute(record.oracle_sql or sql, arguments)
        except duckdb.Error:
            self.compared += 1
            return
        raise Failure(
            f"{record.place}: {sql}\nfailed as expected, but on DuckDB it worked: {rows[:5]}"
        )

    def _compare(self, record: Record, sql: str, arguments: tuple[Any, ...], ours: Rows) -> None:
        if not self._asks_oracle(record):
            return
        theirs = self._ask(record, sql, arguments)
        if record.is_sorted:
            ours, theirs = sorted(ours, key=_sort_key), sorted(theirs, key=_sort_key)
        if len(ours) != len(theirs) or not all(map(same, ours, theirs)):
            raise Failure(
                f"{record.place}: {sql}\ngave:\n{_indented(map(_line, ours))}\nbut DuckDB:\n"
                f"{_indented(map(_line, theirs))}"
            )
        self.compared += 1

    def _ask(self, record: Record, sql: str, arguments: tuple[Any, ...]) -> Rows:
        assert self._oracle is not None
        theirs = (record.oracle_sql or sql).replace("$SCRATCH", str(self._scratch))
        try:
            return self._oracle.execute(theirs, arguments)
        except duckdb.Error as error:
            raise Failure(f"{record.place}: {theirs}\nfailed on DuckDB: {error}") from error


def _escaped(match: re.Match[str]) -> str:
    return "\\" + match[0]


def _arguments(record: Record) -> tuple[Any, ...]:
    if not record.arguments:
        return ()
    value = eval(record.arguments, {"__builtins__": {}}, _NAMES_IN_ARGUMENTS)
    return value if isinstance(value, tuple) else (value,)


def _letter(sql_type: SqlType) -> str:
    if sql_type.kind in INTEGER_WIDTHS:
        return "I"
    if sql_type.is_numeric:
        return "R"
    if sql_type.kind is Kind.BOOLEAN:
        return "B"
    if sql_type.is_temporal or sql_type.is_interval:
        return "D"
    return "T" if sql_type.kind in (Kind.VARCHAR, Kind.JSON) else "?"


def _shown(rows: Rows, record: Record) -> list[str]:
    lines = [_line(row) for row in rows]
    return sorted(lines) if record.is_sorted else lines


def _expected(record: Record) -> list[str]:
    return sorted(record.expected) if record.is_sorted else record.expected


def _line(row: tuple[Any, ...]) -> str:
    return " | ".join(map(text, row)).rstrip()


def text(value: Any) -> str:
    """A value as it is written in a file."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") or "(empty)"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, list | tuple) and not isinstance(value, runnel.Interval):
        return "[" + ", ".join(map(text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {text(item)}" for name, item in value.items()) + "}"
    return str(value)


def _sort_key(row: tuple[Any, ...]) -> list[str]:
    return [f"{float(v):.9e}" if isinstance(v, int | float | Decimal) else text(v) for v in row]


def _indented(lines: Any) -> str:
    return "\n".join(f"    {line}" for line in lines)


def run_file(
    path: Path,
    scratch: Path,
    settings: dict[str, Any],
    *,
    with_oracle: bool,
    make: Callable[..., Run] = Run,
) -> int:
    """Runs a file; `Failure` tells all records that failed. Gives the number of statements that
    DuckDB agreed to."""
    run = make(scratch, settings, with_oracle=with_oracle)
    failures = []
    try:
        for record in read(path):
            try:
                run.run(record)
            except Failure as failure:
                failures.append(str(failure))
    finally:
        run.close()
    if failures:
        raise Failure(f"{len(failures)} records failed\n\n" + "\n\n".join(failures))
    return run.compared


def _command(
    path: Path,
    line: int | None,
    complete: bool,
    settings: dict[str, Any],
    say: Callable[[str], None],
) -> int:
    failed = written = 0
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(Path(scratch), settings, with_oracle=not complete)
        try:
            records = read(path)
            for record in records:
                wanted = line is None or (
                    record.path == path and record.line <= line <= record.last
                )
                if line is not None and (record.path == path and record.line > line):
                    break
                if not wanted and record.kind == "query":
                    continue
                try:
                    run.run(record)
                except Failure as failure:
                    written += run.would_write(record)
                    if not (complete and run.would_write(record)):
                        failed += 1
                        say(f"{failure}\n")
                except Exception as error:
                    failed += 1
                    say(f"{record.place}: {record.sql}\n{type(error).__name__}: {error}\n")
        finally:
            run.close()
    if complete:
        results = {line: rows for (file, line), rows in run.results.items() if file == path}
        rewrite(
            path, results, {line: head for (file, line), head in run.heads.items() if file == path}
        )
        say(
            f"{path}: {written} expected results were written, {failed} records failed. Read them. "
            f"They were not compared with DuckDB: run pytest tests/slt -k {path.stem}"
        )
        return min(failed, 1)
    say(f"{path}: {len(records)} records, {failed} failed, DuckDB agreed to {run.compared}")
    return min(failed, 1)


def main(arguments: list[str]) -> int:
    """The command line; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.slt.runner", description="Runs .slt files."
    )
    parser.add_argument("files", nargs="+", help="a file, or file:line")
    parser.add_argument(
        "--complete", action="store_true", help="write what came out as what is expected"
    )
    parser.add_argument(
        "--parallelism", type=int, default=1, help="the setting query_parallelism (1)"
    )
    given = parser.parse_args(arguments)
    result = 0
    for name in given.files:
        file, _, line = name.partition(":")
        number = int(line) if line else None
        result |= _command(
            Path(file), number, given.complete, {"query_parallelism": given.parallelism}, print
        )
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
