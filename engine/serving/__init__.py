"""A connection that other processes reach: `runnel serve`, and `connect("runnel://…")` on the other side.

Arrow Flight carries it: statements and errors as JSON in actions, arguments and rows as Arrow. Nothing that is received is
ever executed but SQL, and nothing is unpickled. Each call carries a token; see `server` for what else keeps strangers out.
"""
