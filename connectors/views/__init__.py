"""The connector of materialized views: the catalog stores them as mappings of this type.

It imports the connector contract and `engine/processors/live/views`. It has no options of its own
and is not in the list of connectors: CREATE MATERIALIZED VIEW makes its tables.
"""
