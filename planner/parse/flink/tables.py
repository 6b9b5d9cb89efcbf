"""CREATE TABLE … WITH ('connector' = …), as Flink writes it: a CREATE MAPPING."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runnel.base.nearest import nearest
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.planner.parse.flink.options import FlinkOptions, FlinkTable, check_connector, translated
from runnel.planner.parse.flink.types import flink_type
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import (
    ComputedClause,
    CreateMapping,
    MappingColumn,
    MappingWatermark,
    Name,
)
from runnel.planner.parse.tokens import read_options
from runnel.sqltypes import SqlType

_METADATA = {
    "kafka": {"timestamp": "__timestamp", "partition": "__partition", "offset": "__offset"},
    "filesystem": {
        "file.path": "__file_path",
        "file.name": "__file_name",
        "file.size": "__file_size",
        "file.modification-time": "__file_modified",
    },
}
"""The hidden columns of Runnel for the metadata of Flink's connectors, by connector and key."""
_MISSING = {
    "headers": "the headers of a message are not read: write the values into the message",
    "topic": "a mapping reads one topic: write it as a computed column, x AS 'topic'",
    "timestamp-type": "use timestamp, which is the time of the message in either case",
    "leader-epoch": "leave it out",
}
"""The remedy for metadata of Kafka that Runnel does not read."""


class FlinkColumns:
    """Reads the list of columns, WATERMARK FOR and PRIMARY KEY."""

    def __init__(self, reader: StatementReader) -> None:
        self._reader = reader
        self.columns: list[MappingColumn] = []
        self.computed: list[ComputedClause] = []
        self.watermark: MappingWatermark | None = None
        self.key: tuple[Name, ...] = ()
        self.metadata: dict[str, Name] = {}

    def read(self) -> None:
        """Reads `(column type, …)`."""
        reader = self._reader
        reader.expect("(")
        while True:
            if reader.peek() == "WATERMARK" and reader.peek(1) == "FOR":
                self._watermark()
            elif reader.peek() == "PRIMARY KEY" or (
                reader.peek() == "CONSTRAINT" and reader.peek(2) == "PRIMARY KEY"
            ):
                if reader.accept("CONSTRAINT"):
                    reader.name("the constraint")
                reader.expect("PRIMARY KEY")
                self._primary_key(reader.names("a column"))
            else:
                self._column()
            if not reader.accept(","):
                break
        reader.expect(")")
        columns = {item.name.text.lower() for item in self.columns}
        columns |= {item.name.text.lower() for item in self.computed}
        for name in self.key:
            if name.text.lower() not in columns:
                raise ProgrammingError(
                    f'column "{name}" of PRIMARY KEY is no column of the table',
                    hint=f"the columns are: {', '.join(sorted(columns))}",
                    position=name.position,
                )
        keys = {name.text.lower() for name in self.key}
        self.columns = [
            replace(item, is_not_null=True) if item.name.text.lower() in keys else item
            for item in self.columns
        ]

    def check_metadata(self, connector: str) -> None:
        """NotSupportedError for a column of metadata that the connector does not have."""
        known = _METADATA.get(connector, {})
        for key, name in self.metadata.items():
            if key not in known:
                there = ", ".join(known) or "none"
                raise NotSupportedError(
                    f"the metadata '{key}' of column \"{name}\" is not supported",
                    hint=_MISSING.get(key, f"of connector '{connector}' there are: {there}"),
                    position=name.position,
                )

    def _watermark(self) -> None:
        reader = self._reader
        if self.watermark is not None:
            raise ProgrammingError(
                "WATERMARK FOR is given twice",
                hint="a mapping has one column of event times",
                position=reader.position,
            )
        reader.expect("WATERMARK", "FOR")
        column = reader.name("a column")
        if reader.accept("."):
            field = reader.name("a field")
            raise NotSupportedError(
                "WATERMARK FOR a field of a ROW is not supported",
                hint=f"add a column: {field} AS {column}.{field}, WATERMARK FOR {field} AS …",
                position=column.position,
            )
        reader.expect("AS")
        self.watermark = MappingWatermark(column, reader.expression(",", ")"))

    def _primary_key(self, columns: tuple[Name, ...]) -> None:
        reader = self._reader
        if self.key:
            raise ProgrammingError(
                "a table has one PRIMARY KEY",
                hint="list its columns: PRIMARY KEY (a, b) NOT ENFORCED",
                position=columns[0].position,
            )
        if not reader.accept("NOT", "ENFORCED"):
            raise NotSupportedError(
                "PRIMARY KEY of external data is not checked",
                hint="write PRIMARY KEY (…) NOT ENFORCED, or leave WITH out: the table is then "
                "Runnel's own",
                position=columns[0].position,
            )
        self.key = columns

    def _column(self) -> None:
        reader = self._reader
        known = [item.name for item in self.columns] + [item.name for item in self.computed]
        name = reader.unique(reader.name("a column"), known, "column")
        if reader.peek() == "AS":
            self.computed.append(reader.computed_column(name, len(known)))
            if reader.accept("COMMENT"):
                reader.string("a comment in quotes")
            return
        kind = flink_type(reader)
        is_not_null = False
        while True:
            if reader.accept("METADATA"):
                self.computed.append(self._metadata(name, kind, len(known)))
                return
            if reader.accept("NOT", "NULL"):
                is_not_null = True
            elif reader.accept("PRIMARY KEY"):
                self._primary_key((name,))
            elif reader.accept("COMMENT"):
                reader.string("a comment in quotes")
            elif not reader.accept("NULL"):
                break
        self.columns.append(MappingColumn(name, kind, is_not_null=is_not_null))

    def _metadata(self, name: Name, kind: SqlType, index: int) -> ComputedClause:
        """Reads `[FROM 'key'] [VIRTUAL]` of a column of metadata, which is computed from a hidden
        column."""
        reader = self._reader
        key = name.text
        if reader.accept("FROM"):
            key = reader.string("the key of the metadata in quotes").text
        reader.accept("VIRTUAL")
        if reader.accept("COMMENT"):
            reader.string("a comment in quotes")
        self.metadata[key.lower()] = name
        hidden = {k: c for columns in _METADATA.values() for k, c in columns.items()}.get(
            key.lower(), ""
        )
        return ComputedClause(name, f"CAST({hidden} AS {kind})", index, type=kind)


def form_of(reader: StatementReader) -> str:
    """The form of CREATE TABLE; the reader is after the name of the table. "options": with WITH
    ('name' = …) of Flink; "composed": with LIKE, also as an item in the parentheses, or with these
    options and AS; "": another one."""
    depth, has_options = 0, False
    words = reader.words
    for index in range(reader.index, len(words)):
        word = words[index]
        if word in ("(", ")"):
            depth += 1 if word == "(" else -1
        elif depth == 0 and word == "AS":
            return "composed" if has_options else ""
        elif word == "LIKE" and (depth == 0 or _is_item(words[index - 1 : index], depth)):
            return "composed"
        elif depth == 0 and word == "WITH" and words[index + 1 : index + 2] == ["("]:
            # A text, or nothing: PostgreSQL's storage parameters are bare words.
            has_options = words[index + 2 : index + 3] in ([""], [")"])
    return "options" if has_options else ""


def _is_item(before: Sequence[str], depth: int) -> bool:
    """Whether an item of the columns begins after these words."""
    return depth == 1 and before in (["("], [","])


def parse_flink_table(
    reader: StatementReader, position: Position, name: Name, flags: tuple[bool, bool, bool]
) -> CreateMapping:
    """The rest of CREATE TABLE, after the name. `flags`: OR REPLACE, IF NOT EXISTS, TEMPORARY."""
    or_replace, if_not_exists, is_temporary = flags
    body = FlinkColumns(reader)
    if reader.peek() == "(":
        body.read()
    if reader.accept("COMMENT"):
        reader.string("a comment in quotes")
    partition = reader.names("a column") if reader.accept("PARTITIONED BY") else ()
    if not reader.at_end and reader.peek() != "WITH":
        raise NotSupportedError(
            f"{reader.peek() or 'this clause'} in a table with options is not supported",
            hint="leave it out",
            position=reader.position,
        )
    reader.expect("WITH")
    start = reader.position
    options = FlinkOptions(read_options(reader))
    if options.connector is None:
        raise ProgrammingError(
            "option 'connector' is missing",
            hint=suggest(
                next((name for name in options.names if nearest(name, ["connector"])), ""),
                ["connector"],
                "add 'connector' = 'filesystem', or leave WITH out: the table is then Runnel's own",
            ),
            position=start,
        )
    check_connector(options)
    body.check_metadata(options.kind)
    if options.kind == "filesystem" and body.metadata:
        options.put("fileColumns", "true", start)
    table = FlinkTable(
        name, tuple(body.columns), tuple(body.computed), body.key, partition, body.watermark
    )
    mapping = translated(table, options)
    return CreateMapping(
        sql=reader.sql,
        position=position,
        name=name,
        columns=mapping.columns,
        connector=mapping.connector,
        data_connection=None,
        options=mapping.options,
        external_name=mapping.external_name,
        object_type=None,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
        watermark=mapping.watermark or body.watermark,
        computed=table.computed if mapping.computed is None else mapping.computed,
        flink_text=reader.sql,
        is_temporary=is_temporary,
    )
