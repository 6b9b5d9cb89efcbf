"""Statements about the session and its directory: prepared statements and backups.

Imports `parse`, its folder `query`, and the engine's basics.

Begin with `prepared`, which parses PREPARE, EXECUTE and DEALLOCATE, then `backup`.
"""
