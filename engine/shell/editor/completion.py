"""Completion of SQL at the prompt: keywords, functions, tables, columns, jobs, settings, files, and
the commands of the shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from runnel import Connection, Error
from runnel.errors import as_written
from runnel.shell.commands.catalog import TABLES
from runnel.shell.commands.table import ALIASES, COMMANDS
from runnel.shell.printing import MODE_NAMES
from runnel.shell.script import is_command
from runnel.shell.shell import Shell

KEYWORDS = tuple(
    "ADD ALL ALTER ANTI AND AS ASC BACKUP BEGIN BETWEEN BY CANCEL CASE CAST COLUMN COMMIT CONFLICT "
    "CONNECTION COPY CREATE CROSS DATA DEFAULT DELETE DESC DESCRIBE DISTINCT DO DROP ELSE END "
    "EXCEPT EXISTS EXPLAIN FALSE FILTER FOR FROM FULL FUNCTIONS GROUP HAVING IF ILIKE IN INDEX "
    "INNER INSERT INTERSECT INTERVAL INTO IS JOB JOBS JOIN KEY LATERAL LEFT LIKE LIMIT MAPPING "
    "MAPPINGS MATCHED MERGE NATURAL NOT NOTHING NULL OFFSET ON OPTIONS OR ORDER OUTER OVER "
    "PARTITION PRIMARY QUALIFY RECURSIVE RENAME REPLACE RESET RESUME RETURNING RIGHT ROLLBACK ROWS "
    "SELECT SEMI SET SETTINGS SHOW SINK SNAPSHOT SUSPEND TABLE TEMP THEN TO TRUE TRUNCATE TYPE "
    "UNION UNIQUE UPDATE USING VALUES VERIFY VIEW VIEWS WATERMARK WHEN WHERE WINDOW WITH".split()
)
_WORD = re.compile(r"[\w$]*\Z")
_QUALIFIED = re.compile(r"""("(?:[^"]|"")*"|[\w$]+)\.([\w$]*)\Z""")
_FILE = re.compile(r"""\b(?:FROM|JOIN|TO|COPY|read_\w+\s*\()\s*'([^']*)\Z""", re.IGNORECASE)
_BEFORE = re.compile(r"""([A-Za-z_]+)\s+[\w$]*\Z""")
_TABLE_CLAUSE = re.compile(
    r"""\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING|,)\s*("(?:[^"]|"")*"|[A-Za-z_][\w$]*)"""
    r"""(?:\s+(?:AS\s+)?("(?:[^"]|"")*"|[A-Za-z_][\w$]*))?""",
    re.IGNORECASE,
)
_BEFORE_TABLE = frozenset("FROM JOIN INTO UPDATE TABLE DESCRIBE DESC VIEW TRUNCATE MAPPING".split())
_OF_TABLES = frozenset(("\\d", "\\dt", "\\dv", ".schema", ".tables"))


@dataclass
class CatalogNames:
    """Names that statements can use.

    tables: the tables and views.
    columns: the columns by the lower-case name of their table.
    functions: the functions, in lower case.
    jobs: the named jobs.
    settings: the settings.
    """

    tables: list[str] = field(default_factory=list)
    columns: dict[str, list[str]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    jobs: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)


def catalog_names(connection: Connection) -> CatalogNames:
    """The names that a connection has now. Names that cannot be read are left out."""
    found = CatalogNames()
    found.tables = [row[0] for row in _rows(connection, TABLES)]
    for table, column in _rows(
        connection,
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = 'public' ORDER BY table_name, ordinal_position",
    ):
        found.columns.setdefault(table.lower(), []).append(column)
    found.functions = [row[0].lower() for row in _rows(connection, "SHOW FUNCTIONS")]
    found.jobs = [row[1] for row in _rows(connection, "SHOW JOBS") if row[1]]
    found.settings = [row[0] for row in _rows(connection, "SHOW SETTINGS")]
    return found


def _rows(connection: Connection, sql: str) -> list[tuple[str, ...]]:
    with suppress(Error), connection.execute(sql, timeout=5.0) as cursor:
        return cursor.fetchall()
    return []


class SqlCompleter(Completer):
    """Completes the word before the cursor. The catalog is read again after a statement."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._names = CatalogNames()
        self._read_at = -1
        self._paths = PathCompleter(expanduser=True)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """The completions, the most likely ones first."""
        before = document.text_before_cursor
        in_file = _FILE.search(before)
        if is_command(document.text) or before.lstrip() in (".", "\\"):
            yield from self._of_command(before.lstrip())
        elif in_file is not None:
            yield from self._of_path(in_file[1], complete_event)
        else:
            yield from self._of_sql(document.text, before)

    def names(self) -> CatalogNames:
        """The names of the catalog as of the last statement."""
        changes = self._shell.changes
        if changes != self._read_at:
            self._names = catalog_names(self._shell.connection)
            self._read_at = changes
        return self._names

    def _of_path(self, path: str, event: CompleteEvent) -> Iterator[Completion]:
        yield from self._paths.get_completions(Document(path), event)

    def _of_command(self, before: str) -> Iterator[Completion]:
        name, space, rest = before.partition(" ")
        if not space:
            return (yield from _completions((*COMMANDS, *ALIASES), name))
        word = rest.split(" ")[-1]
        if name == ".mode":
            yield from _completions(MODE_NAMES, word)
        elif name in _OF_TABLES:
            yield from _completions(self.names().tables, word)
        elif name == "\\df":
            yield from _completions(self.names().functions, word)
        elif name == "\\dj":
            yield from _completions(self.names().jobs, word)
        elif name in (".import", ".export") and " " in rest:
            yield from _completions(self.names().tables, word)
        elif name in (".import", ".export", ".read", "\\i", ".open"):
            yield from self._of_path(word, CompleteEvent())
        elif name == "\\watch":
            yield from self._of_sql(rest, rest)

    def _of_sql(self, text: str, before: str) -> Iterator[Completion]:
        names = self.names()
        qualified = _QUALIFIED.search(before)
        tables = self._tables_in(text)
        if qualified is not None:
            table = tables.get(_unquoted(qualified[1]).lower(), _unquoted(qualified[1]).lower())
            return (yield from _completions(names.columns.get(table, ()), qualified[2]))
        found = _WORD.search(before)
        word = found[0] if found is not None else ""
        clause = _BEFORE.search(before)
        last = clause[1].upper() if clause is not None else ""
        if last in _BEFORE_TABLE:
            yield from _completions(names.tables, word)
            return
        if last in ("JOB", "SET", "RESET") or (last == "SHOW" and word):
            yield from _completions(names.jobs if last == "JOB" else names.settings, word)
            if last != "SHOW":
                return
        if not word:
            return
        known = dict.fromkeys(tables.values()) or names.columns
        columns = [column for table in known for column in names.columns.get(table, ())]
        keywords = [_cased(item, word) for item in KEYWORDS]
        functions = [_cased(item, word) for item in names.functions]
        yield from _completions(
            dict.fromkeys((*columns, *keywords, *names.tables, *functions)), word
        )

    def _tables_in(self, text: str) -> dict[str, str]:
        """The tables that a statement names, in lower case, by their names and aliases."""
        found: dict[str, str] = {}
        for match in _TABLE_CLAUSE.finditer(text):
            table = _unquoted(match[1]).lower()
            if table in self._names.columns:
                found[table] = table
                if match[2] and match[2].upper() not in KEYWORDS:
                    found[_unquoted(match[2]).lower()] = table
        return found


def _completions(names: Iterable[str], word: str) -> Iterator[Completion]:
    """The names that begin with the word."""
    for name in names:
        if name.lower().startswith(word.lower()):
            is_plain = name[:1] in "\\." or name.upper() in KEYWORDS
            yield Completion(name if is_plain else as_written(name), start_position=-len(word))


def _cased(name: str, word: str) -> str:
    """The name in lower case if the word is written in lower case."""
    return name.upper() if word.isupper() else name.lower()


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
