"""State that is unchanged from one snapshot to the next: it is written once, and later snapshots
refer to the file that contains it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from runnel.snapshots.manifest import Section

LEAST_BYTES = 64 << 10
"""Minimum size for reuse: writing a smaller batch is cheaper than searching for it."""

LEAST_SHARE = 0.5
"""Minimum share of a file that must still be state. A file with less is not retained: the rest of
its state is written again."""

DATA = "state.arrows"
"""The file with all state that is new in a snapshot."""

Placed = tuple[weakref.ref[pa.RecordBatch], Section]
"""A large batch and its section."""


def is_large(batch: pa.RecordBatch) -> bool:
    """Whether the batch may be reused from an earlier file."""
    size: int = batch.nbytes
    return size >= LEAST_BYTES


class RetainedState:
    """The sections of the large batches of the last snapshot.

    A batch is recognized by object identity, so the batches that a processor offers at each
    snapshot must be the same objects. The next snapshot links the file under another name, so
    nothing is copied.

    For example, snapshot 5 writes the batches a and b to its `state.arrows`. If snapshot 6 gets a
    again and c, it links that file as `state-5.arrows`, refers to a in it, and writes only c.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Placed] = {}
        self._folder = Path()
        self._sizes: dict[str, int] = {}

    def find(self, vertex: str, batch: pa.RecordBatch) -> Section | None:
        """The section of a batch, with the file name for the next snapshot; None: the batch must be
        written."""
        known = self._known.get((vertex, id(batch)))
        return known[1] if known is not None and known[0]() is batch else None

    def source(self, name: str) -> Path:
        """The path of the file with a section that `find` returned."""
        return self._folder / (DATA if name == _later_name(self._folder) else name)

    def keep_only(self, found: Sequence[Placed], folder: Path, size: int) -> None:
        """A snapshot was completed in `folder`, with these large batches; the size of its new file
        is `size`."""
        later = _later_name(folder)
        live: dict[str, int] = {}
        for _, section in found:
            live[section.file] = live.get(section.file, 0) + section.bytes
        sizes = {**self._sizes, DATA: size}
        worthy = {name for name, used in live.items() if used >= LEAST_SHARE * sizes[name]}
        self._folder = folder
        self._sizes = {later if name == DATA else name: sizes[name] for name in worthy}
        self._known = {}
        for reference, section in found:
            batch = reference()
            if batch is not None and section.file in worthy:
                name = later if section.file == DATA else section.file
                self._known[section.vertex, id(batch)] = reference, replace(section, file=name)


def _later_name(folder: Path) -> str:
    """The name of the new file of a snapshot in later snapshots."""
    return f"state-{folder.name}.arrows"
