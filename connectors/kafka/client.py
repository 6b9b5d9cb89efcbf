"""Kafka's client: made when it is needed, with errors in our classes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from runnel import deadline as patience
from runnel.errors import ErrorCode, OperationalError, ProgrammingError, suggest

LOGGER = logging.getLogger("runnel.connectors.kafka.connector")
SECONDS = 10.0
"""How long the broker's answer is waited for at most: less where the statement has less left."""
LOOK = 0.5
"""Seconds after which a call that can be made again is, so that the end of the statement is
heard."""

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
    try:
        import confluent_kafka
    except ImportError as error:
        raise OperationalError(
            "TYPE Kafka needs the package confluent-kafka",
            detail=str(error),
            hint="pip install 'runnel[kafka]'",
        ) from error
    return confluent_kafka


def seconds() -> float:
    """How long the broker's answer may be waited for now."""
    return patience.seconds(SECONDS)


def look_seconds() -> float:
    """How long a call may take that is made again until the broker has answered. OperationalError
    where the statement was cancelled, or its time is over."""
    found = patience.current()
    found.check()
    found.check_time()
    return max(patience.LEAST, found.left(LOOK))


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Turns what the client raises inside into an OperationalError that says what couldn't be
    done."""
    try:
        yield
    except kafka().KafkaException as error:
        raise failed(what, error.args[0] if error.args else error) from error


def failed(what: str, error: Any) -> OperationalError:
    """The error for an answer of the client's."""
    name = error.name() if hasattr(error, "name") else type(error).__name__
    unreachable = name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE")
    return OperationalError(
        what,
        code=ErrorCode.CONNECTION_PROBLEM if unreachable else None,
        detail=f"{name}: {error.str() if hasattr(error, 'str') else error}",
        hint="is the broker up, and is 'bootstrap.servers' its address?" if unreachable else None,
    )


def consumer(options: Mapping[str, str]) -> Any:
    """A consumer that commits nothing unless the options say so. It never moves to another offset
    by itself: an offset that is gone is an error."""
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
        return kind(options, logger=LOGGER)
    except kafka().KafkaException as error:
        reason = error.args[0].str() if error.args else str(error)
        raise ProgrammingError(
            "Kafka's client doesn't take these options",
            detail=reason,
            hint=(
                "options that Runnel doesn't know go to the client as they are: see librdkafka's "
                "CONFIGURATION.md"
            ),
        ) from error


def partitions_of(client: Any, topic: str) -> list[int]:
    """The numbers of a topic's partitions; OperationalError where there is no such topic."""
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
    """The names of all topics but Kafka's own."""
    with calling("the topics can't be listed"):
        return sorted(
            name
            for name in client.list_topics(timeout=seconds()).topics
            if not name.startswith("__")
        )
