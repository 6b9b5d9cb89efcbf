"""The connectors: how each kind of data is found, read, looked up and written.

No connector imports the planner or the runtime. A connector imports the engine's basics, its
contracts (`connector`, `catalog`, `processor`, `access`), `columns`, `expressions` and
`storage`. The connectors of other engines also import `duckdb`, `foreign`, `relation` and
`rendering`; single files import watermarks, key filters and constants of `processors`.

Begin with `registry`, the list of the built-in connectors and of installed ones. The files of
this folder are shared: `options` reads OPTIONS, `comparisons` splits predicates, `debezium`
makes tables of logs of changes. The shortest way to a new connector is `iterators`;
docs/writing_a_connector.md explains the contract.
"""

if __name__ != "runnel.connectors":
    raise ImportError(
        'this package is imported as "runnel.connectors": install Runnel, then write "import '
        'runnel.connectors"'
    )
