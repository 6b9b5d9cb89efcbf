"""One snapshot while it is being written."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from runnel.base.frozen import frozen
from runnel.snapshots.disk import Disk, SectionFile
from runnel.snapshots.manifest import NAME, Section, SnapshotManifest, encode_manifest
from runnel.snapshots.retained_state import DATA, Placed, RetainedState, is_large


@frozen
class Labels:
    """The fields of a manifest, except the sections.

    snapshot_id, created, about: see `SnapshotManifest`.
    """

    snapshot_id: int
    created: int
    about: Mapping[str, str]


class UnfinishedSnapshot:
    """A folder whose name begins with '.' until everything is written. Used only by the store's
    thread.

    Consecutive rows of one vertex and one schema form a section. A large batch forms a section of
    its own; if the next snapshot is offered the same batch, it refers to that section, so the batch
    is written once.
    """

    def __init__(self, folder: Path, disk: Disk, retained: RetainedState) -> None:
        self.folder = folder
        self._disk = disk
        self._retained = retained
        self._sections: list[Section] = []
        self._large: list[Placed] = []
        self._linked: set[str] = set()
        self._file: SectionFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._vertex = ""
        self._schema: pa.Schema | None = None
        self._rows = 0
        self.bytes_written = 0
        disk.make_folder(folder)

    def write(self, vertex: str, batch: pa.RecordBatch) -> None:
        if is_large(batch):
            self._write_large(vertex, batch)
            return
        if (
            vertex != self._vertex
            or self._schema is None
            or not batch.schema.equals(self._schema, check_metadata=True)
        ):
            self._begin_section(vertex, batch.schema)
        self._add(batch)

    def _begin_section(self, vertex: str, schema: pa.Schema) -> None:
        self._end_section()
        if self._file is None:
            self._file = self._disk.create(self.folder / DATA)
        self._file.begin()
        self._vertex, self._schema, self._rows = vertex, schema, 0
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), schema)

    def _add(self, batch: pa.RecordBatch) -> None:
        assert self._writer is not None
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def _end_section(self) -> None:
        if self._writer is None:
            return
        assert self._file is not None
        self._writer.close()
        self._writer = self._schema = None
        start, end = self._file.start, self._file.end
        self._sections.append(
            Section(DATA, self._vertex, start, end - start, self._rows, self._file.checksum)
        )

    def _write_large(self, vertex: str, batch: pa.RecordBatch) -> None:
        section = self._retained.find(vertex, batch)
        if section is None:
            self._begin_section(vertex, batch.schema)
            self._add(batch)
            self._end_section()
        else:
            self._end_section()
            if section.file not in self._linked:
                self._disk.link(self._retained.source(section.file), self.folder / section.file)
                self._linked.add(section.file)
            self._sections.append(section)
        self._large.append((weakref.ref(batch), self._sections[-1]))

    def finish(self, labels: Labels, target: Path) -> SnapshotManifest:
        """Renames the folder to `target`, after everything was written to the disk."""
        self._end_section()
        if self._file is not None:
            self._file.finish()
            self.bytes_written += self._file.end
        manifest = SnapshotManifest(
            labels.snapshot_id, labels.created, labels.about, tuple(self._sections)
        )
        write_manifest(self.folder, manifest, self._disk)
        self._disk.sync_folder(self.folder)
        self._disk.rename(self.folder, target)
        try:
            self._disk.sync_folder(target.parent)
        except BaseException:
            # It must not be found as a valid snapshot: the rows staged for it are discarded.
            self._disk.rename(target, self.folder)
            raise
        self._retained.keep_only(
            self._large, target, self._file.end if self._file is not None else 0
        )
        return manifest

    def give_up(self) -> None:
        if self._file is not None:
            self._file.close()
        self._disk.remove(self.folder)


def write_manifest(folder: Path, manifest: SnapshotManifest, disk: Disk) -> None:
    with closing(disk.create(folder / NAME)) as file:
        file.write(encode_manifest(manifest))
        file.finish()
