"""SPLIT_PART with a separator of one byte, over all rows at once: its places are found in the bytes
of the whole column. They are kept while the column is, for the next part of the same texts:
addresses are seldom cut up for one of their parts alone."""

from __future__ import annotations

from threading import local
from typing import NamedTuple
from weakref import ref

import numpy as np
import pyarrow as pa

from runnel.columns.batches import Numbers, indexes, validity


class _Separators(NamedTuple):
    """The places of a separator in the bytes of a column, a place beyond them all, and which is the
    first of each text."""

    places: Numbers
    first: Numbers


class _Kept(local):
    """What was found last, by each thread."""

    texts: ref[pa.Array] | None = None
    separator = 0
    found: _Separators | None = None

    def forget(self, texts: object) -> None:
        if self.texts is texts:
            self.texts = self.found = None


_kept = _Kept()


def nth_part(texts: pa.Array, separator: int, index: int) -> pa.Array:
    """The `index`-th (from 1) part of each text between bytes `separator`, which is ASCII; empty
    where there are fewer."""
    rows = len(texts)
    offsets = (
        np.frombuffer(texts.buffers()[1], np.int32, rows + 1, texts.offset * 4)
        if rows
        else np.zeros(1, np.int32)
    )
    if offsets[0] == offsets[-1]:
        return texts
    begins, stops = _part_places(offsets, _separators(texts, offsets, separator), index)
    # The parts as texts in the bytes that there are, with what lies between two of them as a text
    # too.
    cuts = np.empty(2 * rows, np.int32)
    cuts[0::2] = begins
    cuts[1::2] = stops
    cut = pa.Array.from_buffers(
        pa.string(), 2 * rows - 1, [None, pa.py_buffer(cuts), texts.buffers()[2]]
    )
    return cut.take(indexes(np.arange(0, 2 * rows, 2), validity(texts)))


def _separators(texts: pa.Array, offsets: Numbers, separator: int) -> _Separators:
    kept = _kept
    if (
        kept.found is not None
        and kept.separator == separator
        and kept.texts is not None
        and kept.texts() is texts
    ):
        return kept.found
    octets = np.frombuffer(texts.buffers()[2], np.uint8)
    places = np.flatnonzero(octets[offsets[0] : offsets[-1]] == separator) + offsets[0]
    found = _Separators(
        np.append(places, np.iinfo(np.int64).max), np.searchsorted(places, offsets[:-1])
    )
    kept.texts, kept.separator, kept.found = ref(texts, kept.forget), separator, found
    return found


def _part_places(offsets: Numbers, separators: _Separators, index: int) -> tuple[Numbers, Numbers]:
    """Where the parts begin and end in the bytes."""
    starts, ends = offsets[:-1], offsets[1:]
    found = separators.places
    last = len(found) - 1
    first = separators.first + index - 1
    stops = np.minimum(found[np.minimum(first, last)], ends)
    if index == 1:
        return starts, stops
    return np.minimum(found[np.minimum(first - 1, last)], ends - 1) + 1, stops
