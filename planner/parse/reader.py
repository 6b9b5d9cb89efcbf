"""A token reader for the elements that statements share: queries, expressions, lists of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.tokenizer_core import Token

from runnel.base.schemas import INFORMATION_SCHEMA, ONLY_SCHEMAS, OWN_CATALOGS
from runnel.errors import NotSupportedError, ProgrammingError, as_written
from runnel.planner.parse.query.query import parse_expression, parse_query
from runnel.planner.parse.syntax import ComputedClause, Name, Query
from runnel.planner.parse.tokens import TokenReader, like

_DEPTH = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.L_BRACE: 1,
    TokenType.CASE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.R_BRACE: -1,
    TokenType.END: -1,
}

QUERY_WORDS = (
    *("SELECT", "FROM", "WITH", "VALUES", "TABLE", "("),
    *("PIVOT", "PIVOT_WIDER", "UNPIVOT", "PIVOT_LONGER"),
)
"""The words with which a query begins."""

INSTEAD_OF_TYPES = (
    "write the fields in the "
    "column's type, as in CREATE MAPPING m (__key BIGINT, p ROW(id BIGINT, name VARCHAR)) …, "
    "or use JSON"
)
"""The hint where a statement would define or list named types."""


class StatementReader(TokenReader):
    """Reads one statement.

    parameters: the index of each parameter of the text, by the offset of each occurrence.
    keeps_public: whether names of objects keep the schema public, because the session looks names
        up in other schemas first.
    """

    keeps_public = False

    def __init__(self, tokens: Sequence[Token], sql: str, parameters: Mapping[int, int]) -> None:
        super().__init__(tokens, sql)
        self.parameters = parameters

    def of(self, tokens: Sequence[Token]) -> StatementReader:
        """A reader of other tokens of the statement."""
        reader = StatementReader(tokens, self.sql, self.parameters)
        reader.keeps_public = self.keeps_public
        return reader

    @property
    def parameter_count(self) -> int:
        """The number of different parameters."""
        return max(self.parameters.values(), default=-1) + 1

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
            parameters=self.parameter_count,
            emission=parsed.emission,
            unbounded_state=parsed.unbounded_state,
            changes=parsed.changes,
        )

    def query_until(self, *ends: tuple[str, ...]) -> Query:
        """Reads a query, up to one of the sequences of words (outside of parentheses) or the end
        of the statement."""
        tokens, self.tokens = self.tokens, self.tokens[: self._end(ends)]
        try:
            return self.query()
        finally:
            self.tokens = tokens

    def from_items(self, *ends: tuple[str, ...]) -> Any:
        """Reads the items of FROM up to one of the sequences of words; returns the sqlglot tree
        of SELECT * over them."""
        end = self._end(ends)
        items = list(self.tokens[self.index : end])
        if not items:
            raise self.error("a table")
        first = items[0]
        words = [(TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM")]
        self.index = end
        return self._select([*(like(first, kind, word) for kind, word in words), *items])

    def select_items(self, table: str) -> Any:
        """Reads the rest of the statement as a select list; returns the sqlglot tree of a SELECT
        of it from the changed rows, which are called `table`."""
        items = list(self.tokens[self.index :])
        if not items:
            raise self.error("a column")
        self.index = len(self.tokens)
        return self._select(
            [
                like(items[0], TokenType.SELECT, "SELECT"),
                *items,
                like(items[-1], TokenType.FROM, "FROM"),
                like(items[-1], TokenType.IDENTIFIER, "returned rows"),
                like(items[-1], TokenType.ALIAS, "AS"),
                like(items[-1], TokenType.IDENTIFIER, table),
            ]
        )

    def default_values(self) -> Query:
        """The query of DEFAULT VALUES, after these words: one row without columns."""
        position = self.position
        tree = exp.Values(expressions=[exp.Tuple(expressions=[])])
        return Query(sql=self.sql, position=position, expression=tree, text="", parameters=0)

    def _select(self, tokens: Sequence[Token]) -> Any:
        return parse_query(tokens, self.sql, self.parameters).tree

    def _end(self, ends: Sequence[tuple[str, ...]]) -> int:
        """The index of the first of the sequences of words, outside of parentheses."""
        depth = 0
        for index in range(self.index, len(self.tokens)):
            if depth == 0 and any(
                tuple(self.words[index : index + len(words)]) == words for words in ends
            ):
                return index
            depth += _DEPTH.get(self.tokens[index].token_type, 0)
        return len(self.tokens)

    def expression(self, *ends: str) -> Any:
        """Reads a scalar expression. It ends before one of the words `ends` (outside of
        parentheses), or at the end of the statement."""
        start = self.index
        self.skip_to(*ends)
        return self._expression(start)

    def _expression(self, start: int) -> Any:
        """The tree of the tokens from an index on, up to the next one."""
        return parse_expression(
            self.tokens[start : self.index], self.sql, self.parameters, self.position
        )

    def skip_to(self, *ends: str) -> None:
        """Skips the tokens before one of the words `ends` (outside of parentheses), or before the
        end of the statement."""
        depth = 0
        while not self.at_end and (depth or self.peek() not in ends):
            depth += _DEPTH.get(self.tokens[self.index].token_type, 0)
            self.index += 1

    def computed_column(self, name: Name, index: int) -> ComputedClause:
        """Reads `AS expression` of a column of a mapping, without a COMMENT after it."""
        self.expect("AS")
        start = self.index
        self.skip_to(",", ")")
        if self.previous(2) == "COMMENT" and self.index - start > 2:
            self.index -= 2
        value = self._expression(start)
        first, last = self.tokens[start], self.tokens[self.index - 1]
        return ComputedClause(name, self.sql[first.start : last.end + 1], index, value)

    def names(self, what: str) -> tuple[Name, ...]:
        """Reads `(a, b, …)`, also with a comma at the end; ProgrammingError if a name is listed
        twice."""
        self.expect("(")
        names: list[Name] = []
        while True:
            names.append(self.unique(self.name(what), names, "column"))
            if not self.accept(",") or self.peek() == ")":
                break
        self.expect(")")
        return tuple(names)

    def accept_if_not_exists(self, or_replace: bool) -> bool:
        """Whether IF NOT EXISTS comes next; ProgrammingError if OR REPLACE was written as well."""
        position = self.position
        if not self.accept("IF", "NOT", "EXISTS"):
            return False
        if or_replace:
            raise ProgrammingError(
                "OR REPLACE and IF NOT EXISTS exclude each other",
                hint="leave one of them out",
                position=position,
            )
        return True

    def object_name(self, what: str) -> Name:
        """Reads the name of a catalog object, which a schema and a catalog may qualify. Its text
        is the name for `Snapshot.find`: without the schema public, unless `keeps_public`."""
        names = [self.name(what)]
        while len(names) < 3 and self.accept("."):
            names.append(self.name("the schema" if self.peek(1) == "." else what))
        *qualifiers, last = names
        if not qualifiers:
            return last
        if qualifiers[-1].text.lower() == INFORMATION_SCHEMA:
            raise ProgrammingError(
                f'schema "{qualifiers[-1]}" can only be queried',
                hint="its tables show the catalog, which CREATE and DROP change",
                position=qualifiers[-1].position,
            )
        texts = [name.text for name in qualifiers]
        if len(texts) == 2 and texts[0].lower() in OWN_CATALOGS:
            texts = texts[1:]
        shown = texts
        if len(texts) == 1 and texts[0].lower() in ONLY_SCHEMAS and not self.keeps_public:
            shown = []
        return Name(".".join([*shown, last.text]), last.position, tuple(texts), last.text)

    def public_name(self, what: str) -> Name:
        """Reads the name of an object that is in no schema: a macro, a sequence, an index. The
        schema public may qualify it."""
        found = self.object_name(what)
        if found.qualifiers and found.qualifiers[-1].lower() not in ONLY_SCHEMAS:
            local = as_written(found.local)
            raise NotSupportedError(
                f'{what} can\'t be in schema "{found.qualifiers[-1]}"',
                hint=f"only tables and views are in schemas: write {local}",
                position=found.position,
            )
        return Name(found.local, found.position) if found.qualifiers else found
