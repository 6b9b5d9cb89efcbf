"""Validation of Arrow data from a client before Arrow reads it: a small message must not expand to
a large one.

Arrow decompresses a batch when it reads it: 5 kB may become 150 MB. And a column without values
(type NULL, rows of no fields, run-end encoding) has any number of rows in no bytes at all. Both are
visible in the metadata of a batch, a flatbuffer (Arrow's Message.fbs, Schema.fbs), which Arrow has
verified when it returns the message.
"""

from __future__ import annotations

from struct import iter_unpack

import pyarrow as pa

_RECORD_BATCH, _DICTIONARY = "record batch", "dictionary"
# The numbers of fields of the flatbuffer's tables.
_HEADER = 2
_DATA = 1
_LENGTH, _NODES, _COMPRESSION = 0, 1, 3


def value_count(data: bytes | pa.Buffer) -> int:
    """The number of values in the batches of an Arrow IPC stream, including nested values and
    dictionaries, without reading any. ValueError if a batch is compressed, or if the stream has
    messages other than batches."""
    count = 0
    for message in pa.ipc.MessageReader.open_stream(data):
        if message.type == "schema":
            continue
        if message.type not in (_RECORD_BATCH, _DICTIONARY):
            raise ValueError(f"a message is a {message.type}, no batch of rows")
        count += _values_of(message.metadata.to_pybytes(), message.type == _DICTIONARY)
    return count


def _values_of(metadata: bytes, is_dictionary: bool) -> int:
    batch = _table(metadata, _position(metadata, _number(metadata, 0, 4), _HEADER))
    if is_dictionary:
        batch = _table(metadata, _position(metadata, batch, _DATA))
    if _position(metadata, batch, _COMPRESSION):
        raise ValueError("the rows are compressed")
    position = _position(metadata, batch, _LENGTH)
    rows = _number(metadata, position, 8) if position else 0
    nodes = _position(metadata, batch, _NODES)
    if not nodes:
        return rows
    start = _table(metadata, nodes)
    lengths = metadata[start + 4 : start + 4 + 16 * _number(metadata, start, 4)]
    # Of each array, nested arrays included: its length, and how many of its values are NULL.
    values: int = sum(max(0, length) for length, _ in iter_unpack("<qq", lengths))
    return max(rows, values)


def _number(metadata: bytes, position: int, size: int) -> int:
    return int.from_bytes(metadata[position : position + size], "little")


def _table(metadata: bytes, position: int) -> int:
    """The position of the table or vector to which the offset at a position refers."""
    return position + _number(metadata, position, 4)


def _position(metadata: bytes, table: int, field: int) -> int:
    """The position of a field of a table; 0 if the table does not have it."""
    fields = table - int.from_bytes(metadata[table : table + 4], "little", signed=True)
    slot = 4 + 2 * field
    offset = _number(metadata, fields + slot, 2) if slot < _number(metadata, fields, 2) else 0
    return table + offset if offset else 0
