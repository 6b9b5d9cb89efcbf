"""One snapshot while it is being written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from runnel.frozen import frozen
from runnel.snapshots.disk import Disk, SectionFile
from runnel.snapshots.kept import KeptFile, KeptFiles
from runnel.snapshots.manifest import NAME, Manifest, Section, encode_manifest

DATA = "state.arrows"
"""The file for all state that isn't kept from one snapshot to the next."""


@frozen
class Labels:
    """What goes into a manifest beside the sections."""

    snapshot_id: int
    created: int
    about: Mapping[str, str]


class UnfinishedSnapshot:
    """A folder that begins with '.' until all is written. Used by the store's thread alone.

    Rows that come one after the other for one vertex and of one schema make a section. Batches that are kept have a file each,
    which the next snapshot has under the same name: so they are written once.
    """

    def __init__(self, folder: Path, disk: Disk, kept: KeptFiles) -> None:
        self.folder = folder
        self._disk = disk
        self._kept = kept
        self._sections: list[Section] = []
        self._linked: list[KeptFile] = []
        self._file: SectionFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._vertex = ""
        self._schema: pa.Schema | None = None
        self._rows = 0
        self.bytes_written = 0
        disk.make_folder(folder)

    def write(self, vertex: str, batch: pa.RecordBatch) -> None:
        if self._kept.wants(batch):
            self._write_kept(vertex, batch)
            return
        if self._file is None:
            self._file = self._disk.create(self.folder / DATA)
        if vertex != self._vertex or self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self._end_section()
            self._file.begin()
            self._vertex, self._schema, self._rows = vertex, batch.schema, 0
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), batch.schema)
        assert self._writer is not None
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def _end_section(self) -> None:
        if self._writer is None:
            return
        assert self._file is not None
        self._writer.close()
        self._writer = None
        start, end = self._file.start, self._file.end
        self._sections.append(Section(DATA, self._vertex, start, end - start, self._rows, self._file.checksum))

    def _write_kept(self, vertex: str, batch: pa.RecordBatch) -> None:
        self._end_section()
        self._schema = None
        known = self._kept.find(batch)
        if known is None:
            known = self._kept.new(batch)
            with closing(self._disk.create(self.folder / known.name)) as file:
                with pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema) as writer:
                    writer.write_batch(batch)
                file.finish()
            known.bytes, known.checksum = file.end, file.checksum
            self.bytes_written += file.end
        elif known not in self._linked:
            self._disk.link(known.place / known.name, self.folder / known.name)
        self._linked.append(known)
        self._sections.append(Section(known.name, vertex, 0, known.bytes, batch.num_rows, known.checksum))

    def finish(self, labels: Labels, target: Path) -> Manifest:
        """Gives the snapshot its name, with everything on the disk."""
        self._end_section()
        if self._file is not None:
            self._file.finish()
            self.bytes_written += self._file.end
        manifest = Manifest(labels.snapshot_id, labels.created, labels.about, tuple(self._sections))
        write_manifest(self.folder, manifest, self._disk)
        self._disk.sync_folder(self.folder)
        self._disk.rename(self.folder, target)
        try:
            self._disk.sync_folder(target.parent)
        except BaseException:
            # Nobody may take it for one that counts: what is staged for it is given up.
            self._disk.rename(target, self.folder)
            raise
        self._kept.keep_only(self._linked, target)
        return manifest

    def give_up(self) -> None:
        if self._file is not None:
            self._file.close()
        self._disk.remove(self.folder)


def write_manifest(folder: Path, manifest: Manifest, disk: Disk) -> None:
    with closing(disk.create(folder / NAME)) as file:
        file.write(encode_manifest(manifest))
        file.finish()
