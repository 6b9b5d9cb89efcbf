"""Copies of snapshots, which outlive the job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runnel.snapshots.disk import Disk
from runnel.snapshots.manifest import SnapshotManifest
from runnel.snapshots.unfinished import write_manifest


def copy_snapshot(source: Path, manifest: SnapshotManifest, folder: Path, disk: Disk) -> None:
    """Copies the snapshot in `source` to a folder, under the next number, and removes the older
    snapshots in that folder. The copy shares its files with the source if the file system can do
    that."""
    if not folder.exists():
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)
    old = sorted(numbered(folder, ""))
    number = max((*old, *numbered(folder, ".")), default=0) + 1
    unfinished, target = folder / f".{number}", folder / str(number)
    disk.make_folder(unfinished)
    for name in manifest.files:
        disk.link(source / name, unfinished / name)
    write_manifest(unfinished, manifest, disk)
    disk.sync_folder(unfinished)
    disk.rename(unfinished, target)
    disk.sync_folder(folder)
    for gone in old:
        # A store that opens the folder uses the newest, and removes folders that remained.
        with suppress(OSError):
            disk.rename(folder / str(gone), folder / f".{gone}")
            disk.remove(folder / f".{gone}")


def numbered(folder: Path, prefix: str) -> Iterator[int]:
    """The numbers of the entries of a folder whose names are a number after a prefix."""
    if folder.is_dir():
        for path in folder.iterdir():
            name = path.name.removeprefix(prefix)
            if path.name == prefix + name and name.isascii() and name.isdigit():
                yield int(name)
