"""TYPE Spark: tables over data that a Spark session reads and writes; and the session itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.catalog import Table, TableColumn
from runnel.connector import DataConnector, MappingDefinition
from runnel.connectors.spark.errors import spark_errors
from runnel.connectors.spark.options import SparkOptions, read_options
from runnel.connectors.spark.origin import (
    DataFrameOrigin,
    FollowedOrigin,
    RegisteredFrame,
    origin_of,
)
from runnel.connectors.spark.session.owner import SessionOwner, session_of
from runnel.connectors.spark.stream import SparkStreamTable
from runnel.connectors.spark.table import SparkSinkTable, SparkTable, found_columns, table_of_frame
from runnel.errors import NotSupportedError, ProgrammingError
from runnel.foreign.job_runtime import JobRuntime, JobRuntimeConnector

if TYPE_CHECKING:
    from runnel.connectors.spark.fragments.engine import SparkEngine
    from runnel.connectors.spark.stream import SparkStreamTable

AnyTable = TypeVar("AnyTable", bound=Table)


class SparkConnector(DataConnector, JobRuntimeConnector):
    """The Spark of one connection. Creating it starts nothing.

    A data connection names what mappings share: the format of a source and its options, or nothing,
    for tables of Spark's catalog.
    """

    name = "Spark"
    resource_types = ("TABLE", "VIEW")

    def __init__(self) -> None:
        self.owner = SessionOwner()
        self._engine: SparkEngine | None = None

    def use(self, session: Any) -> None:
        """Adopts the argument of `connect(spark=…)`: a session, or the master URL of a session
        to be started when it is needed."""
        self.owner.use(session)

    def open(self, definition: MappingDefinition) -> Table:
        """Opens a mapping; if it declares its columns, this needs no Spark."""
        if definition.object_type is not None:
            raise NotSupportedError(
                f'connector Spark has no object type "{definition.object_type}"'
            )
        options = read_options(definition.options, definition.external_name)
        columns = [
            TableColumn(item.name, item.type, item.external_name) for item in definition.columns
        ]
        if options.follow:
            return self._followed(definition.name, columns, options)
        if columns:
            return self._known(self._table(definition.name, columns, options, {}))
        spark = self.owner.get()
        origin = origin_of(options, ())
        with spark_errors():
            columns, problems = found_columns(origin.frame(spark))
        return self._known(self._table(definition.name, columns, options, problems))

    def check_connection(self, options: Mapping[str, str]) -> None:
        for name in options:
            if name.lower() in ("path", "table", "query"):
                raise ProgrammingError(
                    f'a data connection of connector Spark has no option "{name}"',
                    hint="this option belongs to a single mapping",
                )

    def resources(self, options: Mapping[str, str]) -> Sequence[tuple[str, str]]:
        if options:
            raise NotSupportedError("the content of another data source of Spark can't be listed")
        spark = self.owner.get()
        with spark_errors():
            found = [(item.name, item.tableType) for item in spark.session.catalog.listTables()]
        return sorted(
            (f'"{name}"', "VIEW" if kind in ("VIEW", "TEMPORARY") else "TABLE")
            for name, kind in found
        )

    def registered(self, name: str, frame: Any) -> SparkTable | SparkStreamTable:
        """The table that `Connection.register(name, frame)` creates; its session becomes the
        connection's."""
        spark = self.owner.adopt(session_of(frame), f'the DataFrame "{name}"')
        with spark_errors():
            if frame.isStreaming:
                return self._stream(name, RegisteredFrame(spark, frame), *found_columns(frame))
            return self._known(
                table_of_frame(name, frame, RegisteredFrame(spark, frame), self.owner)
            )

    def _followed(
        self, name: str, columns: list[TableColumn], options: SparkOptions
    ) -> SparkStreamTable:
        origin = FollowedOrigin(options, columns)
        if columns:
            return self._stream(name, origin, columns, {})
        spark = self.owner.get()
        with spark_errors():
            return self._stream(name, origin, *found_columns(origin.frame(spark)))

    def _stream(
        self,
        name: str,
        origin: DataFrameOrigin,
        columns: list[TableColumn],
        problems: dict[int, str],
    ) -> SparkStreamTable:
        return self._known(SparkStreamTable(name, columns, origin, self.owner, problems))

    @property
    def job_runtime(self) -> JobRuntime:
        return self._known_engine().job_runtime

    def _known(self, table: AnyTable) -> AnyTable:
        """The table, with the engine that runs fragments and jobs over it."""
        table.engine = self._known_engine()
        return table

    def _known_engine(self) -> SparkEngine:
        if self._engine is None:
            # Loaded on first use: a connection that only lists mappings does not need the
            # rendering.
            from runnel.connectors.spark.fragments.engine import SparkEngine

            self._engine = SparkEngine(self.owner)
        return self._engine

    def close(self) -> None:
        self.owner.close()

    def _table(
        self, name: str, columns: list[TableColumn], options: SparkOptions, problems: dict[int, str]
    ) -> SparkTable:
        origin = origin_of(options, columns)
        if options.query is not None or problems:
            return SparkTable(name, columns, origin, self.owner, problems)
        return SparkSinkTable(name, columns, origin, self.owner, options)
