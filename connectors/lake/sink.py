"""Writing to a table of a table format: rows go to Parquet files, which a commit adds to the table,
all at once.

A file has a name that begins with '.runnel-' until the commit begins, as those of a File mapping
do; one whose name is final but that no version has is seen by no reader. The commit of a job is
recorded in the version that it makes, with a number that rises: whoever repeats it finds that.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token, WriteMode
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.format import FileFormat
from runnel.connectors.files.sink import FileSink, SinkTarget, mark_of, recover_files
from runnel.errors import IntegrityError
from runnel.sqltypes import to_arrow

MOST_OPEN = 128
"""So many partitions are written to at a time; the file of another is finished first."""


class LakeTarget(ABC):
    """The table that is written to, as it was when the sink was made."""

    folder: str
    """Where its files are."""

    format: FileFormat
    columns: tuple[TableColumn, ...]
    """Those of the mapping."""

    in_files: tuple[int, ...]
    """Which of these stand in the files, by index."""

    required: tuple[int, ...]
    """Which can't be NULL."""

    @abstractmethod
    def partition_of(self, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        """For rows (all columns of the mapping), the values of each partition field; () for a table
        without."""

    @abstractmethod
    def folder_of(self, values: Sequence[Any]) -> str:
        """The folder, below the table's, for files of a partition."""

    @abstractmethod
    def describe(self, path: str, values: Sequence[Any]) -> Mapping[str, Any]:
        """What a commit must know of a finished file, in JSON values."""

    @abstractmethod
    def version(self) -> int | None:
        """The table's newest version now."""

    @abstractmethod
    def committed(self, application: str) -> int:
        """The largest number that was committed for an application; 0 if none."""

    @abstractmethod
    def has_commit(self, identity: str, since: int | None) -> bool:
        """Whether a version after `since` was committed with that identity."""

    @abstractmethod
    def commit(self, files: Sequence[tuple[str, Mapping[str, Any]]], token: Token) -> None:
        """Adds files (the path, and what `describe` said) in one new version, which records the
        token's application and number, or its identity where it has no application."""


class LakeSink(Sink):
    """Writes the rows of one execution, a file per partition and epoch."""

    def __init__(self, target: LakeTarget, request: SinkRequest) -> None:
        self._target = target
        self._owner = request.owner
        self._application = application_of(request.owner)
        self._places = {index: place for place, index in enumerate(request.columns)}
        self._sinks: dict[tuple[Any, ...], FileSink] = {}
        self._files: list[dict[str, Any]] = []
        self._staged: list[dict[str, Any]] = []
        self._number: int | None = None
        self._done: set[str] = set()

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self.commit(token)
        mark = mark_of(self._owner)
        if mark and file_system.exists(self._target.folder):
            recover_files(self._target.folder, mark, [])

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        target = self._target
        columns = [
            batch.column(self._places[i])
            if i in self._places
            else pa.nulls(batch.num_rows, to_arrow(column.type))
            for i, column in enumerate(target.columns)
        ]
        for i in target.required:
            if columns[i].null_count:
                raise IntegrityError(
                    f'column "{target.columns[i].name}" can\'t be NULL',
                    detail="the table declares it as required",
                )
        rows = pa.RecordBatch.from_arrays(
            [columns[i] for i in target.in_files],
            names=[target.columns[i].name for i in target.in_files],
        )
        keys = target.partition_of(columns)
        if not keys:
            self._sink(()).write(rows)
            return
        names = [str(i) for i in range(len(keys))]
        groups = pa.Table.from_arrays([*keys, pa.arange(0, batch.num_rows)], names=[*names, "row"])
        found = groups.group_by(names, use_threads=False).aggregate([("row", "list")])
        for place in range(found.num_rows):
            values = tuple(found.column(name)[place].as_py() for name in names)
            numbers = found.column("row_list")[place].values
            self._sink(values).write(rows if found.num_rows == 1 else rows.take(numbers))

    def stage(self, epoch: int) -> Token:
        for values in list(self._sinks):
            self._finish(values)
        files, self._files = self._files, []
        self._staged += files
        number = 0
        if self._application:
            if self._number is None:
                self._number = self._target.committed(self._application)
            self._number = number = self._number + 1
        return {
            "application": self._application,
            "number": number,
            "id": uuid4().hex,
            "since": self._target.version(),
            "files": files,
        }

    def commit(self, token: Token) -> None:
        files = token["files"]
        if not files or token["id"] in self._done or self._is_committed(token):
            return
        renames = [file["rename"] for file in files]
        self._plain().commit({"renames": renames})
        try:
            self._target.commit([(file["rename"][1], file) for file in files], token)
        except Exception:
            # What comes after the commit may have failed, such as a checkpoint of the log: the rows
            # are there.
            if not self._is_committed(token):
                for _, final in () if token["application"] else renames:
                    file_system.remove(final)
                raise
        self._done.add(token["id"])
        self._staged = [file for file in self._staged if file["rename"] not in renames]

    def _is_committed(self, token: Token) -> bool:
        application = token["application"]
        if application:
            return bool(token["number"] <= self._target.committed(application))
        # Only where the files have their names can a commit have been tried before.
        final = token["files"][0]["rename"][1]
        return file_system.exists(final) and self._target.has_commit(token["id"], token["since"])

    def abort(self, token: Token | None) -> None:
        if token is None:
            self._give_up()
            return
        renames = [file["rename"] for file in token["files"]]
        self._plain().abort({"renames": renames})
        self._staged = [file for file in self._staged if file["rename"] not in renames]

    def close(self) -> None:
        if self._owner:
            self._staged = []
        self._give_up()

    def _give_up(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        files = self._files + self._staged
        self._sinks, self._files, self._staged = {}, [], []
        self._plain().abort({"renames": [file["rename"] for file in files]})

    def _sink(self, values: tuple[Any, ...]) -> FileSink:
        sink = self._sinks.get(values)
        if sink is None:
            if len(self._sinks) >= MOST_OPEN:
                self._finish(next(iter(self._sinks)))
            target = self._target
            inner = target.folder_of(values)
            folder = file_system.below(target.folder, inner) if inner else target.folder
            columns = tuple(target.columns[i] for i in target.in_files)
            request = SinkRequest(WriteMode.INSERT, tuple(range(len(columns))), self._owner)
            sink = self._sinks[values] = FileSink(
                target.format, SinkTarget(folder, None, ".parquet", None), columns, request
            )
        return sink

    def _finish(self, values: tuple[Any, ...]) -> None:
        for unfinished, final in self._sinks.pop(values).stage(0)["renames"]:
            said = self._target.describe(unfinished, values)
            self._files.append({"rename": [unfinished, final], **said})

    def _plain(self) -> FileSink:
        """A sink for names alone."""
        target = self._target
        place = SinkTarget(target.folder, None, ".parquet", None)
        return FileSink(
            target.format, place, target.columns, SinkRequest(WriteMode.INSERT, (), self._owner)
        )


def application_of(owner: str) -> str:
    """The name under which a table records what a job has committed; "" for a light job."""
    return "runnel-" + hashlib.sha256(owner.encode()).hexdigest()[:32] if owner else ""
