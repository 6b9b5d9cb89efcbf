"""TYPE Kafka: topics as streams, and as sinks.

    CREATE MAPPING trades EXTERNAL NAME trades_topic (__key VARCHAR, price DOUBLE, at TIMESTAMP)
    TYPE Kafka OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'json-flat',
        'bootstrap.servers' = 'localhost:9092')

The external name is the topic. A column of the key is `__key`, or has an external name
`__key.field`; all other columns belong to the value: `this`, or its fields. There are also three
columns that `*` does not select: __partition, __offset and __timestamp. Options that Runnel does
not know are passed to Kafka's client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runnel.access import refused
from runnel.catalog import Table, TableColumn
from runnel.connector import (
    ColumnDefinition,
    DataConnector,
    MappingDefinition,
    ReadableTable,
    ScanRequest,
    Sink,
    SinkRequest,
    Source,
    WritableTable,
    WriteMode,
)
from runnel.connectors.debezium import (
    HAS_SCHEMA,
    LOG_OPTIONS,
    changing_table,
    check_unused,
    envelope,
)
from runnel.connectors.files.records.malformed import OnError, on_error
from runnel.connectors.imap.columns import SINGLE_FORMATS
from runnel.connectors.imap.layout import KEY, VALUE
from runnel.connectors.kafka.avro import AvroCodec, parsed_schema, schema_columns
from runnel.connectors.kafka.client import consumer, topics
from runnel.connectors.kafka.job_sink import KafkaJobSink
from runnel.connectors.kafka.payloads import CsvCodec, JsonCodec, PayloadCodec, SingleColumnCodec
from runnel.connectors.kafka.sink import KafkaSink
from runnel.connectors.kafka.source import TOMBSTONE, KafkaSource
from runnel.connectors.kafka.upserts import UpsertedTopic
from runnel.connectors.options import Options, OptionSet, boolean, choice, integer, text
from runnel.errors import NotSupportedError, ProgrammingError, as_written, suggest
from runnel.processor import Guarantee
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, TIMESTAMP_TZ, VARBINARY, SqlType

KEY_FORMAT = text("keyFormat")
VALUE_FORMAT = text("valueFormat", required=True)
KEY_SCHEMA = text("keyAvroSchema")
VALUE_SCHEMA = text("valueAvroSchema")
ON_ERROR = on_error("onError")
CHANGES = choice("changes", ("upsert", "debezium"))
VALUE_INCLUDES_KEY = boolean("valueIncludesKey", False)
PARALLELISM = integer("preferredLocalParallelism", least=1)

OPTIONS = OptionSet(
    "Kafka",
    *(KEY_FORMAT, VALUE_FORMAT, KEY_SCHEMA, VALUE_SCHEMA, ON_ERROR, PARALLELISM),
    *(CHANGES, VALUE_INCLUDES_KEY),
    *LOG_OPTIONS,
)
SERVERS = ("bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers")
RECORD_FORMATS = ("json-flat", "csv", "avro")
METADATA = {"__partition": INTEGER, "__offset": BIGINT, "__timestamp": TIMESTAMP_TZ}
LOCATION = {"__partition": "partition", "__offset": "offset"}
"""The columns that say where an event of a log of changes is."""

_SINGLE = {**SINGLE_FORMATS, "varbinary": VARBINARY}


class KafkaConnector(DataConnector):
    """Topics of Kafka clusters."""

    name = "Kafka"
    keeps_bounds = True
    connection_options = ()
    resource_types = ("TOPIC",)

    def open(self, definition: MappingDefinition) -> Table:
        if definition.object_type is not None:
            raise NotSupportedError(
                f'connector Kafka has no object type "{definition.object_type}"'
            )
        own, client = _divided(definition.options)
        options = OPTIONS.read(own)
        if "schema.registry.url" in client:
            raise NotSupportedError(
                'option "schema.registry.url": schemas from a registry are not supported',
                hint="give the schema itself: 'valueAvroSchema' = '{…}'",
            )
        for name in client:
            if not definition.is_granted(name):
                # Among them are addresses, and files and libraries that the client loads.
                raise refused(
                    f'option "{name}" of connector Kafka',
                    "the owner makes a data connection with it, which your mapping names",
                )
        _check_client(client)
        changes, includes_key = options.get(CHANGES), options.require(VALUE_INCLUDES_KEY)
        if includes_key and changes != "upsert":
            raise ProgrammingError(
                "option \"valueIncludesKey\" is for 'changes' = 'upsert'", hint="leave it out"
            )
        if changes == "debezium":
            return _log(definition, options, client)
        check_unused(options)
        table = KafkaTable(definition, options, client)
        if changes is None:
            return table
        if includes_key:
            table.repeat_key_in_value(definition, options)
        return UpsertedTopic(table, EventTable(definition, options, client, table))

    def check_connection(self, options: Mapping[str, str]) -> None:
        own, client = _divided(options)
        if own:
            raise ProgrammingError(
                f'option "{next(iter(own))}" belongs to a mapping, not to a data connection',
                hint="give it in CREATE MAPPING",
            )
        _check_client(client)

    def resources(self, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        client = consumer(_divided(options)[1])
        try:
            return [(name, "TOPIC") for name in topics(client)]
        finally:
            client.close()


class KafkaTable(ReadableTable, WritableTable):
    """One topic."""

    connector = "Kafka"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(
        self, definition: MappingDefinition, options: Options, client_options: Mapping[str, str]
    ) -> None:
        self.name = definition.name
        self.topic = definition.external_name or definition.name
        self.client_options = dict(client_options)
        self.on_error: OnError = options.require(ON_ERROR)
        self.malformed_target = self.on_error.mapping
        declared = [(column, _path(column)) for column in definition.columns]
        keys = [
            (column, path) for column, path in declared if path == KEY or path.startswith(KEY + ".")
        ]
        values = [item for item in declared if item not in keys]
        found: list[TableColumn] = []
        key_format = options.get(KEY_FORMAT)
        if keys and key_format is None:
            raise ProgrammingError(
                f'column "{keys[0][0].name}" is part of the key, but option "keyFormat" is missing',
                hint="add 'keyFormat'",
            )
        self.key_side: PayloadCodec | None = None
        if key_format is not None and (keys or not declared):
            self.key_side = _codec(KEY, key_format, options.get(KEY_SCHEMA), keys)
            found += self.key_side.columns
        self.value_side: PayloadCodec | None = None
        if values or not declared:
            self.value_side = _codec(
                VALUE, options.require(VALUE_FORMAT), options.get(VALUE_SCHEMA), values
            )
            found += self.value_side.columns
        order = {column.name: index for index, (column, _) in enumerate(declared)}
        shown = sorted(found, key=lambda column: order.get(column.name, 0))
        taken = {column.name.lower() for column in shown}
        if len(taken) < len(shown):
            raise ProgrammingError(
                f'a column of "{self.name}" comes twice',
                hint="give it another name and an EXTERNAL NAME",
            )
        hidden = [
            TableColumn(name, item, hidden=True)
            for name, item in METADATA.items()
            if name not in taken
        ]
        self.columns = (*shown, *hidden)
        positions = {column.name: position for position, column in enumerate(self.columns)}
        self.key_indexes = _positions(self.key_side, positions)
        self.value_indexes = _positions(self.value_side, positions)
        self.metadata = {column.name: positions[column.name] for column in hidden}

    def repeat_key_in_value(self, definition: MappingDefinition, options: Options) -> None:
        """Has the value of a message contain the columns of the key, too."""
        declared = [(column, f"{VALUE}.{_field(column)}") for column in definition.columns]
        self.value_side = _codec(
            VALUE, options.require(VALUE_FORMAT), options.get(VALUE_SCHEMA), declared
        )
        positions = {column.name: position for position, column in enumerate(self.columns)}
        self.value_indexes = _positions(self.value_side, positions)

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    def scan(self, request: ScanRequest) -> Source:
        return KafkaSource(self, request)

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset({WriteMode.INSERT, WriteMode.SINK})

    def sink(self, request: SinkRequest) -> Sink:
        if request.owner:
            return KafkaJobSink(self, request)
        return KafkaSink(self, request)


class EventTable(KafkaTable):
    """A topic as a log of changes. It is read from its first message on, unless the options say
    otherwise, and whatever a group has committed: the rows depend on all events.

    like: the topic with the codecs to read with; None: the ones of the definition.
    """

    def __init__(
        self,
        definition: MappingDefinition,
        options: Options,
        client_options: Mapping[str, str],
        like: KafkaTable | None = None,
    ) -> None:
        super().__init__(definition, options, client_options)
        if like is not None:
            self.value_side, self.value_indexes = like.value_side, like.value_indexes
        self.client_options.pop("group.id", None)
        self.client_options.setdefault("auto.offset.reset", "earliest")
        self.metadata[TOMBSTONE] = len(self.columns)
        self.columns += (TableColumn(TOMBSTONE, BOOLEAN, hidden=True),)


def _log(definition: MappingDefinition, options: Options, client: Mapping[str, str]) -> Table:
    """The table whose changes are the messages of a topic."""
    keys = [item.name for item in definition.columns if _path(item).split(".")[0] == KEY]
    if keys:
        raise ProgrammingError(
            f'column "{keys[0]}" is part of the key of messages, which a log of changes does not '
            "read",
            hint="the columns of the table are in the value; name its key: 'changeKey' = 'id'",
        )
    if options.require(VALUE_FORMAT).strip().lower() not in ("json-flat", "avro"):
        raise ProgrammingError(
            "'changes' = 'debezium' needs 'valueFormat' = 'json-flat' or 'avro'",
            hint="events have the fields before, after and op",
        )
    has_schema = options.require(HAS_SCHEMA)
    events = EventTable(envelope(definition, has_schema=has_schema), options, client)
    source = f'topic "{events.topic}"'
    return changing_table(definition, options, events, source, LOCATION, TOMBSTONE)


def _positions(side: PayloadCodec | None, positions: Mapping[str, int]) -> tuple[int, ...]:
    return () if side is None else tuple(positions[column.name] for column in side.columns)


def _divided(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Runnel's options, and the client's options."""
    names = {option.name.lower() for option in OPTIONS.options}
    own = {name: value for name, value in options.items() if name.lower() in names}
    return own, {name: value for name, value in options.items() if name not in own}


def _check_client(client: Mapping[str, str]) -> None:
    if not any(client.get(name) for name in SERVERS):
        known = [*(option.name for option in OPTIONS.options), *SERVERS]
        near = next((hint for name in client if (hint := suggest(name, known)) is not None), None)
        raise ProgrammingError(
            'option "bootstrap.servers" of connector Kafka is missing',
            hint=near or "add OPTIONS ('bootstrap.servers' = 'host:9092')",
        )
    consumer(client).close()


def _field(column: ColumnDefinition) -> str:
    """The name of a column's field in the key or the value."""
    path = _path(column)
    return column.name if path in (KEY, VALUE) else path.partition(".")[2]


def _path(column: ColumnDefinition) -> str:
    """The path of a column in a message: __key or this, or a field of one of them."""
    name = column.external_name or column.name
    if name in (KEY, VALUE) or name.startswith((KEY + ".", VALUE + ".")):
        return name
    return f"{VALUE}.{name}"


def _codec(
    side: str, format_name: str, schema: str | None, declared: list[tuple[ColumnDefinition, str]]
) -> PayloadCodec:
    """The codec of the key or the value of messages, by its format and its columns."""
    option = "keyFormat" if side == KEY else "valueFormat"
    kind = format_name.strip().lower()
    single = _SINGLE.get(kind)
    if single is not None:
        return SingleColumnCodec([_single_column(side, option, single, declared)])
    if kind not in RECORD_FORMATS:
        known = [*RECORD_FORMATS, *_SINGLE]
        raise ProgrammingError(
            f"wrong value '{format_name}' for option \"{option}\" of connector Kafka",
            hint=suggest(kind, known, "it accepts " + ", ".join(known)),
        )
    columns = [
        TableColumn(column.name, column.type, path.removeprefix(side + "."))
        for column, path in declared
    ]
    if any(path == side for _, path in declared):
        raise ProgrammingError(
            f'with format {kind} there is no column "{side}"',
            hint="declare the fields, each as a column",
        )
    if kind == "avro":
        option = "keyAvroSchema" if side == KEY else "valueAvroSchema"
        parsed = None if schema is None else parsed_schema(schema, option)
        if parsed is not None and not columns:
            columns = [
                TableColumn(name, item, name) for name, item in schema_columns(parsed, option)
            ]
        _check_declared(columns, kind, side)
        return AvroCodec(columns, parsed)
    _check_declared(columns, kind, side)
    return JsonCodec(columns) if kind == "json-flat" else CsvCodec(columns)


def _check_declared(columns: list[TableColumn], kind: str, side: str) -> None:
    if not columns:
        what = "key" if side == KEY else "value"
        raise ProgrammingError(
            f"the columns of the {what} must be declared with format {kind}", hint="name its fields"
        )
    for column in columns:
        if kind == "csv" and column.type.is_nested:
            raise ProgrammingError(
                f'column "{column.name}" is of type {column.type}, which format csv can\'t hold'
            )


def _single_column(
    side: str, option: str, kind: SqlType, declared: list[tuple[ColumnDefinition, str]]
) -> TableColumn:
    if not declared:
        return TableColumn(side, kind)
    column, path = declared[0]
    if len(declared) > 1 or path != side:
        wrong = declared[1][0] if len(declared) > 1 else column
        raise ProgrammingError(
            f'column "{wrong.name}" does not exist: by option "{option}" there is only "{side}", '
            f"{kind}",
            hint=f"declare {side} {kind}, or use a format with fields, such as json-flat",
        )
    if column.type != kind:
        raise ProgrammingError(
            f'column "{column.name}" is of type {column.type}, but option "{option}" says {kind}',
            hint=f"declare {as_written(column.name)} {kind}",
        )
    return TableColumn(column.name, kind, None if column.name == side else side)
