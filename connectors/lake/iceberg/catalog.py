"""Iceberg tables as the library pyiceberg finds them: through a catalog, or by a metadata file
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
from runnel.connectors.files.storage import absolute_path
from runnel.deadline import PatientLock
from runnel.errors import Error, ErrorCode, NotSupportedError, OperationalError, without_password

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WHO = re.compile(r"//[^/\s]*@")
"""Who somebody is in a URL, and his password."""
_WHERE = (
    "OPTIONS ('warehouse' = '…') names the folder of its tables, "
    "or 'uri' and 'catalog.…' what its catalog takes"
)
_METADATA = re.compile(r"v?(\d+)(-[0-9a-f-]+)?(\.gz)?\.metadata\.json(\.gz)?")


_CODE = ("py-io-impl", "write.py-location-provider.impl")
"""Properties that name a Python class, which the library imports and calls."""


def iceberg() -> Any:
    """The package pyiceberg."""
    try:
        import pyiceberg.table
    except ImportError as error:
        raise OperationalError(
            "TYPE Iceberg needs the package pyiceberg",
            detail=str(error),
            hint="pip install 'runnel[iceberg]'",
        ) from error
    return pyiceberg


@contextmanager
def calling(what: str, code: ErrorCode | None = None, hint: str | None = None) -> Iterator[None]:
    """Turns what the library raises inside into an OperationalError that says what couldn't be
    done."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own
            yield
    except Error:
        raise
    except Exception as error:
        # It raises what its parts raise: those of SQLAlchemy, of pydantic, of its storage.
        text = _WHO.sub("//…@", " ".join(str(error).split()))
        kind = (
            NotSupportedError
            if isinstance(error, NotImplementedError) or "does not yet support" in text
            else OperationalError
        )
        raise kind(what, code=code, detail=text or type(error).__name__, hint=hint) from error


@frozen
class Place:
    """Where a table is: its identifier and the properties of its catalog, or its metadata."""

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
        self._commits: dict[Place, PatientLock] = {}

    def commits(self, place: Place) -> PatientLock:
        """Held by who commits to a table: those of one connection needn't try again and again."""
        with self._lock:
            return self._commits.setdefault(place, PatientLock(place.what))

    def get(self, place: Place) -> Any:
        """The catalog of a table."""
        iceberg()
        from pyiceberg.catalog import load_catalog

        with self._lock:
            found = self._catalogs.get((place.catalog, place.properties))
            if found is None:
                what = f'the Iceberg catalog "{place.catalog}" can\'t be opened'
                with calling(what, ErrorCode.CONNECTION_PROBLEM, _WHERE):
                    found = without_code(load_catalog(place.catalog, **dict(place.properties)))
                self._catalogs[(place.catalog, place.properties)] = found
            return found

    def load(self, place: Place) -> Any:
        """The table as it is now."""
        iceberg()
        if place.is_static:
            from pyiceberg.table import StaticTable

            newest = newest_metadata(place)
            with calling(f"{place.what} can't be read"):
                _check_code(place, _properties_in(newest))
                return checked(place, StaticTable.from_metadata(newest))
        from pyiceberg.exceptions import NoSuchTableError

        catalog = self.get(place)
        try:
            with calling(f"{place.what} can't be read"):
                return checked(place, catalog.load_table(place.identifier))
        except OperationalError as error:
            if isinstance(error.__cause__, NoSuchTableError):
                raise OperationalError(
                    f"{place.what} not found",
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


def checked(place: Place, table: Any) -> Any:
    """The table, unless it needs more of a reader than is known here."""
    _check_code(place, table.metadata.properties)
    if table.metadata.format_version > 3:
        raise NotSupportedError(
            f"{place.what} is of format version {table.metadata.format_version}, which isn't known"
        )
    for field in table.schema().fields:
        if getattr(field, "initial_default", None) is not None:
            raise NotSupportedError(
                f'column "{field.name}" of {place.what} has a default for older rows, '
                "which isn't read"
            )
    return table


def without_code(catalog: Any) -> Any:
    """The catalog, made to import no class that a table's metadata names: what a table holds is
    data. Those that the catalog's own properties name are the word of who defined the mapping."""
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
    """The properties of a table that a metadata file has."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.serializers import FromInputFile

    properties: Mapping[str, str] = FromInputFile.table_metadata(
        PyArrowFileIO().new_input(metadata)
    ).properties
    return properties


def _check_code(place: Place, properties: Mapping[str, str]) -> None:
    """NotSupportedError where a table's properties name code."""
    found = next((name for name in _CODE if name in properties), None)
    if found is not None:
        raise NotSupportedError(
            f'{place.what} names a Python class in its property "{found}", which isn\'t followed',
            hint="remove the property from the table",
        )


def newest_metadata(place: Place) -> str:
    """The metadata file that a path names: it, or the newest one of the table's folder."""
    path = local_path(place.path, place.what)
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
    """Where a file of a table is on this computer. Iceberg's locations look like URLs, but nothing
    in them is encoded."""
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    if _SCHEME.match(location) is not None:
        raise NotSupportedError(
            f'file "{without_password(location)}" of {what} is not on this computer',
            hint="read it through Spark: TYPE Spark OPTIONS ('format' = 'iceberg', …)",
        )
    return absolute_path(location, {})


def arrow_schema(schema: Any) -> pa.Schema:
    """An Iceberg schema in Arrow's types, with the numbers of its fields in their metadata."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    with calling("the columns of an Iceberg table can't be read"):
        return schema_to_pyarrow(schema)


def ids_of(schema: pa.Schema) -> Mapping[str, int]:
    """The number of each column."""
    return {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in schema}
