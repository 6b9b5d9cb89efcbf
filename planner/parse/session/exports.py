"""EXPORT DATABASE, IMPORT DATABASE and COPY FROM DATABASE."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.planner.parse.query.copies import OptionValue, copy_options
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name


@frozen(kw_only=True)
class ExportDatabase(Command):
    """EXPORT DATABASE.

    source: the database; None: the current one.
    folder: the path of the new folder.
    options: options of COPY for the files, as they are written.
    """

    source: Name | None
    folder: Name
    options: tuple[tuple[Name, OptionValue], ...]


@frozen(kw_only=True)
class ImportDatabase(Command):
    """IMPORT DATABASE.

    folder: the path of the folder that EXPORT DATABASE wrote.
    """

    folder: Name


@frozen(kw_only=True)
class CopyFromDatabase(Command):
    """COPY FROM DATABASE.

    source, target: the databases.
    has_definitions, has_rows_of_tables: whether definitions are copied, and whether rows are.
    """

    source: Name
    target: Name
    has_definitions: bool
    has_rows_of_tables: bool


def parse_export(reader: StatementReader) -> ExportDatabase:
    """EXPORT DATABASE [name TO] 'folder' [(name value, …)]"""
    position = reader.position
    reader.expect("EXPORT", "DATABASE")
    source = None
    if not reader.at_string:
        source = reader.name("a database, or a folder in quotes")
        reader.expect("TO")
    folder = reader.string("a folder in quotes")
    options = tuple(copy_options(reader))
    return ExportDatabase(
        sql=reader.sql, position=position, source=source, folder=folder, options=options
    )


def parse_import(reader: StatementReader) -> ImportDatabase:
    """IMPORT DATABASE 'folder'"""
    position = reader.position
    reader.expect("IMPORT", "DATABASE")
    folder = reader.string("a folder in quotes")
    return ImportDatabase(sql=reader.sql, position=position, folder=folder)


def parse_copy_database(reader: StatementReader) -> CopyFromDatabase:
    """COPY FROM DATABASE name TO name [(SCHEMA | DATA)]"""
    position = reader.position
    reader.expect("COPY", "FROM", "DATABASE")
    source = reader.name("a database")
    reader.expect("TO")
    target = reader.name("a database")
    has_definitions = has_rows_of_tables = True
    if reader.accept("("):
        if reader.accept("SCHEMA"):
            has_rows_of_tables = False
        elif reader.accept("DATA"):
            has_definitions = False
        else:
            raise reader.error("SCHEMA or DATA")
        reader.expect(")")
    return CopyFromDatabase(
        sql=reader.sql,
        position=position,
        source=source,
        target=target,
        has_definitions=has_definitions,
        has_rows_of_tables=has_rows_of_tables,
    )
