"""The records of an `.slt` file: reading them, and writing a file back with new expectations.

A file is made of records divided by blank lines; `#` starts a comment line. A record's first lines
say what it is:

    statement ok                      the SQL that follows works
    statement count 3                 … and writes three rows
    statement error <regexp>          … and fails with a text that the expression is found in
    query [types] [nosort|rowsort]    the SQL up to `----` gives the rows after it, one a line,
                                      values divided by ` | `
    file <name>                       the lines that follow are put in the file $SCRATCH/<name>
    include <path>                    the records of another file, relative to this one

Types are one letter a column: I integer, R other number, T text, B boolean, D date or time, ?
anything. `rowsort` sorts both sides; without it the order counts. Before the first line of a
statement or query there may be

    oracle duckdb | oracle none       from here to the end of the file: also run on DuckDB, and
                                      compare (or no longer)
    skipif duckdb                     this record is not run on DuckDB
    onlyif duckdb                     this record is run on DuckDB only
    duckdb <SQL>                      what DuckDB runs instead, on one line
    args <Python tuple>               the values of the record's `?`

`$SCRATCH` in SQL is a folder of the run's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SEPARATOR = "----"
DIRECTIVES = ("oracle", "skipif", "onlyif", "duckdb", "args")
KINDS = ("statement", "query", "file", "include")


class SltError(Exception):
    """A file that isn't well formed."""


@dataclass(slots=True)
class Record:
    """One record. `kind` is "statement", "query" or "file"; `words` are what follows that on its
    line; `sql` the text below; `expected` the lines after `----`. `line` and `last` are its first
    and last line, from 1."""

    path: Path
    line: int
    last: int
    kind: str
    words: str
    sql: str
    expected: list[str] = field(default_factory=list)
    uses_oracle: bool = False
    skip: str = ""
    only: str = ""
    oracle_sql: str = ""
    arguments: str = ""

    @property
    def place(self) -> str:
        return f"{self.path.name}:{self.line}"

    @property
    def types(self) -> str:
        """The type letters of a query; "" where none are given."""
        first = self.words.split(" ", 1)[0]
        return "" if first in ("nosort", "rowsort") else first

    @property
    def is_sorted(self) -> bool:
        """Whether the order of a query's rows doesn't count."""
        return "rowsort" in self.words.split()


def read(path: Path) -> list[Record]:
    """The records of a file, those of included files in their place."""
    return _Reader(path).records()


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = path.read_text("utf-8").split("\n")
        self._at = 0
        self._uses_oracle = False

    def records(self) -> list[Record]:
        records: list[Record] = []
        pending: dict[str, str] = {}
        while self._at < len(self._lines):
            line = self._lines[self._at]
            word, _, rest = line.strip().partition(" ")
            if not word or word.startswith("#"):
                self._at += 1
            elif word == "include":
                self._at += 1
                records += read(self._path.parent / rest.strip())
            elif word in DIRECTIVES:
                self._at += 1
                if word == "oracle":
                    self._uses_oracle = rest.strip() == "duckdb"
                else:
                    pending[word] = rest.strip()
            elif word in KINDS:
                records.append(self._record(word, rest.strip(), pending))
                pending = {}
            else:
                raise SltError(f'{self._path}:{self._at + 1}: no such record: "{word}"')
        return records

    def _record(self, kind: str, words: str, pending: dict[str, str]) -> Record:
        start = self._at
        body: list[str] = []
        expected: list[str] = []
        target = body
        self._at += 1
        while self._at < len(self._lines) and self._lines[self._at].strip():
            line = self._lines[self._at]
            if line.strip() == SEPARATOR and target is body:
                target = expected
            else:
                target.append(line.rstrip())
            self._at += 1
        first = body[0].split(" ", 1)[0] if body and kind != "file" else ""
        if first in DIRECTIVES:
            raise SltError(f'{self._path}:{start + 2}: "{first}" belongs above the line "{kind}"')
        if not body and kind != "file":
            raise SltError(f"{self._path}:{start + 1}: a {kind} without SQL")
        return Record(
            self._path,
            start + 1,
            self._at,
            kind,
            words,
            "\n".join(body),
            expected,
            self._uses_oracle,
            pending.get("skipif", ""),
            pending.get("onlyif", ""),
            pending.get("duckdb", ""),
            pending.get("args", ""),
        )


def rewrite(path: Path, results: dict[int, list[str]], heads: dict[int, str]) -> None:
    """Writes a file with new expectations: `results` are the rows of queries, `heads` the first
    lines of records, both by the record's line."""
    lines = path.read_text("utf-8").split("\n")
    for record in sorted(
        (r for r in read(path) if r.path == path), key=lambda r: r.line, reverse=True
    ):
        new = lines[record.line - 1 : record.last]
        if record.line in heads:
            new[0] = heads[record.line]
        if record.line in results:
            cut = next((i for i, line in enumerate(new) if line.strip() == SEPARATOR), len(new))
            new = [*new[:cut], SEPARATOR, *results[record.line]]
        lines[record.line - 1 : record.last] = new
    path.write_text("\n".join(lines), "utf-8")
