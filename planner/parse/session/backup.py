"""BACKUP TO."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Command, Name


@frozen(kw_only=True)
class BackupTo(Command):
    """BACKUP TO.

    target: the path of the folder, with its position.
    """

    has_rows = True
    target: Name


def parse_backup(reader: StatementReader) -> BackupTo:
    """BACKUP TO 'folder'"""
    position = reader.position
    reader.expect("BACKUP", "TO")
    return BackupTo(sql=reader.sql, position=position, target=reader.string("a folder in quotes"))
