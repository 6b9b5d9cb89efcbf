"""The key and the value of Kafka messages: bytes to columns and back.

A side (key or value) is one value ('bigint', 'varchar', 'json', …), or a record with fields
('json-flat', 'csv', 'avro'). Numbers have the format of Kafka's own serializers (big-endian);
VARCHAR is UTF-8, VARBINARY is the bytes, and any other single type is its text. A missing key or
value is read as NULLs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.columns.batches import (
    Mask,
    from_flags,
    from_numbers,
    indexes,
    numbers,
    true_flags,
    validity,
)
from runnel.connectors.files.conversion import converter, unfit
from runnel.connectors.files.csv.csv_records import CsvRecords
from runnel.connectors.files.csv.csv_writer import CsvWriter
from runnel.connectors.files.format import FileScanRequest, external_name
from runnel.connectors.files.json.json_lines import JsonLines
from runnel.connectors.files.json.json_writer import JsonWriter
from runnel.connectors.files.options import CsvDialect, FileOptions
from runnel.connectors.files.records.malformed import Malformed, OnError
from runnel.connectors.files.records.parser import RecordParser
from runnel.errors import DataError, internal
from runnel.expressions.casts.try_cast import attempted
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import array_of, python_values
from runnel.sqltypes import VARBINARY, VARCHAR, Kind, SqlType, to_arrow

Payloads = Sequence[bytes | None]

_DIALECT = CsvDialect(header=False)
_CONTEXT = EvaluationContext()


class Messages:
    """Some messages of one partition, with a mask of the readable ones.

    locate: returns the location of the message at an index, for errors.
    malformed: handles malformed messages.
    sound: the mask of the messages that can be read.
    """

    def __init__(self, count: int, locate: Callable[[int], str], malformed: Malformed) -> None:
        self.locate = locate
        self.malformed = malformed
        self.sound: Mask = np.ones(count, np.bool_)

    def leave_out(self, index: int, error: DataError, payload: bytes | None) -> None:
        """Raises the error with its location, or leaves the message out.

        Of two errors in one message only the first one counts.
        """
        if self.sound[index]:
            self.sound[index] = False
            error.detail = (
                self.locate(index)
                if error.detail is None
                else f"{self.locate(index)}: {error.detail}"
            )
            self.malformed.leave_out(error, (payload or b"").decode("utf-8", "backslashreplace"))


class PayloadCodec(ABC):
    """One side of a topic's messages. `columns` have the fields' names as external names."""

    def __init__(self, columns: Sequence[TableColumn]) -> None:
        self.columns = tuple(columns)

    @abstractmethod
    def decode(
        self, payloads: Payloads, requested: Sequence[int], messages: Messages
    ) -> list[pa.Array]:
        """The columns at the indexes `requested`, with one value per message; any value for
        messages that are left out."""

    @abstractmethod
    def encode(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        """A payload for each row of all columns."""


_NUMBERS = {
    Kind.TINYINT: ">i1",
    Kind.SMALLINT: ">i2",
    Kind.INTEGER: ">i4",
    Kind.BIGINT: ">i8",
    Kind.REAL: ">f4",
    Kind.DOUBLE: ">f8",
}


class SingleColumnCodec(PayloadCodec):
    """One value."""

    @property
    def _type(self) -> SqlType:
        return self.columns[0].type

    def decode(
        self, payloads: Payloads, requested: Sequence[int], messages: Messages
    ) -> list[pa.Array]:
        dtype = _NUMBERS.get(self._type.kind)
        if dtype is not None:
            return [self._numbers(payloads, np.dtype(dtype), messages)]
        found = array_of(list(payloads), VARBINARY)
        if self._type == VARBINARY:
            return [found]
        text = self._text(found, payloads, messages)
        convert = converter(VARCHAR, self._type)
        if convert is None:
            return [text]
        converted = attempted(lambda item, _: convert(item), text, VARCHAR, self._type, _CONTEXT)
        assert isinstance(converted, pa.Array)
        for index in np.flatnonzero(
            true_flags(converted.is_null()) & true_flags(text.is_valid())
        ).tolist():
            error = unfit(
                text[index].as_py(), self.columns[0].name, self._type, None, is_inferred=False
            )
            messages.leave_out(index, error, payloads[index])
        return [converted]

    def _numbers(self, payloads: Payloads, dtype: np.dtype[Any], messages: Messages) -> pa.Array:
        size = dtype.itemsize
        present = np.fromiter(
            (payload is not None for payload in payloads), np.bool_, len(payloads)
        )
        joined = b"".join([bytes(size) if payload is None else payload for payload in payloads])
        if len(joined) != size * len(payloads) or any(
            len(item) != size for item in payloads if item is not None
        ):
            fitting = []
            for index, payload in enumerate(payloads):
                fits = payload is not None and len(payload) == size
                if payload is not None and not fits:
                    error = DataError(
                        f"a value of type {self._type} has {size} bytes, not {len(payload)}"
                    )
                    messages.leave_out(index, error, payload)
                fitting.append(payload if payload is not None and fits else bytes(size))
            joined = b"".join(fitting)
        values = np.frombuffer(joined, dtype).astype(dtype.newbyteorder("="))
        return from_numbers(values, to_arrow(self._type), None if present.all() else present)

    def _text(self, found: pa.Array, payloads: Payloads, messages: Messages) -> pa.Array:
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            texts: list[str | None] = []
            for index, payload in enumerate(payloads):
                try:
                    texts.append(None if payload is None else payload.decode())
                except UnicodeDecodeError:
                    messages.leave_out(index, DataError("a text is not valid UTF-8"), payload)
                    texts.append(None)
            return array_of(texts, VARCHAR)

    def encode(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        (values,) = arrays
        dtype = _NUMBERS.get(self._type.kind)
        if dtype is None:
            if self._type == VARBINARY:
                return list(python_values(values, VARBINARY))
            convert = converter(self._type, VARCHAR)
            text = values if convert is None else convert(values)
            return list(python_values(text.cast(pa.binary()), VARBINARY))
        size = np.dtype(dtype).itemsize
        data = numbers(values, np.dtype(dtype).newbyteorder("=")).astype(dtype).tobytes()
        valid = validity(values)
        payloads: list[bytes | None] = [
            data[start : start + size] for start in range(0, len(data), size)
        ]
        return (
            payloads
            if valid is None
            else [payload if ok else None for payload, ok in zip(payloads, valid, strict=True)]
        )


class TextCodec(PayloadCodec):
    """Text records: each message becomes a line, and a parser of files reads all lines together."""

    parser: type[RecordParser]
    no_record: bytes
    """The line for a message without a payload."""

    def decode(
        self, payloads: Payloads, requested: Sequence[int], messages: Messages
    ) -> list[pa.Array]:
        asked = FileScanRequest(tuple(requested), self.columns, evaluation=_CONTEXT)
        options = FileOptions("", None, None, "none", False, False, _DIALECT)
        parser = self.parser("", options, asked, Malformed(messages.malformed.on_error, ""))
        self.prepare(parser)
        lines = [self.line(payload) for payload in payloads]
        keep = _Lines(parser, messages, payloads)
        if any(b"\n" in line for line in lines):
            return self._one_by_one(lines, keep)
        batch = keep.read(b"\n".join([*lines, b""]), 1)
        # `batch` has one row per sound line. Example: 4 messages, of which the second is malformed:
        # sound = [True, False, True, True], cumsum(sound) - 1 = [0, 0, 1, 2]. Taking the rows [0,
        # NULL, 1, 2] restores one row per message.
        sound = keep.sound
        if batch.num_rows != np.count_nonzero(sound):
            return self._one_by_one(lines, keep)
        if sound.all():
            return list(batch.columns)
        rows = indexes(np.maximum(np.cumsum(sound) - 1, 0), sound)
        return [column.take(rows) for column in batch.columns]

    def _one_by_one(self, lines: Sequence[bytes], keep: _Lines) -> list[pa.Array]:
        """Reads one message at a time: a message with line ends may still be only one record."""
        batches = []
        for index, line in enumerate(lines):
            batch = keep.read(line + b"\n", index + 1)
            if batch.num_rows > 1:
                keep.leave_out(
                    index, DataError(f"a message holds {batch.num_rows} records, not one")
                )
            if batch.num_rows != 1:
                nulls = [pa.nulls(1, field.type) for field in batch.schema]
                batch = pa.RecordBatch.from_arrays(nulls, schema=batch.schema)
            batches.append(batch)
        return [
            pa.concat_arrays(list(chunks))
            for chunks in zip(*(batch.columns for batch in batches), strict=True)
        ]

    def prepare(self, parser: RecordParser) -> None:
        """Passes the parser the information that a file has at its beginning."""

    def line(self, payload: bytes | None) -> bytes:
        """The payload as a line without its end."""
        return self.no_record if payload is None or not payload.strip() else payload

    def encode(self, arrays: Sequence[pa.Array]) -> list[bytes | None]:
        output = _Bytes()
        sizes = self.write(
            output,
            pa.RecordBatch.from_arrays(
                list(arrays), names=[external_name(c) for c in self.columns]
            ),
        )
        if sizes is None:
            return list(output.data.split(b"\n")[:-1])
        return list(sizes)

    @abstractmethod
    def write(self, output: Any, batch: pa.RecordBatch) -> list[bytes] | None:
        """Writes each row as a line; or returns the payloads, if they can contain line ends."""


class _Lines:
    """Reads messages as lines, and reports their errors."""

    def __init__(self, parser: RecordParser, messages: Messages, payloads: Payloads) -> None:
        self._parser = parser
        self._messages = messages
        self._payloads = payloads
        self.sound: Mask = np.ones(len(payloads), np.bool_)
        parser.leave_out = self._left_out  # type: ignore[method-assign]

    def read(self, data: bytes, line: int) -> pa.RecordBatch:
        return self._parser.batch(data, line)

    def leave_out(self, index: int, error: DataError) -> None:
        self.sound[index] = False
        self._messages.leave_out(index, error, self._payloads[index])

    def _left_out(self, error: DataError, line: int, record: str) -> None:
        self.leave_out(line - 1, error)


class _Bytes:
    """Collects the output of a file's writer."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes | pa.Buffer) -> None:
        self.data += bytes(data)


class JsonCodec(TextCodec):
    """A JSON object; its fields are the columns."""

    parser = JsonLines
    no_record = b"{}"

    def line(self, payload: bytes | None) -> bytes:
        if payload is not None and not payload.strip():
            return b'""'
        # Line ends cannot occur within JSON strings; elsewhere they are white space.
        return super().line(payload).replace(b"\n", b" ")

    def write(self, output: Any, batch: pa.RecordBatch) -> None:
        JsonWriter(output, self.columns, CsvDialect()).write(batch)


class CsvCodec(TextCodec):
    """A line of CSV; its values are the columns in their order."""

    parser = CsvRecords

    @property
    def no_record(self) -> bytes:  # type: ignore[override]
        return b"," * (len(self.columns) - 1)

    def prepare(self, parser: RecordParser) -> None:
        assert isinstance(parser, CsvRecords)
        parser.names = tuple(f"column{i}" for i in range(len(self.columns)))

    def line(self, payload: bytes | None) -> bytes:
        return super().line(payload).rstrip(b"\r\n")

    def write(self, output: Any, batch: pa.RecordBatch) -> list[bytes]:
        found = []
        for row in range(batch.num_rows):
            one = _Bytes()
            CsvWriter(one, self.columns, _DIALECT).write(batch.slice(row, 1))  # type: ignore[arg-type]
            found.append(one.data[:-1])
        return found


def all_sound(messages: Messages, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of the messages that could be read."""
    if messages.sound.all():
        return batch
    if batch.num_rows != len(messages.sound):
        raise internal("a batch of messages lost rows")
    return batch.filter(from_flags(messages.sound))


class Topic(Protocol):
    """A topic as its source and its sinks see it.

    topic: its name.
    client_options: options of Kafka's client.
    on_error: what becomes of malformed messages.
    columns: the columns of the mapping.
    key_side, value_side: the two payloads of a message; None for one that is not read.
    key_indexes, value_indexes: the indexes of the columns of a payload.
    metadata: the indexes of the hidden columns by their names.
    """

    topic: str
    client_options: dict[str, str]
    on_error: OnError
    columns: tuple[TableColumn, ...]
    key_side: PayloadCodec | None
    key_indexes: tuple[int, ...]
    value_side: PayloadCodec | None
    value_indexes: tuple[int, ...]
    metadata: dict[str, int]
