"""Relational sub-plans as the SQL of another engine.

Imports the engine's basics, `expressions`, `foreign` and `relation`; its folders `duckdb` and
`spark` build on it. It imports neither engine's library, and no connector.

Begin with `render.Rendering` (expressions) and `relations.RelationRendering` (relations to one
SELECT). `dialect` is what an engine must supply: types, literals and tables of functions; a
construct without an exact equivalent is refused, and Runnel runs that part itself.
"""
