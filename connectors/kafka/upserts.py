"""Topics that have the latest row of each key: 'changes' = 'upsert'.

A deletion is a message without value, a tombstone.
"""

from __future__ import annotations

from runnel.connector import ReadableTable, Sink, SinkRequest, WritableTable, WriteMode
from runnel.connectors.kafka.job_sink import KafkaJobSink
from runnel.connectors.kafka.payloads import Topic
from runnel.connectors.kafka.sink import KafkaSink
from runnel.connectors.kafka.source import TOMBSTONE
from runnel.errors import ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.processor import Guarantee
from runnel.relation.changing_tables import ChangingTable, EventLog, OnInconsistency
from runnel.sqltypes import BOOLEAN, VARCHAR


class UpsertedTopic(ChangingTable, WritableTable):
    """A topic that the changes of a result are written to, and whose messages are the changes of a
    table.

    topic: the topic as it is written.
    events: the topic as it is read.
    """

    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, topic: Topic, events: ReadableTable) -> None:
        if topic.key_side is None:
            raise ProgrammingError(
                f"mapping \"{events.name}\" with 'changes' = 'upsert' has no key",
                hint="declare the columns of the key, __key or \"__key.name\", and 'keyFormat'",
            )
        self._topic = topic
        columns = tuple(column for column in topic.columns if not column.hidden)
        super().__init__(events.name, events.connector, columns, events, _log(topic, events))

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset((WriteMode.INSERT, WriteMode.SINK, WriteMode.CHANGES))

    @property
    def change_key(self) -> tuple[int, ...]:
        return self._topic.key_indexes

    def sink(self, request: SinkRequest) -> Sink:
        return (KafkaJobSink if request.owner else KafkaSink)(self._topic, request)


def _log(topic: Topic, events: ReadableTable) -> EventLog:
    """A message replaces the row of its key, or deletes it. Compaction may leave a tombstone
    without an earlier row."""
    columns: tuple[Expression, ...] = tuple(
        Column(index=i, name=item.name, type=item.type) for i, item in enumerate(events.columns)
    )
    by_name = {item.name: columns[i] for i, item in enumerate(events.columns)}
    update, delete = (Literal(value=value, type=VARCHAR) for value in ("u", "d"))
    row = tuple(by_name[item.name] for item in topic.columns if not item.hidden)
    always = Literal(value=True, type=BOOLEAN)
    return EventLog(
        operation=build.case([by_name[TOMBSTONE]], [delete], update),
        after=row,
        before=row,
        has_after=always,
        has_before=always,
        key=topic.key_indexes,
        on_inconsistency=OnInconsistency.ALLOW,
        source=f'topic "{topic.topic}"',
    )
