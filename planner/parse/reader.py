"""A token reader for the elements that statements share: queries, expressions, lists of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.catalog import CATALOG, check_schema
from runnel.errors import ProgrammingError
from runnel.planner.parse.query.query import parse_expression, parse_query
from runnel.planner.parse.syntax import Name, Query
from runnel.planner.parse.tokens import TokenReader

_DEPTH = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.CASE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.END: -1,
}


INSTEAD_OF_TYPES = (
    "write the fields in the "
    "column's type, as in CREATE MAPPING m (__key BIGINT, p ROW(id BIGINT, name VARCHAR)) …, "
    "or use JSON"
)
"""The hint where a statement would define or list named types."""


class StatementReader(TokenReader):
    """Reads one statement.

    parameters: the number of each `?` of the text, by its offset.
    """

    def __init__(self, tokens: Sequence[Token], sql: str, parameters: Mapping[int, int]) -> None:
        super().__init__(tokens, sql)
        self.parameters = parameters

    def query(self) -> Query:
        """Reads all remaining tokens as a query."""
        if self.at_end:
            raise self.error("a query")
        rest = self.tokens[self.index :]
        position = self.position
        text = self.sql[rest[0].start : rest[-1].end + 1]
        self.index = len(self.tokens)
        parsed = parse_query(rest, self.sql, self.parameters)
        return Query(
            sql=self.sql,
            position=position,
            expression=parsed.tree,
            text=text,
            parameters=len(self.parameters),
            emission=parsed.emission,
            unbounded_state=parsed.unbounded_state,
        )

    def expression(self, *ends: str) -> Any:
        """Reads a scalar expression. It ends before one of the words `ends` (outside of
        parentheses), or at the end of the statement."""
        start, depth = self.index, 0
        while not self.at_end:
            token = self.tokens[self.index]
            if depth == 0 and self.peek() in ends:
                break
            depth += _DEPTH.get(token.token_type, 0)
            self.index += 1
        return parse_expression(
            self.tokens[start : self.index], self.sql, self.parameters, self.position
        )

    def names(self, what: str) -> tuple[Name, ...]:
        """Reads `(a, b, …)`; ProgrammingError if a name is listed twice."""
        self.expect("(")
        names: list[Name] = []
        while True:
            names.append(self.unique(self.name(what), names, "column"))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(names)

    def object_name(self, what: str) -> Name:
        """Reads the name of a catalog object. The name may be qualified by the schema "public", and
        that by the catalog; there is only one of each."""
        name = self.name(what)
        if not self.accept("."):
            return name
        if name.text.lower() == CATALOG and self.peek(1) == ".":
            name = self.name("the schema")
            self.expect(".")
        elif self.peek(1) == ".":
            check_schema(name.text, "", name.position)
        if name.text.lower() == "information_schema":
            raise ProgrammingError(
                f'schema "{name}" can only be queried',
                hint="its tables show the catalog, which CREATE and DROP change",
                position=name.position,
            )
        if name.text.lower() != "public":
            raise ProgrammingError(
                f'schema "{name}" does not exist',
                hint='there is one schema, "public"',
                position=name.position,
            )
        return self.name(what)
