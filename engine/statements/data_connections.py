"""Data connections: creates, replaces and drops them, and opens mappings with their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from runnel.catalog import DataConnection, Mapping, Snapshot
from runnel.connector import ColumnDefinition, Connector, DataConnector, MappingDefinition
from runnel.connectors.registry import ConnectorRegistry
from runnel.errors import DuplicateObject, ErrorCode, NotSupportedError, ProgrammingError, suggest
from runnel.planner.parse.syntax import CreateDataConnection, DropDataConnection
from runnel.session.table_options import merged, open_table
from runnel.statements.call import StatementCall

if TYPE_CHECKING:
    from runnel.session.session import Session

NO_COUNT = -1


def create_data_connection(
    session: Session, statement: CreateDataConnection, call: StatementCall
) -> int:
    """Names options that the connector has checked. Mappings over a connection that is replaced are
    opened again, all or none."""
    name = statement.name.text
    options = {option.name.text: option.value for option in statement.options}
    with session.definitions:
        session.caller.require_no_bounds("data connections")
        known = session.catalog.connections.get(name.lower())
        if known is not None and not statement.or_replace:
            if statement.if_not_exists:
                return NO_COUNT
            raise DuplicateObject(
                f'data connection "{known.name}" exists already',
                hint="use CREATE OR REPLACE DATA CONNECTION, IF NOT EXISTS, or another name",
            )
        connector = data_connector(session.connectors, statement.connector.text)
        _check_names(connector, options)
        connector.check_connection(options)
        connection = DataConnection(name, connector.name, options, statement.is_shared)
        session.change_catalog(put_connection=connection, put=_reopened(session, connection))
    return NO_COUNT


def _reopened(session: Session, connection: DataConnection) -> tuple[Mapping, ...]:
    """The mappings over the connection that it replaces, with its options."""
    reopened = []
    for mapping in session.catalog.mappings_of(connection.name):
        columns = mapping.table.columns
        definition = MappingDefinition(
            mapping.name,
            tuple(
                ColumnDefinition(c.name, c.type, c.external_name) for c in columns if not c.hidden
            ),
            mapping.options,
            mapping.external_name,
            mapping.object_type,
            mapping.watermark,
            session.bounds if mapping.is_confined else None,
            computed=mapping.table.computed,
        )
        connector = session.connectors.get(connection.connector)
        table = open_table(connector, merged(connection, definition))
        reopened.append(
            Mapping(
                mapping.name,
                connector.name,
                table,
                mapping.options,
                mapping.external_name,
                object_type=mapping.object_type,
                data_connection=connection.name,
                watermark=mapping.watermark,
                is_confined=mapping.is_confined,
            )
        )
    return tuple(reopened)


def drop_data_connection(
    session: Session, statement: DropDataConnection, call: StatementCall
) -> int:
    """Removes a data connection from the catalog, unless a mapping uses it."""
    with session.definitions:
        _drop(session, statement.name.text, statement.if_exists)
    return NO_COUNT


def _drop(session: Session, name: str, if_exists: bool) -> None:
    session.caller.require_no_bounds("data connections")
    snapshot = session.catalog
    found = snapshot.connections.get(name.lower())
    if found is None:
        if if_exists:
            return
        raise ProgrammingError(
            f'data connection "{name}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(name, [item.name for item in snapshot.connections.values()]),
        )
    users = [f'"{item.name}"' for item in snapshot.mappings_of(found.name)]
    if users:
        raise ProgrammingError(
            f'data connection "{found.name}" is in use',
            detail=(
                f"by the mapping{'s' if len(users) > 1 else ''} "
                f"{', '.join(users[:10])}{' …' if len(users) > 10 else ''}"
            ),
            hint="drop these first, or use CREATE OR REPLACE DATA CONNECTION",
        )
    session.change_catalog(drop_connection=found)


def data_connector(registry: ConnectorRegistry, name: str) -> DataConnector:
    """The connector of that type name; NotSupportedError if it has no data connections."""
    connector = registry.get(name)
    if not isinstance(connector, DataConnector):
        raise NotSupportedError(
            f"connector {connector.name} has no data connections",
            hint="give its options in CREATE MAPPING … OPTIONS (…)",
        )
    return connector


def connector_and_definition(
    registry: ConnectorRegistry,
    snapshot: Snapshot,
    connector: str | None,
    connection: str | None,
    definition: MappingDefinition,
) -> tuple[Connector, MappingDefinition]:
    """The connector of a mapping, and the definition with the options of its data connection."""
    if connection is None:
        assert connector is not None
        return registry.get(connector), definition
    found = snapshot.get_connection(connection)
    return registry.get(found.connector), merged(found, definition)


def _check_names(connector: DataConnector, options: Iterable[str]) -> None:
    known = connector.connection_options
    for name in options if known else ():
        if name.lower() not in {item.lower() for item in known}:
            raise ProgrammingError(
                f'a data connection of connector {connector.name} has no option "{name}"',
                hint=suggest(name, known, f"its options are {', '.join(known)}"),
            )
