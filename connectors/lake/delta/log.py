"""The log of a Delta table, read by the library deltalake: versions, the schema, and data files.

A table that requires a feature of its readers that is not handled here is refused: reading its
files without that feature would return wrong rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from runnel.access import refused
from runnel.catalog import TableColumn
from runnel.connectors.confined_path import ConfinedPath
from runnel.connectors.files.conversion import convert_arrow
from runnel.connectors.files.format import external_name
from runnel.connectors.files.storage import DataFile, like, local
from runnel.connectors.lake.files import Bounds, FileSet, LakeFile
from runnel.connectors.packages import required
from runnel.errors import ErrorCode, NotSupportedError, OperationalError
from runnel.sqltypes import Kind, from_arrow

READER_FEATURES = frozenset(
    {"timestampNtz", "deletionVectors", "columnMapping", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features that are handled here or in the library; column mapping only with the mode "none"."""

NAMING_FEATURES = frozenset({"deletionVectors", "v2Checkpoint"})
"""Features with which a log names files that the library opens by itself, wherever they are."""

MILLISECOND = timedelta(milliseconds=1)

_NOISE = re.compile(r"\x1b\[[0-9;]*m|\s0: <unknown>.*", re.DOTALL)
"""Colours and the library's stack in its messages."""


def delta() -> Any:
    """The package deltalake."""
    return required("deltalake", "TYPE Delta", "delta")


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Converts exceptions of the library into an OperationalError with the message `what`."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        text = " ".join(_NOISE.sub("", str(error)).split())
        raise OperationalError(what, detail=text or type(error).__name__) from error


def is_table(path: str) -> bool:
    """Whether a folder has the log of a Delta table."""
    return Path(_log(path)).is_dir()


def _log(path: str) -> str:
    """The folder of the log, under the access rules of the table's path."""
    return local(like(path, str(Path(path, "_delta_log"))))


def _library_path(path: str) -> str:
    """The path of a table for the library.

    The library opens the files in the log by itself, so their access is checked before.
    """
    if not isinstance(path, ConfinedPath):
        return path
    log = _log(path)
    for item in Path(log).iterdir() if Path(log).is_dir() else ():
        local(like(path, str(item)))
    return local(path)


def load(path: str, version: int | None = None) -> Any:
    """The table, at its newest version or at one that the log still has.

    Fails if the table requires an unsupported feature of its readers.
    """
    library = delta()
    if not is_table(path):
        raise OperationalError(
            f'"{path}" is no Delta table',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint="correct the path, or declare columns and add OPTIONS ('create' = 'true')",
        )
    what = f'the Delta table "{path}" can\'t be read'
    if version is not None:
        what = f'the Delta table "{path}" has no version {version}, or no longer'
    with calling(what):
        table = library.DeltaTable(_library_path(path), version=version)
    _check_reader(path, table)
    return table


def _check_reader(path: str, table: Any) -> None:
    protocol = table.protocol()
    configuration = table.metadata().configuration
    features = set(protocol.reader_features or ())
    if isinstance(path, ConfinedPath) and features & NAMING_FEATURES:
        names = " and ".join(sorted(features & NAMING_FEATURES))
        raise refused(
            f'the Delta table "{path}", which has {names},', "the owner defines a mapping on it"
        )
    unknown = sorted(features - READER_FEATURES)
    if not _is_used("variantType", table):
        unknown = [name for name in unknown if not name.startswith("variantType")]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        unknown.append("columnMapping")
    if protocol.min_reader_version > 3:
        unknown.append(f"reader version {protocol.min_reader_version}")
    if unknown:
        raise NotSupportedError(
            f'the Delta table "{path}" needs readers that know {", ".join(unknown)}',
            hint="read it through Spark (TYPE Spark), or write a copy without",
        )


def _is_used(feature: str, table: Any) -> bool:
    return feature == "variantType" and '"variant"' in table.schema().to_json()


def schema_of(table: Any) -> pa.Schema:
    """The columns, in Arrow's types."""
    return pa.schema(table.schema().to_arrow())


def schema_in(metadata: Mapping[str, Any]) -> pa.Schema:
    """The columns of a table after a "metaData" action of the log."""
    with calling("the columns of a Delta table can't be read"):
        return pa.schema(delta().Schema.from_json(metadata["schemaString"]).to_arrow())


def version_at(table: Any, path: str, timestamp: datetime) -> int:
    """The newest version at a timestamp."""
    milliseconds = round(timestamp.timestamp() * 1000)
    with calling(f'the history of the Delta table "{path}" can\'t be read'):
        history = [
            (entry["timestamp"], entry["version"])
            for entry in table.history()
            if entry.get("timestamp") is not None
        ]
    found = [version for stamp, version in history if stamp <= milliseconds]
    if not found:
        earliest = min((stamp for stamp, _ in history), default=None)
        since = (
            ""
            if earliest is None
            else datetime.fromtimestamp(earliest / 1000, UTC).isoformat(sep=" ")
        )
        raise OperationalError(
            f'the Delta table "{path}" has no version of {timestamp.isoformat(sep=" ")}',
            hint=f"its log begins at {since}",
        )
    return int(max(found))


def files_of(path: str, table: Any, columns: Sequence[TableColumn]) -> FileSet:
    """The files of the version at which a table was loaded, in the order of their age."""
    with calling(f'the files of the Delta table "{path}" can\'t be listed'):
        actions = pa.table(table.get_add_actions()).combine_chunks()
        actions = actions.sort_by(
            [("modification_time", "ascending"), ("path", "ascending")]
        ).combine_chunks()
        removed = _deletion_vectors(table)
    constants = _partition_values(actions, table.metadata().partition_columns, columns)
    files = []
    for i, (name, size, rows) in enumerate(
        zip(
            *(actions.column(item).to_pylist() for item in ("path", "size_bytes", "num_records")),
            strict=True,
        )
    ):
        file = file_path(path, name)
        values = {index: array.slice(i, 1) for index, array in constants.items()}
        files.append(LakeFile(DataFile(file, size), rows, values, removed.get(file)))
    return FileSet(table.version(), files, _StatisticsOf(actions, columns, schema_of(table)))


def file_path(table: str, name: str) -> str:
    """The path of a file in the log: relative to the table, or a URL; percent-encoded in both
    cases."""
    parts = urlsplit(name)
    if parts.scheme == "file":
        return like(table, unquote(parts.path))
    if parts.scheme:
        raise NotSupportedError(
            f'file "{name}" of the Delta table "{table}" is not on this computer'
        )
    return like(table, str(Path(table, unquote(name))))


def _deletion_vectors(table: Any) -> dict[str, pa.Array]:
    """For each file with deleted rows, the mask of its live rows."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = pa.table(table.deletion_vectors()).combine_chunks()
    masks = {}
    for i, name in enumerate(found.column("filepath").to_pylist()):
        mask = found.column("selection_vector")[i]
        masks[file_path("", name)] = mask.values
    return masks


def _partition_values(
    actions: pa.Table, names: Sequence[str], columns: Sequence[TableColumn]
) -> dict[int, pa.Array]:
    """The value of each partition column for each file, in the mapping's type."""
    if not names:
        return {}
    struct = actions.column("partition").combine_chunks() if actions.num_rows else None
    found = {}
    for index, column in enumerate(columns):
        name = next((name for name in names if name.lower() == external_name(column).lower()), None)
        if name is not None and struct is not None:
            array = (
                struct.field(name)
                if isinstance(struct, pa.StructArray)
                else struct.chunk(0).field(name)
            )
            found[index] = convert_arrow(array, column.type)
    return found


class _StatisticsOf:
    """The bounds of columns, from the statistics in the log."""

    def __init__(
        self, actions: pa.Table, columns: Sequence[TableColumn], schema: pa.Schema
    ) -> None:
        self._actions = actions
        self._columns = columns
        self._schema = schema

    def __call__(self, index: int) -> Bounds | None:
        column = self._columns[index]
        field = next(
            (item for item in self._schema if item.name.lower() == external_name(column).lower()),
            None,
        )
        # The log stores decimals as floating-point numbers.
        if (
            field is None
            or from_arrow(field.type) != column.type
            or column.type.kind is Kind.DECIMAL
            or column.type.is_nested
        ):
            return None
        least, largest = self._values("min", field.name), self._values("max", field.name)
        nulls, rows = (
            self._values("null_count", field.name),
            self._actions.column("num_records").to_pylist(),
        )
        if column.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
            # The log stores them truncated to milliseconds.
            largest = [_later(value) for value in largest]
            least = [
                None if end is None else start for start, end in zip(least, largest, strict=True)
            ]
        only_null = [rows[i] is not None and nulls[i] == rows[i] for i in range(len(rows))]
        return Bounds(least, largest, only_null)

    def _values(self, kind: str, name: str) -> list[Any]:
        nothing = [None] * self._actions.num_rows
        if kind not in self._actions.schema.names:
            return nothing
        struct = self._actions.column(kind).combine_chunks()
        if struct.type.get_field_index(name) < 0:
            return nothing
        values: list[Any] = struct.field(name).to_pylist()
        return values


def _later(value: datetime | None) -> datetime | None:
    try:
        return None if value is None else value + MILLISECOND
    except OverflowError:
        return None


def has_version(path: str, version: int) -> bool:
    """Whether the log has the file of a version."""
    return _commit_file(path, version).exists()


def versions_in(path: str) -> list[int]:
    """The versions whose files the log has."""
    found = [item.stem for item in Path(_log(path)).glob("*.json")]
    return sorted(int(name) for name in found if name.isdigit())


def _commit_file(path: str, version: int) -> Path:
    return Path(local(like(path, str(Path(path, "_delta_log", f"{version:020d}.json")))))


def actions_in(path: str, version: int) -> list[Mapping[str, Any]] | None:
    """The actions of a version, as its file in the log lists them; None if that file does not
    exist."""
    file = _commit_file(path, version)
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise OperationalError(f'file "{file}" can\'t be read', detail=str(error)) from error
    try:
        # Not by `splitlines`: texts in JSON may contain other characters that it treats as line
        # ends.
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except json.JSONDecodeError as error:
        raise OperationalError(f'file "{file}" is damaged', detail=str(error)) from error
