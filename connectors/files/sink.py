"""Writes to a file mapping. Each statement (or snapshot) adds one file, visible only when complete.

Rows go to a file whose name starts with '.', in the folder of the final file. `stage` makes it
durable; `commit` renames it atomically. So a reader never sees a half-written file, and it never
reads the remains of a dead process. The names of a durable job's unfinished files contain the job's
mark. When the job resumes, it renames the files that the snapshot lists, and removes the other
files with its mark.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.format import FileFormat
from runnel.connectors.files.options import SUFFIXES, compression_of, format_of
from runnel.connectors.files.output import FileOutput, RowWriter, writing
from runnel.connectors.files.paths import FilePath
from runnel.errors import IOException, OperationalError, ProgrammingError
from runnel.sqltypes import to_arrow

UNFINISHED_PREFIX = ".runnel-"

logger = logging.getLogger("runnel.connectors.files.connector")


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """The target of a sink.

    folder: the folder of new files.
    name: the name of the one file; None: each file gets a new name.
    suffix: the extension of new names.
    compression: "gz", …; None for none.
    """

    folder: str
    name: str | None
    suffix: str
    compression: str | None


def sink_target(path: FilePath, file_format: FileFormat) -> SinkTarget:
    """The target of writing to a path.

    The path is a folder, which need not exist if its name does not have the extension of a data
    file; or a file, which must not exist. ProgrammingError for a pattern.
    """
    option = file_format.options.compression
    text = path.text
    if path.is_pattern:
        raise ProgrammingError(
            f'rows can\'t be written to the pattern "{path.text}"',
            hint="create a mapping on the folder itself",
        )
    name = Path(text).name
    is_folder = file_system.is_folder(text) or (
        not file_system.exists(text) and format_of(name) is None
    )
    if is_folder:
        compression = None if option == "auto" else compression_of("", option)
        suffix = SUFFIXES[file_format.name]
        if compression is not None and file_format.is_text:
            suffix += "." + compression
        target = SinkTarget(text, None, suffix, compression)
        if path.glob is not None and not Path(_new_name(target)).match(path.glob):
            raise ProgrammingError(
                f"rows can't be written to \"{path.text}\": files named *{suffix} don't match the "
                f'glob "{path.glob}"',
                hint=f"create a mapping with the glob '*{suffix}'",
            )
        return target
    if file_system.exists(text):
        raise IOException(
            f'file "{path.text}" exists already',
            hint="write to a new file, or to a folder, which gets a file per statement",
        )
    return SinkTarget(file_system.parent_of(text), name, "", compression_of(name, option))


def _new_name(target: SinkTarget) -> str:
    # The time comes first, so that files sort by age.
    return f"{file_system.OWN_NAME}{time.time_ns():019d}-{uuid4().hex[:12]}{target.suffix}"


class FileSink(Sink):
    """Writes the rows of one execution."""

    def __init__(
        self,
        file_format: FileFormat,
        target: SinkTarget,
        columns: tuple[TableColumn, ...],
        request: SinkRequest,
    ) -> None:
        self._format = file_format
        self._target = target
        self._columns = tuple(column for column in columns if not column.hidden)
        self._positions = _positions(columns, self._columns, request)
        self._mark = mark_of(request.owner)
        if self._mark and target.name is not None:
            raise one_file_only(file_system.below(target.folder, target.name))
        self._output: FileOutput | None = None
        self._writer: RowWriter | None = None
        self._final = ""
        self._staged: list[str] = []

    def recover(self, tokens: Sequence[Token]) -> None:
        recover_files(
            self._target.folder,
            self._mark,
            [self._pair(pair) for token in tokens for pair in token["renames"]],
        )

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._writer is None:
            self._begin()
        assert self._writer is not None and self._output is not None
        arrays = [
            pa.nulls(batch.num_rows, to_arrow(column.type))
            if position is None
            else batch.column(position)
            for column, position in zip(self._columns, self._positions, strict=True)
        ]
        full = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])
        with writing(self._final):
            self._writer.write(full)

    def stage(self, epoch: int) -> Token:
        output, writer = self._output, self._writer
        if output is None or writer is None:
            return {"renames": []}
        with writing(self._final):
            writer.finish()
            output.finish()
            if self._mark:
                # The file survives a power loss only if its name does.
                file_system.keep_names(self._target.folder)
        self._output = self._writer = None
        self._staged.append(output.path)
        return {"renames": [[str(output.path), str(self._final)]]}

    def commit(self, token: Token) -> None:
        for unfinished, final in token["renames"]:
            with writing(final):
                file_system.publish(*self._pair((unfinished, final)))
            if unfinished in self._staged:
                self._staged.remove(unfinished)

    def abort(self, token: Token | None) -> None:
        if token is None:
            self._give_up()
            return
        for unfinished, _ in token["renames"]:
            file_system.remove(self._path(unfinished))
            if unfinished in self._staged:
                self._staged.remove(unfinished)

    def close(self) -> None:
        if self._mark:
            self._staged = []
        self._give_up()

    def _begin(self) -> None:
        target = self._target
        with writing(target.folder):
            file_system.make_folder(target.folder)
        name = target.name or _new_name(target)
        self._final = file_system.below(target.folder, name)
        unfinished = file_system.below(
            target.folder, f"{UNFINISHED_PREFIX}{self._mark}{uuid4().hex[:12]}-{name}"
        )
        self._output = FileOutput(
            unfinished,
            target.compression if self._format.is_text else None,
            self._format.options.encoding,
        )
        with writing(self._final):
            self._writer = self._format.writer(self._output, self._columns)

    def _give_up(self) -> None:
        output, self._output, self._writer = self._output, None, None
        if output is not None:
            output.discard()
        for path in self._staged:
            file_system.remove(path)
        self._staged = []

    def _pair(self, texts: Sequence[str]) -> tuple[str, str]:
        """Both paths of a rename in a token, which may be from before a restart."""
        unfinished, final = texts
        return self._path(unfinished), self._path(final)

    def _path(self, text: str) -> str:
        options = self._format.options
        path = file_system.absolute_path(text, dict(options.storage), options.access)
        return file_system.like(self._target.folder, path)


class ReplacingSink(Sink):
    """Writes by another sink, whose commit removes files that existed before.

    path: the path of the mapping.
    sink: writes the new files.
    folders: only files in these folders, and in the folders of new files, are removed; None: all.
    """

    def __init__(self, path: FilePath, sink: Sink, folders: frozenset[str] | None) -> None:
        self._sink = sink
        self._folders = folders
        self._old = [file.path for file in replace(path, ignore_missing=True).files()]

    def write(self, batch: pa.RecordBatch) -> None:
        self._sink.write(batch)

    def stage(self, epoch: int) -> Token:
        return self._sink.stage(epoch)

    def commit(self, token: Token) -> None:
        self._sink.commit(token)
        folders = None
        if self._folders is not None:
            written = (file_system.parent_of(final) for _, final in token["renames"])
            folders = self._folders.union(written)
        for path in self._old:
            if folders is None or file_system.parent_of(path) in folders:
                with writing(path):
                    file_system.remove(path)

    def abort(self, token: Token | None) -> None:
        self._sink.abort(token)

    def close(self) -> None:
        self._sink.close()


def mark_of(owner: str) -> str:
    """The mark in the names of a durable job's unfinished files; "" for a light job."""
    return hashlib.sha256(owner.encode()).hexdigest()[:16] + "-" if owner else ""


def one_file_only(path: str) -> ProgrammingError:
    return ProgrammingError(
        f'a job can\'t write to the one file "{path}": each of its snapshots adds a file',
        hint="create the mapping on a folder",
    )


def recover_files(folder: str, mark: str, counted: Sequence[tuple[str, str]]) -> None:
    """Renames the staged files that a snapshot lists, and removes the job's other unfinished files.

    `counted` has pairs of the unfinished and the final path; files with `mark` below `folder`
    belong to the job.
    """
    for unfinished, final in counted:
        with writing(final):
            if file_system.exists(unfinished) or file_system.exists(final):
                file_system.publish(unfinished, final)
            elif file_system.may_be_away(folder):
                raise OperationalError(
                    f'folder "{folder}" is gone, and with it what a job has written there',
                    hint=(
                        "mount it again, or bring it back; if its files were taken away on "
                        "purpose, make an empty one"
                    ),
                )
            else:
                logger.warning(
                    'file "%s" was written by a job and has been taken away since', final
                )
    if mark:
        with writing(folder):
            for path in file_system.named_like(folder, UNFINISHED_PREFIX + mark):
                file_system.remove(path)


def _positions(
    columns: tuple[TableColumn, ...], visible: tuple[TableColumn, ...], request: SinkRequest
) -> list[int | None]:
    """The index of each visible column in the batches; None for a column that is set to NULL."""
    written = {columns[index].name: position for position, index in enumerate(request.columns)}
    for index in request.columns:
        if columns[index].hidden:
            raise ProgrammingError(
                f'column "{columns[index].name}" can\'t be written: it is the position of a row'
            )
    return [written.get(column.name) for column in visible]
