"""Writing to a file mapping: each statement (or snapshot) adds one file, which is seen only when it
is complete.

Rows go to a file whose name starts with '.', in the folder where it will be; `stage` makes it safe
on the disk; `commit` gives it its name, at once and for all. So a reader never meets a half-written
file, and what a dead process left behind is never read. The unfinished files of a durable job have
its mark in their names: its next execution gives those their names that the snapshot counts, and
removes the others.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
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
from runnel.errors import OperationalError, ProgrammingError
from runnel.sqltypes import to_arrow

UNFINISHED_PREFIX = ".runnel-"

logger = logging.getLogger("runnel.connectors.files.connector")


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """Where a sink writes: a folder, and the one name in it or, with None, a new name for each
    file."""

    folder: str
    name: str | None
    suffix: str
    compression: str | None


def sink_target(path: FilePath, file_format: FileFormat) -> SinkTarget:
    """Where to write for a path: a folder (also one that isn't there, if its name has no extension
    of a data file), or a file, which mustn't exist. ProgrammingError for a pattern."""
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
        raise OperationalError(
            f'file "{path.text}" exists already',
            hint="write to a new file, or to a folder, which gets a file per statement",
        )
    return SinkTarget(file_system.parent_of(text), name, "", compression_of(name, option))


def _new_name(target: SinkTarget) -> str:
    # The time first, so that files sort by age.
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
        self._places = _places(columns, self._columns, request)
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
            if place is None
            else batch.column(place)
            for column, place in zip(self._columns, self._places, strict=True)
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
                # The file outlives the process only where its name does.
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
        self._output = FileOutput(unfinished, target.compression if self._format.is_text else None)
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
        """Both paths of a token's renaming, which may be from before a restart."""
        unfinished, final = texts
        return self._path(unfinished), self._path(final)

    def _path(self, text: str) -> str:
        options = self._format.options
        path = file_system.absolute_path(text, dict(options.storage), options.access)
        return file_system.like(self._target.folder, path)


def mark_of(owner: str) -> str:
    """What the names of a durable job's unfinished files have in them; "" for a light job."""
    return hashlib.sha256(owner.encode()).hexdigest()[:16] + "-" if owner else ""


def one_file_only(path: str) -> ProgrammingError:
    return ProgrammingError(
        f'a job can\'t write to the one file "{path}": each of its snapshots adds a file',
        hint="create the mapping on a folder",
    )


def recover_files(folder: str, mark: str, counted: Sequence[tuple[str, str]]) -> None:
    """Gives the staged files that a snapshot counts their names, and removes the others with that
    mark below the folder."""
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


def _places(
    columns: tuple[TableColumn, ...], visible: tuple[TableColumn, ...], request: SinkRequest
) -> list[int | None]:
    """Where each visible column is in the batches; None for those that become NULL."""
    given = {columns[index].name: place for place, index in enumerate(request.columns)}
    for index in request.columns:
        if columns[index].hidden:
            raise ProgrammingError(
                f'column "{columns[index].name}" can\'t be written: it tells where a row is'
            )
    return [given.get(column.name) for column in visible]
