"""The options of Flink's connectors, as a connector of Runnel and its options.

Each option is translated, accepted because it states what Runnel does anyway, or refused by its
name with the remedy. No option is ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runnel.base.frozen import frozen
from runnel.errors import NotSupportedError, Position, ProgrammingError, suggest
from runnel.planner.parse.flink.generated import (
    RAW_FORMATS,
    milliseconds,
    processing_watermark,
    with_row_times,
)
from runnel.planner.parse.syntax import (
    ComputedClause,
    MappingColumn,
    MappingWatermark,
    Name,
    OptionClause,
)

_WITHOUT_EFFECT = ("scan.parallelism", "sink.parallelism")
"""Options that have no influence on rows."""

_DATABASE = (
    "for the rows as they are now, write con.register('t', pandas.read_sql('SELECT * FROM t', …)), "
    "or CREATE MAPPING t TYPE Spark OPTIONS ('format' = 'jdbc', 'url' = '…', 'dbtable' = 't')"
)
_OWN = (
    "read and write it in Python: con.register, con.register_stream and cursors, or by a connector "
    "of your own (docs/writing_a_connector.md)"
)
_INSTEAD = {
    **dict.fromkeys(
        ("mysql-cdc", "postgres-cdc", "mongodb-cdc", "oracle-cdc", "sqlserver-cdc", "db2-cdc"),
        "let Debezium write the changes to a topic, and read the topic: 'connector' = 'kafka', "
        "'format' = 'debezium-json'. For the rows as they are now, ATTACH or map the database",
    ),
    "faker": "use 'connector' = 'datagen' with 'fields.x.min', 'fields.x.max' and "
    "'fields.x.length'; a text of a list is ELT(n, 'a', 'b') of such a number",
    "jdbc": _DATABASE,
    **dict.fromkeys(
        (
            *(
                "elasticsearch-6",
                "elasticsearch-7",
                "elasticsearch-8",
                "opensearch",
                "opensearch-2",
            ),
            *("hbase-1.4", "hbase-2.2", "mongodb", "redis", "doris", "starrocks", "clickhouse"),
            *("kinesis", "kinesis-legacy", "dynamodb", "firehose", "pulsar", "rabbitmq", "socket"),
        ),
        _OWN,
    ),
    "paimon": "write the rows as Iceberg tables: CREATE MAPPING … TYPE Iceberg",
    "hudi": "use CREATE MAPPING … TYPE Iceberg or TYPE Delta",
    "iceberg": "use CREATE MAPPING … TYPE Iceberg",
    "delta": "use CREATE MAPPING … TYPE Delta",
    "hive": "use CREATE MAPPING … TYPE Spark OPTIONS ('table' = '…')",
}
"""The remedy for each connector of Flink that is known and has no counterpart."""

_COMMITS = (
    *("sink.rolling-policy.", "sink.partition-commit.", "auto-compaction", "compaction."),
    *("partition.time-extractor.", "sink.shuffle-by-partition."),
)
"""The beginnings of options that choose when files become visible: here with each statement, and
with each snapshot of a job."""

_READERS_DELAY = "0.1"
"""The difference in seconds between the times of rows that are read side by side, at most."""

_FILE_FORMATS = ("csv", "json", "parquet", "avro")
_FILE_FORMATS_INSTEAD = {
    "orc": "use CREATE MAPPING t TYPE Spark OPTIONS ('path' = '…', 'format' = 'orc'), or 'parquet'",
    "raw": "the lines of files are rows of SELECT * FROM READ_LINES('path')",
}
"""The remedy for formats of files without counterpart."""
_TOPIC_FORMATS = {"json": "json-flat", "csv": "csv", "avro": "avro"}


@frozen
class FlinkTable:
    """A table of Flink as it is written.

    name: the table.
    columns: its physical columns.
    computed: its computed columns.
    key: the columns of PRIMARY KEY.
    partition: the columns of PARTITIONED BY.
    watermark: WATERMARK FOR.
    """

    name: Name
    columns: tuple[MappingColumn, ...]
    computed: tuple[ComputedClause, ...]
    key: tuple[Name, ...]
    partition: tuple[Name, ...]
    watermark: MappingWatermark | None


@frozen
class Translation:
    """The mapping that stands for a table of Flink.

    connector: the connector of Runnel.
    columns: the columns of the mapping.
    options: its options.
    external_name: its name at the connector; None: the name of the mapping.
    computed: its computed columns; None: the ones of the table.
    watermark: its WATERMARK FOR; None: the one of the table.
    """

    connector: Name
    columns: tuple[MappingColumn, ...]
    options: tuple[OptionClause, ...]
    external_name: Name | None = None
    computed: tuple[ComputedClause, ...] | None = None
    watermark: MappingWatermark | None = None


class FlinkOptions:
    """The items of WITH. Each is taken once; `finish` refuses the rest."""

    def __init__(self, options: Sequence[OptionClause]) -> None:
        self._options = {option.name.text.lower(): option for option in options}
        self._known: list[str] = []
        self.connector = self._options.get("connector")
        self.result: list[OptionClause] = []
        self._taken = {"connector", *_WITHOUT_EFFECT}

    @property
    def names(self) -> Sequence[str]:
        """The names of all options of the statement, in lower case."""
        return tuple(self._options)

    @property
    def kind(self) -> str:
        return "" if self.connector is None else self.connector.value.strip().lower()

    def take(self, name: str) -> OptionClause | None:
        """The option of that name, if the statement sets it."""
        self._known.append(name)
        self._taken.add(name)
        return self._options.get(name)

    def take_prefixed(self, prefix: str) -> list[tuple[str, OptionClause]]:
        """The options whose names begin with `prefix`, with the rest of their names as written."""
        found = []
        for name, option in self._options.items():
            if name.startswith(prefix) and name not in self._taken:
                self._taken.add(name)
                found.append((option.name.text[len(prefix) :], option))
        return found

    def is_log(self, name: str) -> bool:
        """Whether the format that the option names is one of changes."""
        found = self._options.get(name)
        return found is not None and found.value.strip().lower() == "debezium-json"

    def require(self, name: str) -> OptionClause:
        """The option of that name; ProgrammingError without it."""
        found = self.take(name)
        if found is None:
            raise ProgrammingError(
                f"option '{name}' of connector '{self.kind}' is missing",
                hint=f"add '{name}' = '…'",
                position=None if self.connector is None else self.connector.name.position,
            )
        return found

    def put(self, name: str, value: str, position: Position) -> None:
        """Adds an option of the mapping."""
        self.result.append(OptionClause(Name(name, position), value))

    def assume(self, name: str, value: str, position: Position) -> None:
        """Sets an option of the statement that another one implies."""
        self._options[name] = OptionClause(Name(name, position), value)

    def rename(self, name: str, to: str) -> None:
        """Translates an option whose value means the same."""
        found = self.take(name)
        if found is not None:
            self.put(to, found.value, found.name.position)

    def only(self, name: str, values: Sequence[str], hint: str) -> None:
        """Accepts an option whose value must be one of `values`, and then has no effect."""
        found = self.take(name)
        if found is not None and found.value.strip().lower() not in values:
            raise self.refused(found, hint)

    def refused(self, option: OptionClause, hint: str) -> NotSupportedError:
        """The error for a value that has no counterpart."""
        return NotSupportedError(
            f"'{option.name.text}' = '{option.value}' of connector '{self.kind}' is not supported",
            hint=hint,
            position=option.name.position,
        )

    def finish(self) -> tuple[OptionClause, ...]:
        """The options of the mapping; NotSupportedError for an option that was not taken."""
        for name, option in self._options.items():
            if name not in self._taken:
                raise NotSupportedError(
                    f"option '{option.name.text}' of connector '{self.kind}' is not supported",
                    hint=suggest(name, self._known, _known_options(self._known)),
                    position=option.name.position,
                )
        return tuple(self.result)


def _known_options(names: Sequence[str]) -> str:
    if not names:
        return "leave it out"
    return "leave it out; the options are " + ", ".join(f"'{name}'" for name in names)


_FORMATS_INSTEAD = {
    **dict.fromkeys(
        ("canal-json", "maxwell-json", "ogg-json"),
        "use 'format' = 'debezium-json', or 'json' with the columns of a message",
    ),
    "debezium-json": "it is the format of values of connector 'kafka', not of keys or upserts",
    "avro-confluent": "a schema registry is not supported: use 'format' = 'avro' for messages "
    "without the header of a registry",
}
"""The remedy for formats of Flink without counterpart."""


def check_connector(options: FlinkOptions) -> None:
    """NotSupportedError for a connector without counterpart."""
    assert options.connector is not None
    if options.kind not in _CONNECTORS:
        known = sorted(_CONNECTORS)
        listed = "connectors of CREATE TABLE are " + ", ".join(f"'{name}'" for name in known)
        near = suggest(options.kind, [*known, *_INSTEAD], listed)
        raise NotSupportedError(
            f"connector '{options.connector.value}' of Flink is not supported",
            hint=_INSTEAD.get(options.kind, near),
            position=options.connector.name.position,
        )


def translated(table: FlinkTable, options: FlinkOptions) -> Translation:
    """The mapping for a table of Flink with a connector that has a counterpart."""
    translate = _CONNECTORS[options.kind]
    if table.partition and options.kind != "filesystem":
        raise NotSupportedError(
            f"PARTITIONED BY of connector '{options.kind}' is not supported",
            hint="leave it out",
            position=table.partition[0].position,
        )
    idle = options.take("scan.watermark.idle-timeout")
    if idle is not None:
        millis = _millis(options, idle, 0)
        if table.watermark or processing_watermark(table.computed):
            options.put("idleTimeoutMillis", millis, idle.name.position)
    options.only(
        "scan.watermark.emit.strategy",
        ("on-event", "on-periodic"),
        "use 'on-event' or 'on-periodic'",
    )
    options.take_prefixed("scan.watermark.alignment.")  # it has no influence on results
    made = translate(table, options)
    if options.kind not in ("kafka", "filesystem"):
        return made
    watermark = table.watermark or processing_watermark(table.computed, _READERS_DELAY)
    return replace(made, watermark=watermark)


def _connector(options: FlinkOptions, name: str) -> Name:
    assert options.connector is not None
    return Name(name, options.connector.name.position)


def _blackhole(table: FlinkTable, options: FlinkOptions) -> Translation:
    return Translation(_connector(options, "Discard"), table.columns, options.finish())


def _print(table: FlinkTable, options: FlinkOptions) -> Translation:
    options.rename("print-identifier", "prefix")
    options.rename("standard-error", "standardError")
    return Translation(_connector(options, "Print"), table.columns, options.finish())


def _datagen(table: FlinkTable, options: FlinkOptions) -> Translation:
    for name, to in (
        ("rows-per-second", "rowsPerSecond"),
        ("number-of-rows", "numberOfRows"),
        ("seed", "seed"),
        ("start-time", "startTime"),
    ):
        options.rename(name, to)
    for name, option in options.take_prefixed("fields."):
        # A number alone is in milliseconds.
        is_number = name.lower().endswith(".max-past") and option.value.strip().isdecimal()
        value = f"{option.value.strip()} ms" if is_number else option.value
        options.put("fields." + name, value, option.name.position)
    columns, computed = with_row_times(table.columns, table.computed)
    return Translation(
        _connector(options, "DataGen"),
        columns,
        options.finish(),
        computed=computed,
        watermark=table.watermark or processing_watermark(table.computed),
    )


def _filesystem(table: FlinkTable, options: FlinkOptions) -> Translation:
    table = _as_log(table, options)
    path = options.require("path")
    text = path.value.removeprefix("file://") if path.value.startswith("file:///") else path.value
    options.put("path", text, path.name.position)
    found = options.require("format")
    kind = found.value.strip().lower()
    if kind not in _FILE_FORMATS:
        listed = "formats are " + ", ".join(_FILE_FORMATS)
        raise options.refused(found, _FILE_FORMATS_INSTEAD.get(kind, listed))
    options.put("format", kind, found.name.position)
    # A table of Flink may be written before it has files.
    options.put("ignoreFileNotFound", "true", found.name.position)
    if table.partition:
        position = table.partition[0].position
        options.put("partitionBy", ",".join(name.text for name in table.partition), position)
        options.put("hivePartitioning", "true", position)
    if kind == "csv":
        _csv(options, found.name.position)
    elif kind == "json":
        _tolerance(options, ["json"])
        options.only("json.encode.decimal-as-plain-number", ("true",), "use 'true'")
    for prefix in _COMMITS:
        options.take_prefixed(prefix)
    options.only(
        "partition.default-name",
        ("__hive_default_partition__",),
        "NULL is the folder __HIVE_DEFAULT_PARTITION__: leave the option out",
    )
    options.only("source.path.regex-pattern", (), "write a pattern: 'path' = 'folder/*.json'")
    monitored = options.take("source.monitor-interval")
    if monitored is not None:
        options.put("follow", "true", monitored.name.position)
        options.put("pollMillis", _millis(options, monitored), monitored.name.position)
    return Translation(_connector(options, "File"), table.columns, options.finish())


def _csv(options: FlinkOptions, position: Position) -> None:
    """Flink's CSV files have no header, and nothing is found in them."""
    options.put("header", "false", position)
    for name, to, default in (
        ("csv.field-delimiter", "delimiter", ","),
        ("csv.quote-character", "quote", '"'),
        ("csv.escape-character", "escape", ""),
        ("csv.null-literal", "nullValue", ""),
    ):
        set_value = options.take(name)
        value = default if set_value is None else set_value.value
        at = position if set_value is None else set_value.name.position
        if to == "quote":
            unquoted = options.take("csv.disable-quote-character")
            if unquoted is not None and unquoted.value.strip().lower() == "true":
                value = ""
        options.put(to, value, at)
    options.only("csv.allow-comments", ("false",), "remove the comments from the files")
    _tolerance(options, ["csv"])


def _as_log(table: FlinkTable, options: FlinkOptions) -> FlinkTable:
    """The table; of changes in Debezium's format one of JSON records, whose key is an option."""
    name = "format" if options.is_log("format") else "value.format"
    if not options.is_log(name):
        return table
    position = options.require(name).name.position
    options.assume(name, "json", position)
    options.put("changes", "debezium", position)
    if table.key:
        names = ",".join(item.text for item in table.key)
        options.put("changeKey", names, table.key[0].position)
    for setting, option in options.take_prefixed(f"{name.removesuffix('format')}debezium-json."):
        if setting.lower() == "schema-include":
            options.put("envelopeHasSchema", option.value, option.name.position)
        elif not setting.lower().startswith(("encode.", "map-null-key.")):  # those are for writing
            options.assume(f"json.{setting.lower()}", option.value, option.name.position)
    return replace(table, key=())


def _tolerance(options: FlinkOptions, prefixes: Sequence[str]) -> None:
    """The options of malformed records, which are left out as a whole."""
    skipped = None
    for prefix in prefixes:
        found = options.take(f"{prefix}.ignore-parse-errors")
        if found is not None and found.value.strip().lower() == "true":
            skipped = found
        elif found is not None and found.value.strip().lower() != "false":
            raise options.refused(found, "use 'true' or 'false'")
        if prefix.endswith("json"):
            missing = "a missing field is NULL: add WHERE field IS NOT NULL"
            options.only(f"{prefix}.fail-on-missing-field", ("false",), missing)
            options.only(
                f"{prefix}.timestamp-format.standard",
                ("sql", "iso-8601"),
                "use 'SQL' or 'ISO-8601': both are read",
            )
    if skipped is not None:
        options.put("onError", "skip", skipped.name.position)


def _millis(options: FlinkOptions, option: OptionClause, least: int = 1) -> str:
    """The value of an option of Flink's type Duration, in milliseconds."""
    found = milliseconds(option.value, least)
    if found is None:
        raise options.refused(option, "write a length of time such as '500ms', '1s' or '1min'")
    return str(found)


def _kafka(table: FlinkTable, options: FlinkOptions) -> Translation:
    table = _as_log(table, options)
    topic = options.take("topic")
    if topic is None:
        pattern = options.take("topic-pattern")
        if pattern is not None:
            raise options.refused(pattern, "a mapping reads one topic: 'topic' = '…'")
        topic = options.require("topic")
    if ";" in topic.value:
        raise options.refused(topic, "a mapping reads one topic: join several by UNION ALL")
    if table.key:
        raise NotSupportedError(
            "PRIMARY KEY of connector 'kafka' is not supported",
            hint="a topic may have several rows of a key: leave PRIMARY KEY out",
            position=table.key[0].position,
        )
    keys = _key_columns(table, options)
    value_columns = tuple(item for item in table.columns if item not in keys)
    mapped = _value_format(options, value_columns)
    columns = tuple(keys.get(item) or mapped.get(item) or item for item in table.columns)
    servers = options.require("properties.bootstrap.servers")
    options.put("bootstrap.servers", servers.value, servers.name.position)
    _start(options)
    for name, option in options.take_prefixed("properties."):
        options.put(name, option.value, option.name.position)
    options.rename("sink.transactional-id-prefix", "transactional.id")
    options.only(
        "sink.delivery-guarantee",
        ("exactly-once", "at-least-once"),
        "a job commits exactly once; CREATE JOB has the option 'processingGuarantee'",
    )
    options.only("sink.partitioner", ("default",), "messages are assigned by their key")
    options.only(
        "scan.topic-partition-discovery.interval",
        ("0",),
        "leave it out: the next query or start of a job reads partitions that were added",
    )
    return Translation(_connector(options, "Kafka"), columns, options.finish(), _name_of(topic))


def _upsert_kafka(table: FlinkTable, options: FlinkOptions) -> Translation:
    """A topic with the latest row of each key, which is written only."""
    if not table.key:
        raise ProgrammingError(
            "connector 'upsert-kafka' needs a PRIMARY KEY",
            hint="add PRIMARY KEY (column) NOT ENFORCED: its columns are the key of the messages",
            position=table.name.position,
        )
    for name in ("key.format", "value.format"):
        options.require(name)
    names = {name.text.lower() for name in table.key}
    fields = ";".join(c.name.text for c in table.columns if c.name.text.lower() in names)
    included = options.take("value.fields-include")
    start = table.key[0].position
    options.assume("key.fields", fields, start)
    options.assume("value.fields-include", "EXCEPT_KEY", start)
    options.put("changes", "upsert", start)
    if included is None or included.value.strip().upper() == "ALL":
        options.put("valueIncludesKey", "true", start)
    options.take_prefixed("sink.buffer-flush.")  # messages are sent when rows are committed
    return _kafka(replace(table, key=()), options)


def _name_of(option: OptionClause) -> Name:
    return Name(option.value, option.name.position)


def _key_columns(table: FlinkTable, options: FlinkOptions) -> Mapping[MappingColumn, MappingColumn]:
    """The columns of the key, each with the column of the mapping for it; adds `keyFormat`."""
    chosen = options.take("key.format")
    fields = options.take("key.fields")
    prefix = options.take("key.fields-prefix")
    included = options.take("value.fields-include")
    if fields is None and chosen is None:
        return {}
    if chosen is None:
        options.require("key.format")
    if fields is None:
        options.require("key.fields")
    assert chosen is not None
    assert fields is not None
    if included is None or included.value.strip().upper() != "EXCEPT_KEY":
        raise NotSupportedError(
            "'value.fields-include' = 'ALL' of connector 'kafka' is not supported",
            hint="add 'value.fields-include' = 'EXCEPT_KEY': a column is part of the key or of the "
            "value",
            position=(fields if included is None else included).name.position,
        )
    names = [name.strip() for name in fields.value.split(";")]
    by_name = {item.name.text: item for item in table.columns}
    for name in names:
        if name not in by_name:
            raise ProgrammingError(
                f"'key.fields' names \"{name}\", which is no column",
                hint=suggest(name, by_name, "separate the names by semicolons"),
                position=fields.name.position,
            )
    columns = [by_name[name] for name in names]
    kind = _topic_format(options, chosen, columns)
    options.put("keyFormat", kind, chosen.name.position)
    cut = "" if prefix is None else prefix.value
    return {
        item: _external(
            item, "__key" if kind in RAW_FORMATS.values() else "__key." + name.removeprefix(cut)
        )
        for item, name in zip(columns, names, strict=True)
    }


def _external(item: MappingColumn, name: str) -> MappingColumn:
    return MappingColumn(item.name, item.type, Name(name, item.name.position))


def _value_format(
    options: FlinkOptions, columns: Sequence[MappingColumn]
) -> Mapping[MappingColumn, MappingColumn]:
    chosen = options.take("value.format") or options.take("format")
    if chosen is None:
        chosen = options.require("format")
    kind = _topic_format(options, chosen, columns)
    options.put("valueFormat", kind, chosen.name.position)
    _tolerance(
        options, [side + name for side in ("", "value.", "key.") for name in ("json", "csv")]
    )
    if kind in RAW_FORMATS.values():
        return {item: _external(item, "this") for item in columns}
    return {item: _external(item, f"this.{item.name.text}") for item in columns}


def _topic_format(
    options: FlinkOptions, chosen: OptionClause, columns: Sequence[MappingColumn]
) -> str:
    """The format of the key or the value of messages."""
    kind = chosen.value.strip().lower()
    if kind == "raw":
        found = RAW_FORMATS.get(columns[0].type.kind) if len(columns) == 1 else None
        if found is None:
            raise options.refused(
                chosen, "it is for a single column of a number type, STRING, BYTES or BOOLEAN"
            )
        return found
    if kind not in _TOPIC_FORMATS:
        listed = "formats are " + ", ".join([*_TOPIC_FORMATS, "raw"])
        raise options.refused(chosen, _FORMATS_INSTEAD.get(kind, listed))
    return _TOPIC_FORMATS[kind]


def _start(options: FlinkOptions) -> None:
    """Translates `scan.startup.mode`. The offsets of a group count only in the default mode."""
    mode = options.take("scan.startup.mode")
    options.only("scan.bounded.mode", ("unbounded",), "a topic has no end: add LIMIT to the query")
    if mode is None or mode.value.strip().lower() == "group-offsets":
        return
    starts = {"earliest-offset": "earliest", "latest-offset": "latest"}
    start = starts.get(mode.value.strip().lower())
    if start is None:
        raise options.refused(
            mode,
            "use 'earliest-offset', 'latest-offset' or 'group-offsets'; from a time on, read a "
            "column METADATA FROM 'timestamp' and add WHERE",
        )
    options.take("properties.group.id")
    options.take("properties.auto.offset.reset")
    options.put("auto.offset.reset", start, mode.name.position)


_CONNECTORS: Mapping[str, Callable[[FlinkTable, FlinkOptions], Translation]] = {
    "kafka": _kafka,
    "upsert-kafka": _upsert_kafka,
    "filesystem": _filesystem,
    "datagen": _datagen,
    "print": _print,
    "blackhole": _blackhole,
}
"""The translation of each connector of Flink that has a counterpart."""
