"""The number of the last batch that each external writer has committed."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from runnel.connector import Token
from runnel.deadline import DeadlineLock
from runnel.errors import ErrorCode, OperationalError
from runnel.storage.durable_files import OWN_FOLDER, replace_file, sealed, sync_folder, unsealed
from runnel.storage.write_gate import durable_writes

FOLDER = "writers"
FORMAT = 2
"""The version of the files. The first was a list of number and token, without a checksum."""
Kept = tuple[int, Token | None]
"""The number of a writer's last batch, and the token that commits it; None: it is committed."""


class WriterNumbers:
    """The numbers of one database, which are durable if it has a directory. Thread-safe."""

    def __init__(self, directory: Path | None) -> None:
        self._folder = None if directory is None else directory / FOLDER
        self._kept: dict[str, Kept] = {}
        self._locks: dict[str, DeadlineLock] = {}
        self._lock = Lock()

    def lock_of(self, owner: str) -> DeadlineLock:
        """The lock of a writer, held while one of its batches is written."""
        with self._lock:
            return self._locks.setdefault(owner, DeadlineLock("the numbers of its writer"))

    def load(self, owner: str) -> Kept | None:
        """The number of a writer's last batch; None before the first."""
        if self._folder is None or owner in self._kept:
            return self._kept.get(owner)
        file = self._folder / f"{owner}.json"
        try:
            found = unsealed(file.read_bytes(), FORMAT)
            number, token = found if isinstance(found, list) else (found["number"], found["token"])
            return int(number), token
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise OperationalError(
                "the number of a writer's last batch can't be read",
                code=ErrorCode.INPUT_OUTPUT,
                detail=f"{file}: {error}",
                hint="restore the file; without it the writer's last batch may be written twice",
            ) from error

    def keep(self, owner: str, value: Kept | None) -> None:
        """Stores the number; None: there is no batch yet."""
        if value is None:
            self._kept.pop(owner, None)
        else:
            self._kept[owner] = value
        if self._folder is None:
            return
        file = self._folder / f"{owner}.json"
        try:
            self._folder.mkdir(mode=OWN_FOLDER, exist_ok=True)
            if value is None:
                with durable_writes:
                    file.unlink(missing_ok=True)
            else:
                replace_file(
                    file, sealed({"format": FORMAT, "number": value[0], "token": value[1]})
                )
            sync_folder(self._folder)
        except OSError as error:
            raise OperationalError(
                "the number of a writer's batch can't be stored",
                code=ErrorCode.INPUT_OUTPUT,
                detail=f"{file}: {error.strerror or error}",
                hint="make room on the disk",
            ) from error
