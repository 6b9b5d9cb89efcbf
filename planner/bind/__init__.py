"""The binder: from sqlglot trees to relational nodes, with names and types resolved.

Imports its folders, `parse`, `engine/catalog.py`, `engine/expressions`, `engine/relation` and
the contracts; for single purposes `optimize`, `estimates`, `explain`, `physical` and `plans`.

Begin with `query.Binder` (queries), then `select` (one SELECT, clause by clause) and the folder
`tables` (FROM). `scope` resolves names; `write` binds INSERT, SINK, UPDATE and DELETE, `changes`
those that need their rows, as with RETURNING; `hints` has the remedies in error messages.
"""
