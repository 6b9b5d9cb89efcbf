"""Statements about all tables of a database: EXPORT DATABASE, IMPORT DATABASE and COPY FROM
DATABASE. Each runs other statements: CREATE, COPY and INSERT.

Imports `plans`, `parse`, `explain` and `planner/bind/system_views` of the planner, `session`, the
contracts, and `call` and `definitions` of `engine/statements`. Begin with
`database_content.content_of`.
"""
