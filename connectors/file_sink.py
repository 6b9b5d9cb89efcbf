"""Writing to a file mapping: each statement (or snapshot) adds one file, which is seen only when it is complete.

Rows go to a file whose name starts with '.', in the folder where it will be; `stage` makes it safe on the disk; `commit`
gives it its name, at once and for all. So a reader never meets a half-written file, and what a dead process left behind is
never read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connector import Sink, SinkRequest, Token
from runnel.connectors import file_system
from runnel.connectors.file_format import FileFormat
from runnel.connectors.file_options import SUFFIXES, compression_of, format_of
from runnel.connectors.file_output import FileOutput, RowWriter, writing
from runnel.connectors.file_paths import FilePath
from runnel.errors import OperationalError, ProgrammingError
from runnel.sqltypes import to_arrow

UNFINISHED_PREFIX = ".runnel-"


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """Where a sink writes: a folder, and the one name in it or, with None, a new name for each file."""

    folder: str
    name: str | None
    suffix: str
    compression: str | None


def sink_target(path: FilePath, file_format: FileFormat) -> SinkTarget:
    """Where to write for a path: a folder (also one that isn't there, if its name has no extension of a data file), or a
    file, which mustn't exist. ProgrammingError for a pattern."""
    option = file_format.options.compression
    text = path.text
    if path.is_pattern:
        raise ProgrammingError(
            f'rows can\'t be written to the pattern "{path.text}"', hint="create a mapping on the folder itself"
        )
    name = Path(text).name
    is_folder = file_system.is_folder(text) or (not file_system.exists(text) and format_of(name) is None)
    if is_folder:
        compression = None if option == "auto" else compression_of("", option)
        suffix = SUFFIXES[file_format.name]
        if compression is not None and file_format.is_text:
            suffix += "." + compression
        target = SinkTarget(text, None, suffix, compression)
        if path.glob is not None and not Path(_new_name(target)).match(path.glob):
            raise ProgrammingError(
                f'rows can\'t be written to "{path.text}": files named *{suffix} don\'t match the glob "{path.glob}"',
                hint=f"create a mapping with the glob '*{suffix}'",
            )
        return target
    if file_system.exists(text):
        raise OperationalError(
            f'file "{path.text}" exists already', hint="write to a new file, or to a folder, which gets a file per statement"
        )
    return SinkTarget(file_system.parent_of(text), name, "", compression_of(name, option))


def _new_name(target: SinkTarget) -> str:
    # The time first, so that files sort by age.
    return f"part-{time.time_ns():019d}-{uuid4().hex[:12]}{target.suffix}"


class FileSink(Sink):
    """Writes the rows of one execution."""

    def __init__(
        self, file_format: FileFormat, target: SinkTarget, columns: tuple[TableColumn, ...], request: SinkRequest
    ) -> None:
        self._format = file_format
        self._target = target
        self._columns = tuple(column for column in columns if not column.hidden)
        self._places = _places(columns, self._columns, request)
        self._output: FileOutput | None = None
        self._writer: RowWriter | None = None
        self._final = ""
        self._staged: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._writer is None:
            self._begin()
        assert self._writer is not None and self._output is not None
        arrays = [
            pa.nulls(batch.num_rows, to_arrow(column.type)) if place is None else batch.column(place)
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
        self._output = self._writer = None
        self._staged.append(output.path)
        return {"renames": [[str(output.path), str(self._final)]]}

    def commit(self, token: Token) -> None:
        for unfinished, final in token["renames"]:
            with writing(final):
                file_system.publish(self._path(unfinished), self._path(final))
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
        self._give_up()

    def _begin(self) -> None:
        target = self._target
        with writing(target.folder):
            file_system.make_folder(target.folder)
        name = target.name or _new_name(target)
        self._final = file_system.below(target.folder, name)
        unfinished = file_system.below(target.folder, f"{UNFINISHED_PREFIX}{uuid4().hex[:12]}-{name}")
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

    def _path(self, text: str) -> str:
        """The path of a token's text, which may be from before a restart."""
        return file_system.absolute_path(text, dict(self._format.options.storage))


def _places(columns: tuple[TableColumn, ...], visible: tuple[TableColumn, ...], request: SinkRequest) -> list[int | None]:
    """Where each visible column is in the batches; None for those that become NULL."""
    given = {columns[index].name: place for place, index in enumerate(request.columns)}
    for index in request.columns:
        if columns[index].hidden:
            raise ProgrammingError(f'column "{columns[index].name}" can\'t be written: it tells where a row is')
    return [given.get(column.name) for column in visible]
