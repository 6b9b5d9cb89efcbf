"""Reading snapshots: checking their integrity, and reading their state as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.ipc
from xxhash import xxh3_64_intdigest

from runnel.errors import OperationalError
from runnel.snapshots.manifest import DamagedError, Section, SnapshotManifest, read_manifest


def check_snapshot(folder: Path, *, with_files: bool = True) -> SnapshotManifest:
    """The manifest of a snapshot. DamagedError if it, or (`with_files`) a file that it names,
    differs from what was written."""
    try:
        manifest = read_manifest(folder)
        if with_files:
            for name in manifest.files:
                checksum = crc32 if manifest.format == 1 else xxh3_64_intdigest
                _check_file(
                    folder / name,
                    [section for section in manifest.sections if section.file == name],
                    checksum,
                )
    except OSError as error:
        raise DamagedError(f'"{folder}" can\'t be read: {error.strerror or error}') from error
    return manifest


def _check_file(
    path: Path, sections: Sequence[Section], checksum: Callable[[memoryview], int]
) -> None:
    if not path.exists():
        raise DamagedError(f'"{path}" is missing')
    size = path.stat().st_size
    with _mapped(path) as file:
        data = file.read_buffer()
        for section in sections:
            if section.start + section.bytes > size:
                raise DamagedError(
                    f'"{path}" is cut short: it has {size} bytes, not '
                    f"{section.start + section.bytes}"
                )
            if (
                checksum(memoryview(data)[section.start : section.start + section.bytes])
                != section.checksum
            ):
                raise DamagedError(
                    f'"{path}" was changed: the checksum of the state of "{section.vertex}" is '
                    "wrong"
                )


def read_state(folder: Path, manifest: SnapshotManifest, vertex: str) -> Sequence[pa.RecordBatch]:
    """The rows of one vertex. They are in the mapped file, and remain readable after the file was
    removed."""
    batches: list[pa.RecordBatch] = []
    files: dict[str, pa.Buffer] = {}
    try:
        for section in manifest.sections:
            if section.vertex == vertex:
                if section.file not in files:
                    with _mapped(folder / section.file) as file:
                        files[section.file] = file.read_buffer()
                batches.extend(
                    pa.ipc.open_stream(files[section.file].slice(section.start, section.bytes))
                )
    except (OSError, pa.ArrowException) as error:
        raise OperationalError(
            f'the state of "{vertex}" in "{folder}" can\'t be read', detail=str(error)
        ) from error
    return batches


def _mapped(path: Path) -> pa.MemoryMappedFile:
    return pa.memory_map(str(path))
