"""VACUUM, ANALYZE and CHECKPOINT: accepted without effect. Loaded on first use.

Statistics are read when a query is planned, the space of deleted rows is reclaimed by itself, and a
statement stores its changes when it ends.
"""

from __future__ import annotations

from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import NoEffect


def parse_maintenance(reader: StatementReader) -> NoEffect:
    """{VACUUM | ANALYZE | VACUUM [FULL] ANALYZE | VACUUM (option, …)} [t [(a, …)]]
    | [FORCE] CHECKPOINT [database]"""
    position = reader.position
    if reader.accept("FORCE") or reader.peek() == "CHECKPOINT":
        reader.expect("CHECKPOINT")
    elif reader.accept("VACUUM"):
        if reader.accept("("):
            _list(reader, "an option")
        for word in ("FULL", "FREEZE", "VERBOSE", "ANALYZE"):
            reader.accept(word)
    else:
        reader.expect("ANALYZE")
        reader.accept("VERBOSE")
    if not reader.at_end:
        reader.object_name("a table")
        if reader.accept("("):
            _list(reader, "a column")
    return NoEffect(sql=reader.sql, position=position)


def _list(reader: StatementReader, kind: str) -> None:
    """name, … )"""
    reader.name(kind)
    while reader.accept(","):
        reader.name(kind)
    reader.expect(")")
