"""Opens materialized views of the catalog."""

from __future__ import annotations

import json

from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import Table, TableColumn
from runnel.connector import Connector, MappingDefinition
from runnel.errors import NotSupportedError
from runnel.processors.live.views.table import MaterializedTable

KEY = "key"
"""The option with the key of a view: a JSON list of indexes of columns, or null."""
TEXT = "text"
"""The option with the statement that created a view."""


class ViewConnector(Connector):
    """Makes the table of a stored view, without rows: its job restores them."""

    name = VIEW_TYPE
    keeps_bounds = True

    def open(self, definition: MappingDefinition) -> Table:
        if not definition.is_stored:
            raise NotSupportedError(
                "a mapping can't be a materialized view",
                hint="write CREATE MATERIALIZED VIEW v AS SELECT …",
            )
        key = json.loads(definition.options[KEY])
        columns = tuple(TableColumn(item.name, item.type) for item in definition.columns)
        return MaterializedTable(definition.name, columns, None if key is None else tuple(key))
