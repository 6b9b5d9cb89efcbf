"""The encoding of a durable map's records: a line of JSON, followed by Arrow record batches.

The kinds are `put` (rows), `delete` (keys), `clear`; `stage` (rows or keys under a name, with their
mode), `commit` and `abort` of such a name. The JSON line has the fields with their SQL types, which
are more specific than Arrow's types (JSON and VARCHAR are both text).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runnel.columns.type_records import KIND_NAMES, KINDS
from runnel.connectors.imap.layout import MapLayout
from runnel.errors import OperationalError
from runnel.sqltypes import Kind, SqlType


@dataclass(frozen=True, slots=True)
class Record:
    """One change.

    kind: see above.
    layout: the fields of the rows.
    batches: the rows.
    name: the name of staged rows.
    mode: the write mode of staged rows.
    """

    kind: str
    layout: MapLayout | None = None
    batches: Sequence[pa.RecordBatch] = ()
    name: str = ""
    mode: str = ""


def encode(record: Record) -> bytes:
    """A record as bytes."""
    head: dict[str, Any] = {"kind": record.kind}
    if record.name:
        head["name"] = record.name
    if record.mode:
        head["mode"] = record.mode
    chunks = [batch.serialize() for batch in record.batches]
    if record.layout is not None:
        head["fields"] = [
            [path, encode_type(item)]
            for path, item in zip(record.layout.paths, record.layout.types, strict=True)
        ]
        head["sizes"] = [chunk.size for chunk in chunks]
    return b"".join([json.dumps(head).encode(), b"\n", *chunks])


def decode(payload: bytes) -> Record:
    """The record that `encode` encoded."""
    end = payload.index(b"\n")
    head = json.loads(payload[:end])
    fields = head.get("fields")
    layout, batches = None, []
    if fields is not None:
        layout = MapLayout(
            tuple(path for path, _ in fields), tuple(decode_type(item) for _, item in fields)
        )
        buffer, at = pa.py_buffer(payload), end + 1
        for size in head["sizes"]:
            # Arrow needs its buffers aligned to 8 bytes, but a record can end anywhere.
            part = pa.py_buffer(bytes(memoryview(buffer)[at : at + size]))
            batches.append(pa.ipc.read_record_batch(part, layout.schema))
            at += size
    return Record(head["kind"], layout, batches, head.get("name", ""), head.get("mode", ""))


def encode_type(item: SqlType) -> Any:
    """A type as a JSON value: its name, or a list of the name and its arguments."""
    kind, name = item.kind, KIND_NAMES[item.kind]
    if kind is Kind.DECIMAL:
        return [name, item.precision, item.scale]
    if kind is Kind.ROW:
        return [name, *([field, encode_type(inner)] for field, inner in item.fields)]
    if item.element is not None:
        key = [] if item.key is None else [encode_type(item.key)]
        return [name, encode_type(item.element), *key]
    return name


def decode_type(value: Any) -> SqlType:
    """The type that `encode_type` encoded."""
    name, rest = (value, []) if isinstance(value, str) else (value[0], value[1:])
    if name not in KINDS:
        raise OperationalError(
            f'unknown type "{name}" in the log of a map', hint="use the version that wrote it"
        )
    kind = KINDS[name]
    if kind is Kind.DECIMAL:
        return SqlType(kind, rest[0], rest[1])
    if kind is Kind.ROW:
        return SqlType(kind, fields=tuple((field, decode_type(item)) for field, item in rest))
    element = decode_type(rest[0]) if rest else None
    return SqlType(kind, element=element, key=decode_type(rest[1]) if len(rest) > 1 else None)
