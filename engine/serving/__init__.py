"""A connection for other processes: `runnel serve`, and `connect("runnel://…")`.

Arrow Flight is the transport: statements and errors are JSON, arguments and rows are Arrow.
Received data is never executed other than as SQL and never unpickled. Each call needs a token.

Imports `connection`, `cursor` and `database` of the engine, the folders `results`,
`session`, `statements`, `runtime`, `processors`, `relation`, `columns` and `expressions`, and
`connectors/arrow`; nothing imports it but the command line, `connection` and `engine/spark`.
Begin with `server` (its docstring lists the other protections) and `remote`, the client's side.
"""
