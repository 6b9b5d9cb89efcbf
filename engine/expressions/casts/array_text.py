"""Text as ARRAY: PostgreSQL's '{1,2}' and DuckDB's '[1, 2]', with NULL, "quoted" items and arrays
within arrays."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runnel.columns.batches import from_numbers, validity
from runnel.errors import DataError
from runnel.expressions.context import EvaluationContext
from runnel.expressions.function import Datum, over_first
from runnel.expressions.kernels.buffers import pack
from runnel.sqltypes import VARCHAR, SqlType, to_arrow

Conversion = Callable[[Datum, EvaluationContext], Datum]

_CLOSING = {"{": "}", "[": "]"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"' + r"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_PLAIN = re.compile(r"[^,{}\[\]\"]*")


# For the texts '{1,2}', NULL, '{{3},NULL}' (of which the last is one of arrays):
#     items    ['1', '2', '{3}', NULL]   which `conversion` reads as elements
#     offsets  [0, 2, 2, 4]
def conversion(target: SqlType, of_items: Conversion) -> Conversion:
    """The cast of VARCHAR to an ARRAY; `of_items` casts VARCHAR to its element."""

    def run(datum: Datum, context: EvaluationContext) -> Datum:
        def kernel(texts: pa.Array) -> pa.Array:
            lists = [None if text is None else items_of(text) for text in texts.to_pylist()]
            ends = np.cumsum([0, *(len(found or ()) for found in lists)], dtype=np.int32)
            flat = [item for found in lists for item in found or ()]
            values = of_items(pack(flat, VARCHAR), context)
            offsets = from_numbers(ends, pa.int32()).buffers()[1]
            valid = validity(texts)
            bits = None if valid is None else texts.is_valid().buffers()[1]
            return pa.Array.from_buffers(
                to_arrow(target), len(texts), [bits, offsets], children=[values]
            )

        return over_first(kernel)(datum)

    return run


def items_of(text: str) -> list[str | None]:
    """The texts of the items of an array; an array within it is the text of that array."""
    whole = text.strip()
    if len(whole) < 2 or whole[-1] != _CLOSING.get(whole[0]):
        raise _unreadable()
    inner = whole[1:-1]
    if not inner.strip():
        return []
    items: list[str | None] = []
    at = 0
    while True:
        item, at = _item(inner, at)
        items.append(item)
        if at == len(inner):
            return items
        if inner[at] != ",":
            raise _unreadable()
        at += 1


def _item(text: str, at: int) -> tuple[str | None, int]:
    """The item that begins at an offset, and the offset after it and the blanks around it."""
    while at < len(text) and text[at].isspace():
        at += 1
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        found: str | None = re.sub(
            r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2], flags=re.DOTALL
        )
        end = quoted.end()
    elif at < len(text) and text[at] in _CLOSING:
        end = _end_of_array(text, at)
        found = text[at:end]
    else:
        plain = _PLAIN.match(text, at)
        assert plain is not None
        found, end = plain[0].rstrip(), plain.end()
        if not found:
            raise _unreadable()
        found = None if found.upper() == "NULL" else found
    while end < len(text) and text[end].isspace():
        end += 1
    return found, end


def _end_of_array(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            at = quoted.end()
            continue
        depth += (text[at] in "{[") - (text[at] in "}]")
        at += 1
        if depth == 0:
            return at
    raise _unreadable()


def _unreadable() -> DataError:
    return DataError("not an array", hint="write '{1,2}' or '[1, 2]'")
