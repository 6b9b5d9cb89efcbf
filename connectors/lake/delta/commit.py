"""Appends to a Delta table: the layout and description of its files, and the commit.

The commit records a job's epoch as a transaction of an application, the log's own means to write
exactly once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runnel.catalog import TableColumn
from runnel.connector import Token
from runnel.connectors.files.format import external_name
from runnel.connectors.files.hive.paths import folder_name
from runnel.connectors.files.storage import like, local
from runnel.connectors.lake.delta.log import actions_in, calling, delta, load, schema_of
from runnel.connectors.lake.options import LakeSchema
from runnel.connectors.lake.parquet import LakeParquet
from runnel.connectors.lake.sink import LakeTarget
from runnel.errors import DataError, NotSupportedError, OperationalError
from runnel.expressions.casts.cast import cast_datum
from runnel.expressions.context import EvaluationContext
from runnel.sqltypes import VARCHAR, Kind

WRITER_FEATURES = frozenset(
    {
        *(
            "appendOnly",
            "invariants",
            "checkConstraints",
            "generatedColumns",
            "changeDataFeed",
            "columnMapping",
        ),
        *(
            "identityColumns",
            "deletionVectors",
            "timestampNtz",
            "v2Checkpoint",
            "vacuumProtocolCheck",
            "domainMetadata",
        ),
        *("clustering", "variantType", "variantType-preview"),
    }
)
"""Features of tables to which a writer may append files. If one of them requires more of the
writer, `_check_writer` detects it."""

_NEEDS_MORE = (
    "delta.invariants",
    "delta.generationExpression",
    "delta.identity",
    "CURRENT_DEFAULT",
)
_PARTITION_KINDS = frozenset(
    {
        *(
            Kind.BOOLEAN,
            Kind.TINYINT,
            Kind.SMALLINT,
            Kind.INTEGER,
            Kind.BIGINT,
            Kind.DECIMAL,
            Kind.VARCHAR,
            Kind.DATE,
        ),
        *(Kind.TIMESTAMP, Kind.TIMESTAMP_TZ),
    }
)
_COMMIT = "runnel.commit"
_STATISTICS = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DATE, Kind.VARCHAR}
)
"""Without floating-point numbers: a Parquet footer ignores NaN, which is the largest number for
other readers."""

LONGEST_TEXT = 24
"""The number of characters above which texts are left out of the statistics, since they would
have to be truncated."""


class DeltaTarget(LakeTarget):
    """A Delta table that is appended to."""

    def __init__(self, path: str, columns: tuple[TableColumn, ...], schema: LakeSchema) -> None:
        self.folder = path
        self.format = LakeParquet()
        self.columns = columns
        self._schema = schema
        table = self._load()
        self._partitions = list(table.metadata().partition_columns)
        by_name = {external_name(column): i for i, column in enumerate(columns)}
        missing = [name for name in self._partitions if name not in by_name]
        if missing:
            raise NotSupportedError(
                f"rows can't be written to {schema.title}: the mapping has no column for its "
                f'partition column "{missing[0]}"',
                hint="declare it, too",
            )
        self._positions = [by_name[name] for name in self._partitions]
        for index in self._positions:
            if columns[index].type.kind not in _PARTITION_KINDS:
                raise NotSupportedError(
                    f"partitions by a column of type {columns[index].type} can't be written"
                )
        self.in_files = tuple(i for i in range(len(columns)) if i not in self._positions)
        if not self.in_files:
            raise NotSupportedError(
                f"rows can't be written to {schema.title}: "
                "all its mapped columns are partition columns"
            )
        self.required = self._required(table)

    def _load(self) -> Any:
        """The current table, if rows of the mapping still fit it."""
        table = load(self.folder)
        now = schema_of(table)
        self._schema.check_unchanged(now, self.columns)
        LakeSchema(now, self._schema.title).check_writable(self.columns)
        _check_writer(self._schema.title, table)
        return table

    def _required(self, table: Any) -> tuple[int, ...]:
        by_name = {external_name(column): i for i, column in enumerate(self.columns)}
        needed = [field.name for field in schema_of(table) if not field.nullable]
        for name in needed:
            if name not in by_name:
                raise NotSupportedError(
                    f"rows can't be written to {self._schema.title}: "
                    f'its column "{name}" can\'t be NULL',
                    detail="the mapping does not have that column",
                    hint="declare it, too",
                )
        return tuple(by_name[name] for name in needed)

    def partition_of(self, columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
        return [self._texts(columns[index], self.columns[index]) for index in self._positions]

    def _texts(self, array: pa.Array, column: TableColumn) -> pa.Array:
        """Values in the format of the log."""
        if column.type != VARCHAR:
            if column.type.kind is Kind.TIMESTAMP_TZ:
                # With its zone: without a zone, other readers assume the zone of their session.
                text = array.cast(pa.timestamp("us")).cast(pa.string())
                return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "Z", "")
            return cast_datum(array, column.type, VARCHAR, EvaluationContext())
        if pc.any(pc.equal(pc.binary_length(array), pa.scalar(0, pa.int32()))).as_py():
            raise DataError(
                f'the empty text can\'t be a value of partition column "{column.name}"',
                detail="in a Delta table it means NULL",
            )
        return array

    def folder_of(self, values: Sequence[Any]) -> str:
        return folder_name(self._partitions, list(values)) if self._partitions else ""

    def describe(self, path: str, values: Sequence[Any]) -> Mapping[str, Any]:
        path = local(like(self.folder, path))
        with calling(f'file "{path}" can\'t be read'):
            metadata = pq.read_metadata(path)
        return {
            "size": Path(path).stat().st_size,
            "partition": dict(zip(self._partitions, values, strict=True)),
            "statistics": json.dumps(self._statistics(metadata)),
        }

    def _statistics(self, metadata: pq.FileMetaData) -> Mapping[str, Any]:
        least: dict[str, Any] = {}
        largest: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for index in self.in_files:
            column = self.columns[index]
            name = external_name(column)
            leaves = [
                i for i in range(metadata.num_columns) if metadata.schema.column(i).path == name
            ]
            if column.type.kind not in _STATISTICS or len(leaves) != 1:
                continue
            statistics = [
                metadata.row_group(i).column(leaves[0]).statistics
                for i in range(metadata.num_row_groups)
            ]
            if any(chunk is None or not chunk.has_null_count for chunk in statistics):
                continue
            nulls[name] = sum(chunk.null_count for chunk in statistics)
            known = [chunk for chunk in statistics if chunk.has_min_max]
            if len(known) == len(statistics) and known:
                ends = min(chunk.min for chunk in known), max(chunk.max for chunk in known)
                if all(_is_short(end) for end in ends):
                    least[name], largest[name] = (_json(end) for end in ends)
        return {
            "numRecords": metadata.num_rows,
            "minValues": least,
            "maxValues": largest,
            "nullCount": nulls,
        }

    def version(self) -> int | None:
        return int(load(self.folder).version())

    def committed(self, application: str) -> int:
        with calling(f"the log of {self._schema.title} can't be read"):
            return load(self.folder).transaction_version(application) or 0

    def has_commit(self, identity: str, since: int | None) -> bool:
        version = 0 if since is None else since + 1
        while (actions := actions_in(self.folder, version)) is not None:
            if any(action.get("commitInfo", {}).get(_COMMIT) == identity for action in actions):
                return True
            version += 1
        return False

    def commit(self, files: Sequence[tuple[str, Mapping[str, Any]]], token: Token) -> None:
        library = delta()
        from deltalake.transaction import AddAction

        table = self._load()
        if list(table.metadata().partition_columns) != self._partitions:
            raise OperationalError(
                f"{self._schema.title} has other partition columns now",
                hint="run the statement again",
            )
        now = time.time_ns() // 1_000_000
        actions = [
            AddAction(
                path=str(Path(path).relative_to(self.folder)),
                size=file["size"],
                partition_values=file["partition"],
                modification_time=now,
                data_change=True,
                stats=file["statistics"],
            )
            for path, file in files
        ]
        application = token["application"]
        properties = library.CommitProperties(
            custom_metadata={_COMMIT: token["id"]},
            app_transactions=[library.Transaction(application, token["number"])]
            if application
            else None,
        )
        with calling(f"{self._schema.title} can't be written to"):
            table.create_write_transaction(
                actions, "append", table.schema(), self._partitions, commit_properties=properties
            )


def _check_writer(what: str, table: Any) -> None:
    """Fails if a table requires more of a writer than files."""
    protocol, configuration = table.protocol(), table.metadata().configuration
    unknown = sorted(set(protocol.writer_features or ()) - WRITER_FEATURES)
    if protocol.min_writer_version > 7:
        unknown.append(f"writer version {protocol.min_writer_version}")
    schema = table.schema().to_json()
    unknown += [name for name in _NEEDS_MORE if f'"{name}' in schema]
    unknown += [name for name in configuration if name.startswith("delta.constraints.")]
    if str(configuration.get("delta.enableRowTracking", "")).lower() == "true":
        unknown.append("row tracking")
    if unknown:
        raise NotSupportedError(
            f"rows can't be written to {what}: it needs writers that know {', '.join(unknown)}",
            hint="write to it through Spark (TYPE Spark)",
        )


def _is_short(value: Any) -> bool:
    return not isinstance(value, str) or len(value) <= LONGEST_TEXT


def _json(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
