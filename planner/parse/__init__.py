"""The parser: SQL text to one statement as written, before names are looked up.

Imports the engine's basics, `engine/connector.py`, its folder `query`, and `scope` of
`planner/bind` for one check.

Begin with `statement.parse`, then `reader.StatementReader` and `syntax`, the statements as
values. `ddl`, `dml`, `jobs` and `settings` each parse one family; `tokens` splits the text.
"""
