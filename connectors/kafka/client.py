"""Kafka's client: created when it is needed; its errors are converted to Runnel's classes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from runnel import deadline
from runnel.connectors.packages import required
from runnel.errors import ErrorCode, OperationalError, ProgrammingError, suggest

LOGGER = logging.getLogger("runnel.connectors.kafka.connector")
CLIENT_LOGGER = LOGGER.getChild("client")
"""The logger for the lines of librdkafka."""
QUIET_SECONDS = 60.0
"""The time for which a line of librdkafka is not repeated."""
SECONDS = 10.0
"""The maximum wait for the broker's answer in seconds; less if the statement has less time left."""
LOOK = 0.5
"""The interval in seconds at which a repeatable call is repeated, in order to notice the end of
the statement."""


class Unrepeated(logging.Filter):
    """Passes a line of librdkafka if no line that differs in numbers and times alone passed within
    QUIET_SECONDS: a client repeats each failure with each attempt to connect."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key = re.sub(r"#\w+-\d+|\([^()]*\)", "", record.getMessage())
        last = self._passed.get(key)
        if last is not None and record.created < last + QUIET_SECONDS:
            return False
        if len(self._passed) > 1000:
            self._passed.clear()
        self._passed[key] = record.created
        return True


CLIENT_LOGGER.addFilter(Unrepeated())

_CONSUMER_ONLY = (
    "group.",
    "session.",
    "heartbeat.",
    "max.poll.",
    "fetch.",
    "queued.",
    "auto.",
    "enable.auto.",
    "isolation.",
)
_CONSUMER_NAMES = (
    "enable.partition.eof",
    "check.crcs",
    "partition.assignment.strategy",
    "offset.store.method",
)
_PRODUCER_ONLY = (
    "queue.buffering.",
    "message.send.",
    "message.timeout.",
    "delivery.",
    "transaction",
    "batch.",
    "sticky.",
)
_PRODUCER_NAMES = (
    "acks",
    "request.required.acks",
    "linger.ms",
    "enable.idempotence",
    "retries",
    "compression.type",
)


def kafka() -> Any:
    """The package confluent_kafka."""
    return required("confluent_kafka", "TYPE Kafka", "kafka")


def seconds() -> float:
    """How many seconds the broker's answer may take now."""
    return deadline.seconds(SECONDS)


def look_seconds() -> float:
    """How many seconds one try of a repeated call may take.

    OperationalError if the statement was cancelled or has timed out.
    """
    found = deadline.current()
    found.check()
    found.check_time()
    return max(deadline.LEAST, found.left(LOOK))


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Converts exceptions of the client into an OperationalError with the message `what`."""
    try:
        yield
    except kafka().KafkaException as error:
        raise failed(what, error.args[0] if error.args else error) from error


def failed(what: str, error: Any) -> OperationalError:
    """The error for an error of the client."""
    name = error.name() if hasattr(error, "name") else type(error).__name__
    unreachable = name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE")
    return OperationalError(
        what,
        code=ErrorCode.CONNECTION_PROBLEM if unreachable else None,
        detail=f"{name}: {error.str() if hasattr(error, 'str') else error}",
        hint="is the broker up, and is 'bootstrap.servers' its address?" if unreachable else None,
    )


def consumer(options: Mapping[str, str]) -> Any:
    """A consumer that commits no offsets unless the options say so.

    It never moves to another offset by itself: a deleted offset is an error.
    """
    own = {
        name: value
        for name, value in options.items()
        if not _is_one(name, _PRODUCER_ONLY, _PRODUCER_NAMES)
    }
    own.setdefault("group.id", f"runnel-{uuid4().hex}")
    own.setdefault("enable.auto.commit", "false")
    return _made(kafka().Consumer, {**own, "auto.offset.reset": "error"})


def producer(options: Mapping[str, str]) -> Any:
    """A producer."""
    own = {
        name: value
        for name, value in options.items()
        if not _is_one(name, _CONSUMER_ONLY, _CONSUMER_NAMES)
    }
    return _made(kafka().Producer, own)


def _is_one(name: str, prefixes: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return name.startswith(prefixes) or name in names


def _made(kind: Any, options: dict[str, str]) -> Any:
    try:
        return kind(options, logger=CLIENT_LOGGER)
    except kafka().KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        raise ProgrammingError(
            "Kafka's client rejects these options",
            detail=reason,
            hint=(
                "options that Runnel does not know are passed to the client: see librdkafka's "
                "CONFIGURATION.md"
            ),
        ) from error


def partitions_of(client: Any, topic: str) -> list[int]:
    """The numbers of a topic's partitions; OperationalError if the topic does not exist."""
    with calling(f'the topic "{topic}" can\'t be looked up'):
        known = client.list_topics(topic, timeout=seconds()).topics[topic]
    if known.error is not None or not known.partitions:
        others = topics(client)
        raise OperationalError(
            f'Kafka topic "{topic}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            detail=None if known.error is None else known.error.str(),
            hint=suggest(topic, others, "create it, or name another one by EXTERNAL NAME"),
        )
    return sorted(known.partitions)


def topics(client: Any) -> list[str]:
    """The names of all topics except Kafka's internal ones."""
    with calling("the topics can't be listed"):
        return sorted(
            name
            for name in client.list_topics(timeout=seconds()).topics
            if not name.startswith("__")
        )
