"""Relational sub-plans as the SQL of another engine.

Imports the engine's basics, `expressions`, `foreign` and `relation`. It imports neither engine's
library, and no connector.

Begin with `render.Rendering` (expressions) and `relations.RelationRendering` (relations to one
SELECT). The tables of `functions`, `aggregates`, `window_functions` and `casts` have a column for
each engine; the folders `duckdb` and `spark` have its types, literals, arithmetic and relations. A
construct without an exact equivalent is refused, and Runnel runs that part itself.
"""
