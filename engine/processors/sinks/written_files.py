"""The contract of tables whose rows are written to files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from runnel.connector import WritableTable


class WritableFiles(WritableTable):
    """A table whose rows are written to new files, in a format."""

    @abstractmethod
    def check_written(self) -> None:
        """Fails if the format can't write a column. Called when a statement or a job is planned."""

    @abstractmethod
    def replacing(self, partition: Mapping[str, str]) -> WritableTable:
        """The table for one INSERT OVERWRITE: its sinks remove the earlier rows with the commit.
        `partition`: the values, as text, of the columns after PARTITION, by name in lower case."""

    def partitions(self) -> list[str] | None:
        """The folders that have files, as `key=value/key=value`, in order; None if the table is not
        partitioned."""
        return None
