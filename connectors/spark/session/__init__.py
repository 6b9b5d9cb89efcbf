"""Spark sessions: start, ownership, and results as Arrow batches.

Imports `errors` and `types` of `connectors/spark`, `engine/foreign`, `engine/relation`,
`engine/rendering` and `engine/expressions`; neither tables nor fragments.

Begin with `owner.SessionOwner`: which session a connection uses. `session` wraps one session,
`start` starts Spark in this process, `fetch` reads the rows of a DataFrame. The files named
`connect_*` do the same for Spark Connect (docs/design/020-spark-connect.md).
"""
