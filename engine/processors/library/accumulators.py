"""Accumulators of user-defined operations as bytes: in a snapshot, and between two stages."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from io import BytesIO
from types import FunctionType
from typing import Any

from runnel.errors import ProgrammingError
from runnel.processors.library.aggregate_operation import AggregateOperation
from runnel.storage.value_codec import Code, code_of, decode, encode, imported, reference_of


class AccumulatorCodec:
    """Converts the accumulators of the operations of one vertex.

    A snapshot has them as JSON (see `storage.value_codec`). Between the two stages of an
    aggregation they are pickled: those bytes never leave the process.
    """

    def __init__(self, operations: Iterable[AggregateOperation]) -> None:
        self._code = next(filter(None, map(_code_of_operation, operations)), None)

    def stored(self, vertex: str) -> Callable[[Any], bytes]:
        """Return the function that encodes an accumulator for a snapshot.

        The function raises ProgrammingError, with the vertex, for a value without a stored form.
        """

        def encoded(accumulator: Any) -> bytes:
            try:
                return json.dumps(encode(accumulator)).encode()
            except TypeError as error:
                raise ProgrammingError(
                    f'vertex "{vertex}" has an accumulator that can\'t be stored in a snapshot',
                    detail=f"it has {error}",
                    hint="use numbers, texts, times, lists, tuples, dicts or dataclasses of them",
                ) from None

        return encoded

    def restored(self, data: bytes) -> Any:
        """Return the accumulator that was encoded for a snapshot."""
        importer = imported if self._code is None else self._code.import_name
        return decode(json.loads(data), importer)

    def packed(self, accumulator: Any) -> bytes:
        """Return the bytes for the second stage."""
        if self._code is None:
            return pickle.dumps(accumulator)
        buffer = BytesIO()
        _Pickler(buffer, self._code).dump(accumulator)
        return buffer.getvalue()

    def unpacked(self, data: bytes) -> Any:
        """Return the accumulator of a first stage."""
        return pickle.loads(data) if self._code is None else _Unpickler(data, self._code).load()


class _Pickler(pickle.Pickler):
    """Pickles functions and classes of a job's code by reference: Python can't import them."""

    def __init__(self, buffer: BytesIO, code: Code) -> None:
        super().__init__(buffer)
        self._code = code

    def persistent_id(self, value: Any) -> str | None:
        is_own = isinstance(value, type | FunctionType) and code_of(value) is self._code
        return reference_of(value) if is_own else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, code: Code) -> None:
        super().__init__(BytesIO(data))
        self._code = code

    def persistent_load(self, reference: Any) -> Any:
        return self._code.import_name(reference)


def _code_of_operation(operation: AggregateOperation) -> Code | None:
    functions = (operation.create, operation.accumulate, operation.combine, operation.export)
    return next(filter(None, map(code_of, functions)), None)
