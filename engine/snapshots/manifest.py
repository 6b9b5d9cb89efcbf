"""The manifest of a snapshot: the content of its files, with checksums. A folder without a valid
manifest is not a snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, OperationalError
from runnel.snapshots.store import SIGNATURES

NAME = "manifest.json"

FORMAT = 2
"""The version of the format of snapshots; each version of Runnel reads all earlier formats. In
format 1 the checksums of sections were CRC-32."""


@frozen
class Section:
    """A section of a file: an Arrow stream with rows of one vertex and one schema.

    file: name of the file.
    vertex: name of the vertex.
    start: offset in the file.
    bytes: length.
    rows: number of rows.
    checksum: XXH3 with 64 bits.
    """

    file: str
    vertex: str
    start: int
    bytes: int
    rows: int
    checksum: int


@frozen
class SnapshotManifest:
    """The description of a snapshot.

    snapshot_id: its number.
    created: when it was written, in µs since the epoch (UTC).
    about: properties of the job, chosen by the owner of the store.
    sections: sections of its files.
    format: version of the format.
    """

    snapshot_id: int
    created: int
    about: Mapping[str, str]
    sections: tuple[Section, ...]
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """The rows of state; the rows with state signatures do not count."""
        return sum(section.rows for section in self.sections if section.vertex != SIGNATURES)

    @property
    def bytes(self) -> int:
        return sum(section.bytes for section in self.sections)

    @property
    def files(self) -> list[str]:
        return sorted({section.file for section in self.sections})

    @property
    def vertices(self) -> dict[str, int]:
        """The number of rows of each vertex that has any."""
        found: dict[str, int] = {}
        for section in self.sections:
            found[section.vertex] = found.get(section.vertex, 0) + section.rows
        return found


class DamagedError(OperationalError):
    """A snapshot differs from what was written; the message names the file and the fault."""


def encode_manifest(manifest: SnapshotManifest) -> bytes:
    content = {
        "format": manifest.format,
        "snapshot": manifest.snapshot_id,
        "created": manifest.created,
        "about": dict(manifest.about),
        "sections": [
            [s.file, s.vertex, s.start, s.bytes, s.rows, s.checksum] for s in manifest.sections
        ],
    }
    text = json.dumps(content, ensure_ascii=False).encode()
    return b"%08x\n%b" % (crc32(text), text)


def read_manifest(folder: Path) -> SnapshotManifest:
    """The manifest in a folder. DamagedError if it is not valid."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedError(f'"{path}" is missing') from None
    checksum, _, text = data.partition(b"\n")
    if checksum != b"%08x" % crc32(text):
        raise DamagedError(f'"{path}" was changed or cut short: its checksum is wrong')
    content = json.loads(text)
    if content["format"] > FORMAT:
        raise OperationalError(
            f'"{path}" was written by a later version of Runnel',
            code=ErrorCode.GENERIC,
            detail=(
                f"its format is {content['format']}, and this version knows formats up to {FORMAT}"
            ),
            hint="use that version or a later one",
        )
    sections = tuple(Section(*section) for section in content["sections"])
    return SnapshotManifest(
        content["snapshot"], content["created"], content["about"], sections, content["format"]
    )
