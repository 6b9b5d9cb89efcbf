"""Writes to a table of a table format: rows go to Parquet files, which a commit adds to the table
atomically.

Until the commit begins, the name of a file starts with '.runnel-', as for a File mapping. A file
with its final name that belongs to no version is ignored by all readers. The commit of a job is
recorded in the version that it creates, with an increasing number; repeating the commit finds that
record.
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
from runnel.errors import NotNullViolation
from runnel.sqltypes import to_arrow

MOST_OPEN = 128
"""The maximum number of open partitions. Before another partition is opened, the file of the
oldest is finished."""


class LakeTarget(ABC):
    """The table that is written to, as it was when the sink was created."""

    folder: str
    """The folder of its files."""

    format: FileFormat
    columns: tuple[TableColumn, ...]
    """The columns of the mapping."""

    in_files: tuple[int, ...]
    """The indexes of the columns that are stored in the files."""

    required: tuple[int, ...]
    """The indexes of the columns that cannot be NULL."""

    @abstractmethod
    def partition_of(self, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        """For rows (all columns of the mapping), the values of each partition field; () for a
        table without partitions."""

    @abstractmethod
    def folder_of(self, values: Sequence[Any]) -> str:
        """The folder, below the table's folder, for files of a partition."""

    @abstractmethod
    def describe(self, path: str, values: Sequence[Any]) -> Mapping[str, Any]:
        """The description of a finished file for the commit, as JSON values."""

    @abstractmethod
    def version(self) -> int | None:
        """The table's current version."""

    @abstractmethod
    def committed(self, application: str) -> int:
        """The largest number that was committed for an application; 0 if there is none."""

    @abstractmethod
    def has_commit(self, identity: str, since: int | None) -> bool:
        """Whether a version after `since` was committed with that identity."""

    @abstractmethod
    def commit(self, files: Sequence[tuple[str, Mapping[str, Any]]], token: Token) -> None:
        """Adds files (the path, and the result of `describe`) in one new version.

        The version records the token's application and number, or its identity if it has no
        application.
        """


class LakeSink(Sink):
    """Writes the rows of one execution, one file per partition and epoch."""

    def __init__(self, target: LakeTarget, request: SinkRequest) -> None:
        self._target = target
        self._owner = request.owner
        self._application = application_of(request.owner)
        self._positions = {index: position for position, index in enumerate(request.columns)}
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
            batch.column(self._positions[i])
            if i in self._positions
            else pa.nulls(batch.num_rows, to_arrow(column.type))
            for i, column in enumerate(target.columns)
        ]
        for i in target.required:
            if columns[i].null_count:
                raise NotNullViolation(
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
        for group in range(found.num_rows):
            values = tuple(found.column(name)[group].as_py() for name in names)
            numbers = found.column("row_list")[group].values
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
            # A step after the commit may have failed, such as a checkpoint of the log: then the
            # rows were added.
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
        # A commit can have been tried before only if the files have their final names.
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
        """A sink that only renames and removes files."""
        target = self._target
        folder = SinkTarget(target.folder, None, ".parquet", None)
        return FileSink(
            target.format, folder, target.columns, SinkRequest(WriteMode.INSERT, (), self._owner)
        )


def application_of(owner: str) -> str:
    """The name under which a table records the commits of a job; "" for a light job."""
    return "runnel-" + hashlib.sha256(owner.encode()).hexdigest()[:32] if owner else ""
