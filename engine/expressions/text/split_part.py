"""SPLIT_PART with a separator of one byte, for all rows at once.

The separators are found in the bytes of the whole column. They are cached as long as the column
exists, for the next field of the same texts: a query that splits an address usually needs several
of its fields.
"""

from __future__ import annotations

from threading import local
from typing import NamedTuple
from weakref import ref

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Numbers, indexes, validity


class _Separators(NamedTuple):
    """The separators in the bytes of a column.

    offsets: the byte offset of each separator, and a last one beyond all texts.
    first: for each text, the index in `offsets` of the first separator at or after its beginning.
    """

    offsets: Numbers
    first: Numbers


class _LastSplit(local):
    """The separators that were found last in this thread.

    texts: the column; a weak reference, so that the cache doesn't extend its life.
    separator: the byte.
    found: the separators; None if the column no longer exists.
    """

    texts: ref[pa.Array] | None = None
    separator = 0
    found: _Separators | None = None

    def forget(self, texts: object) -> None:
        if self.texts is texts:
            self.texts = self.found = None


_last_split = _LastSplit()


def nth_field(texts: pa.Array, separator: int, index: int) -> pa.Array:
    """The `index`-th (from 1) field of each text between bytes `separator`, which is ASCII; empty
    if there are fewer fields.
    """
    rows = len(texts)
    offsets = (
        np.frombuffer(texts.buffers()[1], np.int32, rows + 1, texts.offset * 4)
        if rows
        else np.zeros(1, np.int32)
    )
    if offsets[0] == offsets[-1]:
        return texts
    begins, stops = _field_offsets(offsets, _separators(texts, offsets, separator), index)
    # The fields become texts over the same bytes, without a copy: every second text is a field,
    # and the text after it has the bytes up to the next field.
    cuts = np.empty(2 * rows, np.int32)
    cuts[0::2] = begins
    cuts[1::2] = stops
    cut = pa.Array.from_buffers(
        pa.string(), 2 * rows - 1, [None, pa.py_buffer(cuts), texts.buffers()[2]]
    )
    return cut.take(indexes(np.arange(0, 2 * rows, 2), validity(texts)))


def _separators(texts: pa.Array, offsets: Numbers, separator: int) -> _Separators:
    last = _last_split
    if (
        last.found is not None
        and last.separator == separator
        and last.texts is not None
        and last.texts() is texts
    ):
        return last.found
    octets = np.frombuffer(texts.buffers()[2], np.uint8)
    matches = np.flatnonzero(octets[offsets[0] : offsets[-1]] == separator) + offsets[0]
    found = _Separators(
        np.append(matches, np.iinfo(np.int64).max), np.searchsorted(matches, offsets[:-1])
    )
    last.texts, last.separator, last.found = ref(texts, last.forget), separator, found
    return found


# For the texts 'a,b,c' and 'd' (bytes 0 to 5, and 5 to 6) and index = 2:
#     starts  [0, 5]        ends  [5, 6]
#     found   [1, 3, MAX]   the offsets of the separators
#     separators.first  [0, 2]
#     first   [1, 3]        the index of the separator after the field: 'b' has the one at offset 3,
#                           'd' has none, so its index is clipped to the last one
#     stops   [3, 6]        clipped to the ends of the texts
#     begins  [2, 6]        one after the separator before the field; 6 to 6 is empty
def _field_offsets(
    offsets: Numbers, separators: _Separators, index: int
) -> tuple[Numbers, Numbers]:
    """The offsets in the bytes at which the fields begin and end."""
    starts, ends = offsets[:-1], offsets[1:]
    found = separators.offsets
    last = len(found) - 1
    first = separators.first + index - 1
    stops = np.minimum(found[np.minimum(first, last)], ends)
    if index == 1:
        return starts, stops
    return np.minimum(found[np.minimum(first - 1, last)], ends - 1) + 1, stops
