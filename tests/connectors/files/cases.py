"""What the tests of file mappings share: opening one, and reading it as rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runnel.connector import ColumnDefinition, MappingDefinition, ReadableTable
from runnel.connectors.files.connector import FileConnector
from runnel.connectors.files.table import FileTable
from runnel.errors import Error
from runnel.sqltypes import SqlType
from tests.connectors.conformance import Row, read_rows


def mapping(
    path: Path | str, columns: Sequence[tuple[str, SqlType]] = (), **options: str
) -> FileTable:
    """The table of a File mapping."""
    definitions = tuple(ColumnDefinition(name, item) for name, item in columns)
    table = FileConnector().open(
        MappingDefinition("t", definitions, {"path": str(path), **options})
    )
    assert isinstance(table, FileTable)
    return table


def written(path: Path, data: str | bytes) -> Path:
    """A file with these bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def schema(table: ReadableTable) -> dict[str, str]:
    return {column.name: str(column.type) for column in table.columns if not column.hidden}


def visible_rows(table: ReadableTable) -> list[Row]:
    return read_rows(table, [i for i, column in enumerate(table.columns) if not column.hidden])


def failure(kind: type[Error], work: Any) -> tuple[str, str | None, str | None]:
    """What the error of that class says: message, detail, hint."""
    with pytest.raises(kind) as caught:
        work()
    return caught.value.message, caught.value.detail, caught.value.hint
