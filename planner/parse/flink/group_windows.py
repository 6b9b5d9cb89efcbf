"""Flink's group windows: `GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), k` with TUMBLE_START and so on.

    SELECT k, TUMBLE_END(ts, INTERVAL '1' MINUTE), COUNT(*) FROM t WHERE c
    GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), k

becomes

    SELECT k, window_end, COUNT(*)
    FROM TABLE(TUMBLE((SELECT * FROM t WHERE c), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) AS t
    GROUP BY window_start, window_end, k

The condition is applied before windows are assigned, as rows that it excludes must not extend a
session. HOP has the slide before the size here, unlike the table function. The other keys of GROUP
BY partition the sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.query.table_arguments import PARTITION

KINDS = ("TUMBLE", "HOP", "SESSION")
_SUFFIXES = {"_START": "window_start", "_END": "window_end", "_ROWTIME": "window_time"}
_BOUNDS = {kind + suffix: name for kind in KINDS for suffix, name in _SUFFIXES.items()}
_PROCTIME = tuple(f"{kind}_PROCTIME" for kind in KINDS)

_ARGUMENTS = {"TUMBLE": (2, 3), "HOP": (3, 4), "SESSION": (2, 2)}
_FORMS = {
    "TUMBLE": "TUMBLE(time, size)",
    "HOP": "HOP(time, slide, size)",
    "SESSION": "SESSION(time, gap)",
}


def rewrite(tree: Any, sql: str) -> None:
    """Changes each SELECT of the tree that has a group window."""
    for select in list(tree.find_all(exp.Select)):
        group = select.args.get("group")
        found = [item for item in group.expressions if _name(item) in KINDS] if group else []
        if len(found) > 1:
            raise NotSupportedError(
                "GROUP BY with two windows is not supported",
                hint="group by one window, and its result by the other in an outer query",
                position=_position(found[1], sql),
            )
        if found:
            _Rewriting(select, found[0], sql).run()
    for call in tree.find_all(exp.Anonymous):
        name = _name(call)
        if name in _BOUNDS or name in _PROCTIME:
            kind = name.partition("_")[0]
            raise ProgrammingError(
                f"{name} needs GROUP BY {_FORMS[kind]}",
                hint="write the same arguments in both; or group by window_start and window_end of "
                f"TABLE({kind}(TABLE t, DESCRIPTOR(time), …))",
                position=_position(call, sql),
            )


def _name(node: Any) -> str:
    return node.name.upper() if isinstance(node, exp.Anonymous) else ""


def _position(node: Any, sql: str) -> Position | None:
    for item in node.walk():
        start, end = item.meta.get("start"), item.meta.get("end")
        if start is not None and end is not None:
            return Position.at(sql, start, end - start + 1)
    return None


class _Rewriting:
    """The change of one SELECT."""

    def __init__(self, select: Any, window: Any, sql: str) -> None:
        self._select = select
        self._window = window
        self._kind = _name(window)
        self._sql = sql

    def run(self) -> None:
        self._check()
        used = {"window_start", "window_end"}
        for call in list(self._select.find_all(exp.Anonymous)):
            name = _name(call)
            if name == f"{self._kind}_PROCTIME" and self._is_own(call):
                raise NotSupportedError(
                    f"{name} is not supported",
                    hint=f"write {self._kind}_END, or PROCTIME() for the time of the clock",
                    position=_position(call, self._sql),
                )
            if _BOUNDS.get(name, "") and name.startswith(self._kind) and self._is_own(call):
                self._check_same(call, name)
                used.add(_BOUNDS[name])
                column = self._column(_BOUNDS[name], call)
                column.meta.update(call.meta)
                call.replace(column)
        group = self._select.args["group"]
        keys = [item for item in group.expressions if item is not self._window]
        self._replace_from(keys)
        group.set(
            "expressions", [*(self._column(name, self._window) for name in sorted(used)), *keys]
        )

    def _is_own(self, call: Any) -> bool:
        """Whether a call belongs to this SELECT and not to a subquery."""
        return call.find_ancestor(exp.Select) is self._select

    def _column(self, name: str, source: Any) -> Any:
        identifier = exp.Identifier(this=name, quoted=False)
        for item in source.walk():
            if "start" in item.meta:
                identifier.meta.update(item.meta)
                break
        return exp.Column(this=identifier)

    def _check(self) -> None:
        least, most = _ARGUMENTS[self._kind]
        arguments = self._window.expressions
        position = _position(self._window, self._sql)
        form = _FORMS[self._kind]
        if not least <= len(arguments) <= most:
            raise ProgrammingError(
                f"{self._kind} in GROUP BY has {len(arguments)} arguments",
                hint=f"write GROUP BY {form}",
                position=position,
            )
        if not isinstance(arguments[0], exp.Column):
            raise ProgrammingError(
                f"the first argument of {self._kind} in GROUP BY must be a column",
                hint=f"compute it in a subquery, and write GROUP BY {form}",
                position=position,
            )
        if self._select.args.get("joins") or self._source() is None:
            raise NotSupportedError(
                f"GROUP BY {self._kind}(…) is only supported over one table",
                hint="join in a subquery, or write FROM "
                f"TABLE({self._kind}((SELECT …), DESCRIPTOR(time), …)) and group by window_start "
                "and window_end",
                position=position,
            )

    def _source(self) -> Any:
        """The single item of FROM: a table or a query."""
        from_ = self._select.args.get("from_")
        item = None if from_ is None else from_.this
        if not isinstance(item, exp.Table | exp.Subquery) or item.args.get("joins"):
            return None
        return item

    def _check_same(self, call: Any, name: str) -> None:
        if _texts(call.expressions) != _texts(self._window.expressions):
            raise ProgrammingError(
                f"{name} has other arguments than {self._kind} in GROUP BY",
                hint="write the same arguments in both",
                position=_position(call, self._sql),
            )

    def _replace_from(self, keys: Sequence[Any]) -> None:
        item = self._source()
        alias = item.args.get("alias")
        if alias is None and isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            alias = exp.TableAlias(this=item.this.copy())
        where = self._select.args.get("where")
        is_named = where is not None or item.args.get("alias") is not None
        inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item.copy()))
        if where is not None:
            inner.set("where", where.copy())
            self._select.set("where", None)
        time, *sizes = (argument.copy() for argument in self._window.expressions)
        if self._kind == "HOP":
            # By name: the table function accepts two orders of arguments without names.
            sizes = [
                exp.Kwarg(this=exp.Var(this=name), expression=value)
                for name, value in zip(("slide", "window_size", "offset"), sizes, strict=False)
            ]
        # Qualifiers of the time and the keys resolve within the call, too.
        named = None if alias is None else exp.TableAlias(this=alias.this.copy())
        call = exp.Anonymous(
            this=self._kind,
            expressions=[
                exp.Subquery(this=inner, alias=named if is_named else None),
                *self._partition(keys),
                exp.Anonymous(this="DESCRIPTOR", expressions=[time]),
                *sizes,
            ],
        )
        call.meta.update(self._window.meta)
        function = exp.Table(this=call)
        if alias is not None:
            function.set("alias", exp.TableAlias(this=alias.this.copy()))
        self._select.args["from_"].set("this", function)

    def _partition(self, keys: Sequence[Any]) -> list[Any]:
        if self._kind != "SESSION" or not keys:
            return []
        for key in keys:
            if isinstance(key, exp.Literal | exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
                raise NotSupportedError(
                    "GROUP BY SESSION(…) needs its other keys as columns",
                    hint="write the columns by name: they partition the sessions",
                    position=_position(key, self._sql) or _position(self._window, self._sql),
                )
        return [exp.Anonymous(this=PARTITION, expressions=[key.copy() for key in keys])]


def _texts(arguments: Sequence[Any]) -> list[str]:
    """The arguments in a form in which equal ones are equal, without the qualifier of a column."""
    found = []
    for argument in arguments:
        copied = argument.copy()
        for column in copied.find_all(exp.Column):
            column.set("table", None)
        found.append(copied.sql(comments=False).lower())
    return found
