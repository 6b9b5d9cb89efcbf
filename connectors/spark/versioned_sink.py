"""Writes to a Delta or Iceberg table through Spark, for jobs that write each row exactly once.

The rows of an epoch are staged in Parquet files next to the table's files. The commit lets Spark
append them in one version of the table that records the job and the epoch's number, and then
removes them. A repeated commit finds no rows or, if the process ended before they were removed,
finds the number in the table. For Delta, the writer itself checks the number (its options txnAppId
and txnVersion); for Iceberg, the summaries of the table's snapshots have it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from runnel.connector import Token
from runnel.connectors.lake.sink import application_of
from runnel.connectors.spark.errors import spark_error, spark_errors
from runnel.connectors.spark.options import SparkOptions
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.sink import STAGING_PREFIX, FilesSink, FrameConverter
from runnel.errors import Error

EPOCH, APPLICATION = "runnel.epoch", "runnel.application"
"""Properties of an Iceberg snapshot, in its summary."""


def version_sink(
    spark: Spark, rows: FrameConverter, options: SparkOptions, owner: str
) -> VersionSink:
    assert options.format is not None
    return SINKS[options.format.lower()](spark, rows, options, owner)


class VersionSink(FilesSink):
    """Appends the rows of an epoch in one version of a table."""

    def __init__(
        self, spark: Spark, rows: FrameConverter, options: SparkOptions, owner: str
    ) -> None:
        assert options.path is not None
        rows.empty()
        _check_package(spark, options)
        super().__init__(spark, rows, SparkOptions("parquet", options.path, None, None, {}), owner)
        self._source = options
        self._application = application_of(owner)

    def stage(self, epoch: int) -> Token:
        return {"staging": super().stage(epoch)["staging"], "number": epoch}

    def recover(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            self.commit(token)
        for name in self._files.folders(self._folder):
            if name.startswith(STAGING_PREFIX + self._mark):
                self._remove(f"{self._folder}/{name}")

    def commit(self, token: Token) -> None:
        staging, number = token["staging"], int(token["number"])
        if not staging or not self._files.exists(staging):
            return  # nothing was written, or it was committed before
        # Makes Runnel's session the active one of the thread, which Spark needs to find data
        # sources in Python.
        self._rows.empty()
        with spark_errors():
            if not self._is_committed(number):
                frame = self._rows.staged(staging)
                writer = (
                    frame.write.format(self._source.format)
                    .mode("append")
                    .options(**self._source.passed)
                )
                writer.options(**self._record(number)).save(self._source.path)
        self._remove(staging)

    @abstractmethod
    def _record(self, number: int) -> Mapping[str, str]:
        """The writer's options by which the new version records the number."""

    def _is_committed(self, number: int) -> bool:
        """Whether the table has recorded the number; only for a writer that does not check it."""
        return False


class DeltaVersionSink(VersionSink):
    """Delta stores a number per application, and skips a write with a number that is not larger."""

    def _record(self, number: int) -> Mapping[str, str]:
        return {"txnAppId": self._application, "txnVersion": str(number)}


class IcebergVersionSink(VersionSink):
    """Iceberg stores the writer's properties of a snapshot in its summary.

    The newest snapshot is not expired between a commit and its repetition.
    """

    def _record(self, number: int) -> Mapping[str, str]:
        return {
            f"snapshot-property.{EPOCH}": str(number),
            f"snapshot-property.{APPLICATION}": self._application,
        }

    def _is_committed(self, number: int) -> bool:
        reader = self._spark.own.read.format(self._source.format).options(**self._source.passed)
        snapshots: Any = reader.load(f"{self._source.path}#snapshots")
        own = snapshots.where(
            f"summary['{APPLICATION}'] = '{self._application}' AND summary['{EPOCH}'] = '{number}'"
        )
        return bool(own.limit(1).count())


def _check_package(spark: Spark, options: SparkOptions) -> None:
    """Fails before anything is written if Spark does not support the format; the writer reports
    other errors."""
    try:
        spark.own.read.format(options.format).options(**options.passed).load(options.path)
    except Exception as error:
        found = spark_error(error)
        if isinstance(found, Error) and "DATA_SOURCE_NOT_FOUND" in (found.detail or ""):
            raise found from error


SINKS: Mapping[str, type[VersionSink]] = {"delta": DeltaVersionSink, "iceberg": IcebergVersionSink}
