"""The manifest of a durable map: the valid files of its folder, with their minimum sizes.

It is the file `current`, which is replaced by a rename, so that it is always complete. A folder has
it from the time when the folder gets its name. Therefore a deleted or truncated file is detected,
and is not mistaken for an empty map.
"""

from __future__ import annotations

import json
from pathlib import Path

from runnel.base.frozen import frozen
from runnel.connectors.imap.storage.log import (
    create_file,
    damaged,
    missing,
    read_failed,
    read_records,
)

NAME = "current"


@frozen
class MapManifest:
    """The valid files of a map's folder.

    generation: the number in the names of the files.
    checkpoint_size: the size of the checkpoint in bytes; None in the first generation, which has no
        checkpoint.
    log_size: the size of the log in bytes when it was created; a log only grows.
    """

    generation: int
    checkpoint_size: int | None
    log_size: int

    def checkpoint_path(self, folder: Path) -> Path:
        return folder / f"checkpoint-{self.generation:08}"

    def log_path(self, folder: Path) -> Path:
        return folder / f"log-{self.generation:08}"

    def write(self, folder: Path) -> None:
        """Makes this the manifest of a folder. OSError or OperationalError if that fails."""
        content = {
            "generation": self.generation,
            "checkpoint": self.checkpoint_size,
            "log": self.log_size,
        }
        create_file(folder / NAME, [json.dumps(content).encode()])

    def check(self, folder: Path) -> None:
        """OperationalError if a file is missing or shorter than it can be."""
        _check_size(self.log_path(folder), self.log_size, None)
        if self.checkpoint_size is not None:
            _check_size(self.checkpoint_path(folder), self.checkpoint_size, self.checkpoint_size)


def read_manifest(folder: Path) -> MapManifest:
    """The manifest of a folder; OperationalError if it is missing or damaged."""
    path = folder / NAME
    contents = [payload for payload, _ in read_records(path, may_be_torn=False)]
    if len(contents) != 1:
        raise damaged(path, f"it holds {len(contents)} records instead of one")
    content = json.loads(contents[0])
    return MapManifest(content["generation"], content["checkpoint"], content["log"])


def _check_size(path: Path, least: int, most: int | None) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise read_failed(path, error) from error
    if size < least or (most is not None and size > most):
        raise damaged(path, f"it has {size} bytes where {least} were written")
