"""A file that appears when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """The path of a temporary file in the same folder. It replaces `path` at the end of the block,
    and is deleted after an exception. OSError if the folder does not exist or cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
