"""The public PEP 249 compliance suite, subclassed.

What is overridden, and why:
- DDL: there are no tables to create but mappings, and a map has a key: each test table is a map
  from the first column of the suite's table (its values are all different).
- `test_setoutputsize`, `test_nextset`: the suite wants drivers to write them. Nothing is cut short,
  and there are no procedures that could give a second result.
- `test_non_idempotent_close`: PEP 249 doesn't say that a second close is an error; here it is none.
"""

from __future__ import annotations

import dbapi20

import runnel


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = runnel
    connect_args = ()
    connect_kw_args: dict[str, object] = {}  # noqa: RUF012 - the suite's own attribute

    ddl1 = """CREATE MAPPING dbapi20test_booze (name VARCHAR EXTERNAL NAME "__key") TYPE IMap
        OPTIONS ('keyFormat' = 'varchar')"""
    ddl2 = """CREATE MAPPING dbapi20test_barflys (name VARCHAR EXTERNAL NAME "__key",
        drink VARCHAR) TYPE IMap
        OPTIONS ('keyFormat' = 'varchar', 'valueFormat' = 'json-flat')"""
    xddl1 = "DROP MAPPING dbapi20test_booze"
    xddl2 = "DROP MAPPING dbapi20test_barflys"

    def test_setoutputsize(self) -> None:
        cursor = self._connect().cursor()
        cursor.setoutputsize(1)
        cursor.setoutputsize(1, 0)
        assert cursor.execute("SELECT 'more than one'").fetchone() == ("more than one",)
        cursor.connection.close()

    def test_nextset(self) -> None:
        connection = self._connect()
        assert not hasattr(connection.cursor(), "nextset")
        assert not hasattr(connection.cursor(), "callproc")
        connection.close()

    def test_non_idempotent_close(self) -> None:
        connection = self._connect()
        connection.close()
        connection.close()
        assert connection.is_closed
