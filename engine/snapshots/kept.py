"""State that stays the same from one snapshot to the next: written once, and then found in the file
where it is."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from runnel.snapshots.manifest import Section

LEAST_BYTES = 64 << 10
"""A smaller batch is sooner written than looked for."""

LEAST_SHARE = 0.5
"""A file of which less than this share is still state isn't kept for that: what is left is written
anew."""

DATA = "state.arrows"
"""The file for all state that is new in a snapshot."""

Placed = tuple[weakref.ref[pa.RecordBatch], Section]
"""A large batch and the section that it is."""


def is_large(batch: pa.RecordBatch) -> bool:
    """Whether it may be found in an earlier file."""
    size: int = batch.nbytes
    return size >= LEAST_BYTES


class KeptState:
    """Where the large batches of the last snapshot are.

    They are told by being the same object: what a processor offers at each snapshot it must keep,
    then. They have their snapshot's file under another name in the next, so nothing of it is
    copied.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Placed] = {}
        self._folder = Path()
        self._sizes: dict[str, int] = {}

    def find(self, vertex: str, batch: pa.RecordBatch) -> Section | None:
        """The section that it is, as the next snapshot is to name it; None: it has to be
        written."""
        known = self._known.get((vertex, id(batch)))
        return known[1] if known is not None and known[0]() is batch else None

    def source(self, name: str) -> Path:
        """The file that a section is in which was found."""
        return self._folder / (DATA if name == _later_name(self._folder) else name)

    def keep_only(self, found: Sequence[Placed], folder: Path, size: int) -> None:
        """A snapshot was completed in that folder, with these large batches and a new file of that
        size."""
        later = _later_name(folder)
        live: dict[str, int] = {}
        for _, section in found:
            live[section.file] = live.get(section.file, 0) + section.bytes
        sizes = {**self._sizes, DATA: size}
        worthy = {name for name, kept in live.items() if kept >= LEAST_SHARE * sizes[name]}
        self._folder = folder
        self._sizes = {later if name == DATA else name: sizes[name] for name in worthy}
        self._known = {}
        for reference, section in found:
            batch = reference()
            if batch is not None and section.file in worthy:
                name = later if section.file == DATA else section.file
                self._known[section.vertex, id(batch)] = reference, replace(section, file=name)


def _later_name(folder: Path) -> str:
    """What the new file of a snapshot is called in those that come after it."""
    return f"state-{folder.name}.arrows"
