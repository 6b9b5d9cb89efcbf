"""Protocols of the statement's binder (`query.Binder`) and of FROM's, for the binders of clauses
and scalars: they call it without an import of its module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from runnel.catalog import CatalogObject, Dependency, NamedText, Snapshot, View
from runnel.errors import Position
from runnel.expressions.python.function import PythonFunction
from runnel.planner.bind.bound_tables import BoundTables
from runnel.planner.bind.scope import BoundRelation, CommonTable, Scope
from runnel.planner.environment import Environment
from runnel.planner.parse.syntax import Query
from runnel.relation.nodes import Field, Relation
from runnel.sqltypes import SqlType


class QueryBinder(Protocol):
    """The methods of the statement's binder that the binders of scalars call."""

    sql: str
    parameter_types: tuple[SqlType, ...]
    snapshot: Snapshot
    dependencies: dict[tuple[str, str], Dependency]
    emits: bool
    environment: Environment

    def note(self, kind: str, name: str, version: int) -> None:
        """Records a dependency of the plan on the catalog."""

    def subquery(self, tree: Any, outer: Scope) -> Relation:
        """The relation of a subquery, whose columns may refer to `outer`."""

    def python_function(self, name: str) -> PythonFunction | None:
        """The user function of that name, recorded as a dependency; None if there is none."""

    def macro(self, kind: str, call: Any) -> NamedText | None:
        """The macro of that kind that a call names, recorded as a dependency; None if there is
        none."""


class StatementBinder(QueryBinder, Protocol):
    """The methods of the statement's binder that the binders of clauses call."""

    bound_tables: BoundTables | None
    common_tables: Mapping[str, CommonTable]
    views: tuple[str, ...]

    @property
    def watermarks(self) -> Iterator[int]:
        """Numbers for the watermarks of the statement."""

    @property
    def may_have_sets(self) -> bool:
        """Whether the statement's text names a function that returns several rows."""

    @property
    def may_have_columns(self) -> bool:
        """Whether the statement's text contains the name COLUMNS."""

    def statement_query(self, query: Query) -> Relation:
        """The relation of a statement's query, with its emission clauses."""

    def query(self, tree: Any, outer: Scope | None) -> Relation:
        """The relation of any query expression; `outer` is the scope around a correlated
        subquery."""

    def values(self, tree: Any, outer: Scope | None = None) -> Relation:
        """The relation of VALUES."""

    def limited(self, relation: Relation, tree: Any) -> Relation:
        """The relation with LIMIT, FETCH and OFFSET of a query on top."""

    def table_name(self, tree: Any) -> str:
        """The name of a table for `lookup`: with its schema, unless that is public."""

    def lookup(self, name: str, position: Position | None) -> CatalogObject:
        """The catalog object of that name, recorded as a dependency."""

    def common_table(self, name: str, outer: Scope | None) -> Relation | None:
        """The relation of the common table of that name; None if no such table is visible."""

    def view_query(self, view: View) -> Relation:
        """The relation of a view's query."""

    def view_fields(self, view: View) -> tuple[Field, ...]:
        """The columns of a view; its query is bound again."""

    def inside(self, common_tables: Mapping[str, CommonTable]) -> StatementBinder:
        """A binder for a section of the statement in which these common tables are visible."""

    def of_macro(self, macro: NamedText) -> StatementBinder:
        """A binder for the query of a table macro."""

    def of_text(self, sql: str) -> StatementBinder:
        """A binder for an expression whose text the catalog has."""

    def without_statement(self) -> StatementBinder:
        """A binder over the same catalog that belongs to no statement: the statement gets no
        dependencies from it."""


class FromItems(Protocol):
    """The methods of the binder of FROM that joins call."""

    binder: StatementBinder
    outer: Scope | None

    def at(self, tree: Any) -> Position | None:
        """The position of a tree in the statement."""

    def item(self, tree: Any, left: BoundRelation | None = None) -> BoundRelation:
        """The relation and the scope of one item; `left`: the items before it."""

    def inside(self, outer: Scope) -> FromItems:
        """A binder of items that may refer to `outer`."""
