"""SPLIT_PART with a separator of one byte, over all rows at once: its places are found in the bytes of the whole column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runnel.batches import Numbers, indexes, validity


def nth_part(texts: pa.Array, separator: int, index: int) -> pa.Array:
    """The `index`-th (from 1) part of each text between bytes `separator`, which is ASCII; empty where there are fewer."""
    rows = len(texts)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, rows + 1, texts.offset * 4) if rows else np.zeros(1, np.int32)
    if offsets[0] == offsets[-1]:
        return texts
    begins, stops = _part_places(offsets, np.frombuffer(texts.buffers()[2], np.uint8), separator, index)
    # The parts as texts in the bytes that there are, with what lies between two of them as a text too.
    cuts = np.empty(2 * rows, np.int32)
    cuts[0::2] = begins
    cuts[1::2] = stops
    cut = pa.Array.from_buffers(pa.string(), 2 * rows - 1, [None, pa.py_buffer(cuts), texts.buffers()[2]])
    return cut.take(indexes(np.arange(0, 2 * rows, 2), validity(texts)))


def _part_places(offsets: Numbers, octets: Numbers, separator: int, index: int) -> tuple[Numbers, Numbers]:
    """Where the parts begin and end in the bytes."""
    starts, ends = offsets[:-1], offsets[1:]
    found = np.flatnonzero(octets[offsets[0] : offsets[-1]] == separator) + offsets[0]
    last = len(found)
    found = np.append(found, np.iinfo(np.int64).max)
    first = np.searchsorted(found, starts) + index - 1
    stops = np.minimum(found[np.minimum(first, last)], ends)
    if index == 1:
        return starts, stops
    return np.minimum(found[np.minimum(first - 1, last)], ends - 1) + 1, stops
