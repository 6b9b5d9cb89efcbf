"""Finds Iceberg tables with the library pyiceberg: through a catalog, or by a metadata file
alone."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.base.passwords import without_password
from runnel.connectors.files.storage import absolute_path
from runnel.connectors.packages import required
from runnel.deadline import DeadlineLock
from runnel.errors import Error, ErrorCode, NotSupportedError, OperationalError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WHO = re.compile(r"//[^/\s]*@")
"""The user and the password in a URL."""
_WHERE = (
    "OPTIONS ('warehouse' = '…') names the folder of its tables, "
    "or 'uri' and 'catalog.…' set the properties of its catalog"
)
_METADATA = re.compile(r"v?(\d+)(-[0-9a-f-]+)?(\.gz)?\.metadata\.json(\.gz)?")


_CODE = ("py-io-impl", "write.py-location-provider.impl")
"""Properties that name a Python class, which the library imports and calls."""


def iceberg() -> Any:
    """The package pyiceberg."""
    return required("pyiceberg.table", "TYPE Iceberg", "iceberg")


@contextmanager
def calling(what: str, code: ErrorCode | None = None, hint: str | None = None) -> Iterator[None]:
    """Converts exceptions of the library into an error with the message `what`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own
            yield
    except Error:
        raise
    except Exception as error:
        # The library also raises exceptions of its dependencies: SQLAlchemy, pydantic, its storage.
        text = _WHO.sub("//…@", " ".join(str(error).split()))
        kind = (
            NotSupportedError
            if isinstance(error, NotImplementedError) or "does not yet support" in text
            else OperationalError
        )
        raise kind(what, code=code, detail=text or type(error).__name__, hint=hint) from error


@frozen
class IcebergLocation:
    """The location of a table: an identifier in a catalog, or its metadata.

    identifier: the name in the catalog.
    catalog: the name of the catalog.
    properties: the properties of the catalog.
    path: the folder of the table or a metadata file; "" for a table in a catalog.
    """

    identifier: str
    catalog: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    path: str = ""

    @property
    def what(self) -> str:
        return f'the Iceberg table "{self.path or self.identifier}"'

    @property
    def is_static(self) -> bool:
        return bool(self.path)


class Catalogs:
    """The catalogs that the mappings of a connection use. Safe for threads."""

    def __init__(self) -> None:
        self._catalogs: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
        self._lock = Lock()
        self._commits: dict[IcebergLocation, DeadlineLock] = {}

    def commits(self, location: IcebergLocation) -> DeadlineLock:
        """The lock of commits to a table, so that commits of one connection do not conflict."""
        with self._lock:
            return self._commits.setdefault(location, DeadlineLock(location.what))

    def get(self, location: IcebergLocation) -> Any:
        """The catalog of a table."""
        iceberg()
        from pyiceberg.catalog import load_catalog

        with self._lock:
            found = self._catalogs.get((location.catalog, location.properties))
            if found is None:
                what = f'the Iceberg catalog "{location.catalog}" can\'t be opened'
                with calling(what, ErrorCode.CONNECTION_PROBLEM, _WHERE):
                    found = without_code(
                        load_catalog(location.catalog, **dict(location.properties))
                    )
                self._catalogs[(location.catalog, location.properties)] = found
            return found

    def load(self, location: IcebergLocation) -> Any:
        """The current table."""
        iceberg()
        if location.is_static:
            from pyiceberg.table import StaticTable

            newest = newest_metadata(location)
            with calling(f"{location.what} can't be read"):
                _check_code(location, _properties_in(newest))
                return checked(location, StaticTable.from_metadata(newest))
        from pyiceberg.exceptions import NoSuchTableError

        catalog = self.get(location)
        try:
            with calling(f"{location.what} can't be read"):
                return checked(location, catalog.load_table(location.identifier))
        except OperationalError as error:
            if isinstance(error.__cause__, NoSuchTableError):
                raise OperationalError(
                    f"{location.what} not found",
                    code=ErrorCode.OBJECT_NOT_FOUND,
                    hint="correct the name, or declare columns and add OPTIONS ('create' = 'true')",
                ) from None
            raise

    def close(self) -> None:
        with self._lock:
            catalogs, self._catalogs = list(self._catalogs.values()), {}
        for catalog in catalogs:
            engine = getattr(catalog, "engine", None)
            if engine is not None:
                engine.dispose()


def checked(location: IcebergLocation, table: Any) -> Any:
    """The table, unless it requires an unsupported feature of its readers."""
    _check_code(location, table.metadata.properties)
    if table.metadata.format_version > 3:
        raise NotSupportedError(
            f"{location.what} is of format version {table.metadata.format_version}, "
            "which isn't known"
        )
    for field in table.schema().fields:
        if getattr(field, "initial_default", None) is not None:
            raise NotSupportedError(
                f'column "{field.name}" of {location.what} has a default for older rows, '
                "which isn't read"
            )
    return table


def without_code(catalog: Any) -> Any:
    """The catalog, changed so that it imports no class that a table's metadata names: a table is
    data.

    Classes in the catalog's own properties are imported: the definer of the mapping named them.
    """
    load = catalog._load_file_io

    def load_file_io(
        properties: Mapping[str, str] = MappingProxyType({}), location: str | None = None
    ) -> Any:
        return load(
            {name: value for name, value in properties.items() if name not in _CODE}, location
        )

    catalog._load_file_io = load_file_io
    return catalog


def _properties_in(metadata: str) -> Mapping[str, str]:
    """The properties of a table in a metadata file."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.serializers import FromInputFile

    properties: Mapping[str, str] = FromInputFile.table_metadata(
        PyArrowFileIO().new_input(metadata)
    ).properties
    return properties


def _check_code(location: IcebergLocation, properties: Mapping[str, str]) -> None:
    """NotSupportedError if a table's properties name code."""
    found = next((name for name in _CODE if name in properties), None)
    if found is not None:
        raise NotSupportedError(
            f'{location.what} names a Python class in its property "{found}", '
            "which isn't followed",
            hint="remove the property from the table",
        )


def newest_metadata(location: IcebergLocation) -> str:
    """The metadata file for a path: the path itself, or the newest metadata file of the table's
    folder."""
    path = local_path(location.path, location.what)
    folder = Path(path)
    if folder.is_file():
        return path
    found = [
        (int(match.group(1)), item)
        for item in [*folder.glob("metadata/*.metadata.json*"), *folder.glob("*.metadata.json*")]
        if (match := _METADATA.fullmatch(item.name)) is not None
    ]
    if not found:
        raise OperationalError(
            f'"{path}" is no Iceberg table',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=(
                "name the "
                "table's folder or a metadata file, or its catalog: "
                "OPTIONS ('table' = 'space.name', 'uri' = '…')"
            ),
        )
    return str(max(found)[1])


def local_path(location: str, what: str) -> str:
    """The local path of a file of a table.

    Iceberg's locations look like URLs, but nothing in them is encoded.
    """
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    if _SCHEME.match(location) is not None:
        raise NotSupportedError(
            f'file "{without_password(location)}" of {what} is not on this computer',
            hint="read it through Spark: TYPE Spark OPTIONS ('format' = 'iceberg', …)",
        )
    return absolute_path(location, {})


def arrow_schema(schema: Any) -> pa.Schema:
    """An Iceberg schema in Arrow's types, with the field ids in the metadata."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with calling("the columns of an Iceberg table can't be read"):
        return schema_to_pyarrow(schema)


def ids_of(schema: pa.Schema) -> Mapping[str, int]:
    """The field id of each column."""
    return {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}
