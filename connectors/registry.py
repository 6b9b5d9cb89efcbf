"""The known connectors: the list of the built-in ones, and connectors of other packages.

A connector's module is imported when the connector is first used, so that statements without it do
not pay for the import. Another package declares an entry point in the group "runnel.connectors".
Its name is the connector's type name and its value is a callable that makes a `Connector`. Entry
points are only searched for a name that is not built in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from runnel.base.clock import SYSTEM_CLOCK
from runnel.base.frozen import frozen
from runnel.connector import Connector
from runnel.errors import (
    ErrorCode,
    InterfaceError,
    OperationalError,
    Position,
    ProgrammingError,
    suggest,
)

if TYPE_CHECKING:
    from runnel.duckdb.kernel import DuckDBKernel

ENTRY_POINTS = "runnel.connectors"


@frozen
class Home:
    """The data that the connectors of one connection share.

    directory: the connection's directory; None for a connection in memory.
    kernel: returns the connection's DuckDB, and creates it on the first call.
    wall: returns the connection's time, in µs since 1970.
    """

    directory: Path | None
    kernel: Callable[[], DuckDBKernel]
    wall: Callable[[], int]


ConnectorFactory = Callable[[Home], Connector]
"""Makes a connector for a connection."""


def _map_connector(home: Home) -> Connector:
    module = import_module("runnel.connectors.imap.connector")
    return cast(Connector, module.MapConnector(home.directory, home.wall))


def _file_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.files.connector").FileConnector())


def _duckdb_connector(home: Home) -> Connector:
    return cast(
        Connector, import_module("runnel.connectors.duckdb.connector").DuckDBConnector(home.kernel)
    )


def _spark_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.spark.connector").SparkConnector())


def _nexmark_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.nexmark.connector").NexmarkConnector())


def _datagen_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.datagen.connector").DataGenConnector())


def _kafka_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.kafka.connector").KafkaConnector())


def _delta_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.lake.delta.connector").DeltaConnector())


def _iceberg_connector(home: Home) -> Connector:
    return cast(
        Connector, import_module("runnel.connectors.lake.iceberg.connector").IcebergConnector()
    )


def _discard_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.output.discard").DiscardConnector())


def _print_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.output.printing").PrintConnector())


def _view_connector(home: Home) -> Connector:
    return cast(Connector, import_module("runnel.connectors.views.connector").ViewConnector())


CONNECTORS: Mapping[str, ConnectorFactory] = {
    "IMap": _map_connector,
    "File": _file_connector,
    "DuckDB": _duckdb_connector,
    "Spark": _spark_connector,
    "Nexmark": _nexmark_connector,
    "DataGen": _datagen_connector,
    "Kafka": _kafka_connector,
    "Delta": _delta_connector,
    "Iceberg": _iceberg_connector,
    "Discard": _discard_connector,
    "Print": _print_connector,
}
"""The built-in connectors, by type name."""

_OF_STATEMENTS: Mapping[str, ConnectorFactory] = {"MaterializedView": _view_connector}
"""The connectors whose tables a statement of their own creates."""


def _no_kernel() -> DuckDBKernel:
    raise OperationalError("this registry has no DuckDB")


class ConnectorRegistry:
    """The connectors of one connection, each created on first use. Safe for threads."""

    def __init__(
        self,
        directory: Path | None = None,
        kernel: Callable[[], DuckDBKernel] | None = None,
        wall: Callable[[], int] = SYSTEM_CLOCK.wall,
    ) -> None:
        self._home = Home(directory, kernel or _no_kernel, wall)
        self._made: dict[str, Connector] = {}
        self._lock = Lock()

    def get(self, name: str, position: Position | None = None) -> Connector:
        """The connector of that type name, in any case.

        ProgrammingError with the nearest known name if there is none.
        """
        lower = name.lower()
        with self._lock:
            made = self._made.get(lower)
            if made is None:
                made = self._make(name, position)
                self._made[lower] = made
            return made

    def add(self, connector: Connector) -> None:
        """Registers a connector under its name; ProgrammingError if the name is in use."""
        if not isinstance(connector, Connector) or not getattr(connector, "name", None):
            raise InterfaceError(f"{connector!r:.60} is no Connector with a name")
        lower = connector.name.lower()
        with self._lock:
            if lower in self._made or any(known.lower() == lower for known in CONNECTORS):
                raise ProgrammingError(
                    f'connector type "{connector.name}" exists already', hint="use another name"
                )
            self._made[lower] = connector

    def made(self) -> tuple[Connector, ...]:
        """The connectors in use so far."""
        with self._lock:
            return tuple(self._made.values())

    def close(self) -> None:
        """Closes all connectors in use, then raises the first error of them, if any."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        errors = []
        for connector in made:
            try:
                connector.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _make(self, name: str, position: Position | None) -> Connector:
        for known, factory in {**CONNECTORS, **_OF_STATEMENTS}.items():
            if known.lower() == name.lower():
                return factory(self._home)
        outside = _outside_connectors()
        for known, load in outside.items():
            if known.lower() == name.lower():
                return _load(known, load)
        names = [*CONNECTORS, *outside]
        raise ProgrammingError(
            f'connector type "{name}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name, names, "the known types are " + ", ".join(names)),
            position=position,
        )


def _outside_connectors() -> dict[str, Callable[[], object]]:
    # Imported here because it costs milliseconds and most connections never need it.
    from importlib.metadata import entry_points

    return {point.name: point.load for point in entry_points(group=ENTRY_POINTS)}


def _load(name: str, load: Callable[[], object]) -> Connector:
    try:
        made = cast(Callable[[], object], load())()
    except Exception as error:
        raise OperationalError(
            f'connector "{name}" of another package can\'t be loaded',
            detail=f"{type(error).__name__}: {error}",
            hint=(
                "repair or remove the package that declares it in the entry points "
                f'"{ENTRY_POINTS}"'
            ),
        ) from error
    if not isinstance(made, Connector):
        raise OperationalError(
            f'connector "{name}" of another package returns a {type(made).__name__}, '
            "not a Connector"
        )
    return made
