"""The messages between client and server: JSON values, followed by arguments as Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from runnel.base.error_records import CLASSES, class_name
from runnel.columns.type_records import type_of, type_record
from runnel.deadline import time_limit
from runnel.errors import Error, ErrorCode, InterfaceError, OperationalError, Position
from runnel.expressions.kernels.values import array_of, python_values
from runnel.relation.nodes import Field
from runnel.serving.received_data import value_count
from runnel.sqltypes import SqlType, to_arrow
from runnel.statements.arguments import Arguments

PROTOCOL = 3
"""The version of the messages: client and server must have the same."""

HEADER = b"authorization"
_LENGTH = 4
_LEAST = 8
"""Minimum size in bytes that a value counts for: the size of a pointer in Python."""
_MOST = 1 << 63
"""Seconds (31 years): practically no limit."""


class WrongMessage(ValueError):
    """A received message is not valid."""


def packed(content: dict[str, Any], body: bytes | memoryview = b"") -> bytes:
    """A JSON value, followed by Arrow data."""
    head = json.dumps(content, ensure_ascii=True).encode()
    return b"".join((len(head).to_bytes(_LENGTH, "big"), head, body))


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    """The JSON value and the data of a message; WrongMessage if it is not valid."""
    length = int.from_bytes(message[:_LENGTH], "big")
    head = message[_LENGTH : _LENGTH + length]
    if len(head) < length or not head:
        raise WrongMessage("a message is cut short")
    try:
        # Decoded first: of bytes the module also accepts UTF-16, and halves of characters.
        content = json.loads(head.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise WrongMessage(f"a message isn't JSON: {error}") from error
    if not isinstance(content, dict):
        raise WrongMessage("a message isn't a JSON object")
    return content, message[_LENGTH + length :]


def request(message: bytes) -> tuple[dict[str, Any], bytes]:
    """`unpacked` for a client's request, whose texts must be valid Unicode too."""
    content, body = unpacked(message)
    if b"\\u" in message:
        try:
            json.dumps(
                content, ensure_ascii=False
            ).encode()  # half a character can be written in JSON, and nowhere else
        except UnicodeError as error:
            raise WrongMessage(f"a text of a message isn't valid Unicode: {error}") from error
    return content, body


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def text_in(head: dict[str, Any], name: str) -> str:
    """The text with a name in a message; WrongMessage if there is none."""
    value = head.get(name)
    if not isinstance(value, str):
        raise WrongMessage(f'a message has no "{name}"')
    return value


def texts_in(head: dict[str, Any], name: str) -> tuple[str, ...]:
    """As `text_in`, for a list of texts, which may be missing."""
    values = head.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise WrongMessage(f'"{name}" of a message is no list of texts')
    return tuple(values)


def count_in(head: dict[str, Any], name: str) -> int:
    """As `text_in`, for a whole number, 0 or more."""
    value = head.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise WrongMessage(f'a message has no "{name}"')
    return value


def timeout_in(head: dict[str, Any]) -> float | None:
    """The timeout of a statement in seconds; None: no limit."""
    try:
        return time_limit(head.get("timeout"))
    except InterfaceError as error:
        raise WrongMessage('the "timeout" of a message is no number of seconds above 0') from error


def arguments_message(
    rows: Sequence[tuple[Any, ...]],
    types: Sequence[SqlType],
    names: Sequence[str] | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Argument lists of equal length as columns; `names` are the names of their values."""
    head: dict[str, Any] = {"types": [type_record(item) for item in types], "rows": len(rows)}
    if names is not None:
        wrong = next((name for name in names if not isinstance(name, str)), None)
        if wrong is not None:
            raise InterfaceError(f"the name of a value is a str, not {wrong!r}")
        head["names"] = list(names)
    if not types:
        return head, b""
    columns = [
        array_of(list(values), item)
        for values, item in zip(zip(*rows, strict=True), types, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(types))])
    return head, batches_message([batch], batch.schema)


def arguments_of(
    head: dict[str, Any], body: bytes, check_size: Callable[[int], object]
) -> Sequence[Arguments]:
    """The argument lists of a message, as dictionaries if the values have names; otherwise as
    `_values_of`."""
    rows = _values_of(head, body, check_size)
    if "names" not in head:
        return rows
    names = texts_in(head, "names")
    if len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
        raise WrongMessage("there isn't one name for each of the arguments")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _values_of(
    head: dict[str, Any], body: bytes, check_size: Callable[[int], object]
) -> list[tuple[Any, ...]]:
    """The argument lists of a message, as Python values; WrongMessage if they are not valid.
    `check_size` receives the minimum number of bytes that they need, before any value is created,
    and may raise."""
    rows = count_in(head, "rows")
    with understood("the arguments"):
        types = [type_of(item) for item in head["types"]]
    if not types:
        return [()] * min(rows, 1)
    with understood("the arguments"):
        count = value_count(body)
    check_size(count * _LEAST)
    with understood("the arguments"):
        (batch,) = batches_of(body)
        batch.validate(full=True)
        if batch.num_rows != rows or [field.type for field in batch.schema] != [
            to_arrow(item) for item in types
        ]:
            raise WrongMessage("they aren't of the types, or as many, as the message says")
    check_size(batch.nbytes)  # columns may share the bytes of their texts
    with understood("the arguments"):
        columns = [
            python_values(column, item) for column, item in zip(batch.columns, types, strict=True)
        ]
    return list(zip(*columns, strict=True))


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Within it, exceptions while reading a client's data become WrongMessage."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise WrongMessage(f"{what} can't be read: {error}") from error


def batches_message(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Batches as an Arrow IPC stream."""
    return bytes(batches_buffer(batches, schema).to_pybytes())


def batches_buffer(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Buffer:
    """As `batches_message`, without a second copy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def batches_of(message: bytes) -> list[pa.RecordBatch]:
    """The batches of an Arrow IPC stream."""
    with pa.ipc.open_stream(message) as reader:
        return list(reader)


def fields_message(fields: Sequence[Field]) -> list[Any]:
    """The columns of a result as a JSON value."""
    return [[item.name, type_record(item.type)] for item in fields]


def fields_of(message: Sequence[Any]) -> tuple[Field, ...]:
    """The columns that `fields_message` encoded."""
    return tuple(Field(name, type_of(record)) for name, record in message)


def error_message(error: Error) -> dict[str, Any]:
    """An error as a JSON value."""
    place = error.position
    return {
        "class": class_name(error),
        "message": error.message,
        "code": int(error.code),
        "detail": error.detail,
        "hint": error.hint,
        "position": None
        if place is None
        else [place.line, place.column, place.offset, place.length],
    }


def error_of(message: dict[str, Any]) -> Error:
    """The error that `error_message` encoded."""
    kind = CLASSES.get(message["class"], OperationalError)
    place = message["position"]
    return kind(
        message["message"],
        code=ErrorCode(message["code"]),
        detail=message["detail"],
        hint=message["hint"],
        position=None if place is None else Position(*place),
    )
