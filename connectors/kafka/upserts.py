"""Topics that have the latest row of each key: 'changes' = 'upsert'.

A deletion is a message without value, a tombstone.
"""

from __future__ import annotations

from runnel.connector import MappingDefinition, Sink, SinkRequest, WritableTable, WriteMode
from runnel.connectors.kafka.job_sink import KafkaJobSink
from runnel.connectors.kafka.payloads import Topic
from runnel.connectors.kafka.sink import KafkaSink
from runnel.errors import ProgrammingError
from runnel.processor import Guarantee


class UpsertedTopic(WritableTable):
    """A topic to which the changes of a result are written. It is not read."""

    connector = "Kafka"
    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: MappingDefinition, topic: Topic) -> None:
        self.name = definition.name
        self._topic = topic
        self.columns = tuple(column for column in topic.columns if not column.hidden)
        if topic.key_side is None:
            raise ProgrammingError(
                f"mapping \"{definition.name}\" with 'changes' = 'upsert' has no key",
                hint="declare the columns of the key, __key or \"__key.name\", and 'keyFormat'",
            )

    @property
    def is_unbounded(self) -> bool:
        return True

    def row_count(self) -> int | None:
        return None

    @property
    def write_modes(self) -> frozenset[WriteMode]:
        return frozenset((WriteMode.INSERT, WriteMode.SINK, WriteMode.CHANGES))

    @property
    def change_key(self) -> tuple[int, ...]:
        return self._topic.key_indexes

    def sink(self, request: SinkRequest) -> Sink:
        return (KafkaJobSink if request.owner else KafkaSink)(self._topic, request)


def is_upsert(value: str | None) -> bool:
    """Whether the option 'changes' says so; ProgrammingError for another value."""
    if value is None:
        return False
    if value.strip().lower() != "upsert":
        raise ProgrammingError(
            f"wrong value '{value}' for option \"changes\" of connector Kafka",
            hint="it accepts 'upsert'",
        )
    return True
