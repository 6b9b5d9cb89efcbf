"""Writing to a Delta or Iceberg table by Spark, for jobs that write each row once.

An epoch's rows wait in Parquet files beside the table's. The commit has Spark append them, in one
version of the table that records the job and the epoch's number, and then removes them: a commit
that is repeated finds no rows, or, where the process ended before they were removed, finds the
number in the table. Of Delta the writer itself looks for it (its options txnAppId and txnVersion);
of Iceberg the summaries of the table's snapshots tell.
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
from runnel.connectors.spark.sink import STAGING_PREFIX, FilesSink, Rows
from runnel.errors import Error

EPOCH, APPLICATION = "runnel.epoch", "runnel.application"
"""Properties of an Iceberg snapshot, in its summary."""


def version_sink(spark: Spark, rows: Rows, options: SparkOptions, owner: str) -> VersionSink:
    assert options.format is not None
    return SINKS[options.format.lower()](spark, rows, options, owner)


class VersionSink(FilesSink):
    """Appends the rows of an epoch in one version of a table."""

    def __init__(self, spark: Spark, rows: Rows, options: SparkOptions, owner: str) -> None:
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
        # makes our session that of the thread, by which Spark finds data sources in Python
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
        """Whether the table has the number, where its writer doesn't look for it."""
        return False


class DeltaVersionSink(VersionSink):
    """Delta keeps a number per application, and passes over a write that has one no larger."""

    def _record(self, number: int) -> Mapping[str, str]:
        return {"txnAppId": self._application, "txnVersion": str(number)}


class IcebergVersionSink(VersionSink):
    """Iceberg keeps what the writer says of a snapshot in its summary. Nobody expires the newest
    one between a commit and its repetition."""

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
    """Fails before anything is written where Spark doesn't know the format. What else is wrong, its
    writer says."""
    try:
        spark.own.read.format(options.format).options(**options.passed).load(options.path)
    except Exception as error:
        found = spark_error(error)
        if isinstance(found, Error) and "DATA_SOURCE_NOT_FOUND" in (found.detail or ""):
            raise found from error


SINKS: Mapping[str, type[VersionSink]] = {"delta": DeltaVersionSink, "iceberg": IcebergVersionSink}
