"""Mutated statements: a statement comes out or an error with its place, never anything else, and
never late."""

from __future__ import annotations

import random
from pathlib import Path
from time import monotonic

import pytest

from runnel.errors import DatabaseError, NotSupportedError, ProgrammingError
from runnel.planner.parse.statement import parse

HERE = Path(__file__).parent
STATEMENTS = (HERE / "valid_statements.sql").read_text().splitlines()
FRAGMENTS = [
    *"( ) [ ] { } , ; :: ? : . * ' \" /* -- $1 \0 é \n \t 1e999 0x1 -".split(" "),
    *{word for statement in STATEMENTS for word in statement.split(" ")},
]


def mutated(rng: random.Random) -> str:
    text = rng.choice(STATEMENTS)
    for _ in range(rng.randint(1, 4)):
        words = text.split(" ")
        at = rng.randrange(len(words))
        kind = rng.randrange(6)
        if kind == 0:
            words[at] = rng.choice(FRAGMENTS)
        elif kind == 1:
            words.insert(at, rng.choice(FRAGMENTS))
        elif kind == 2:
            del words[at]
        elif kind == 3:
            words[at:at] = words[at : at + rng.randint(1, 5)]
        elif kind == 4:
            words = words[: at + 1]
        text = " ".join(words)
        if kind == 5 and text:
            cut = rng.randrange(len(text))
            text = (
                text[:cut]
                + chr(rng.choice([0, 9, 34, 39, 40, 41, 46, 63, 0xA0, 0x1F600, *range(33, 127)]))
                + text[cut + 1 :]
            )
    return text


@pytest.mark.parametrize("seed", range(4))
def test_mutations(seed: int) -> None:
    rng = random.Random(seed)
    accepted = 0
    for _ in range(500):
        text = mutated(rng)
        start = monotonic()
        try:
            parse(text)
            accepted += 1
        except (ProgrammingError, NotSupportedError) as error:
            assert error.message, text
            if error.position is not None:
                assert 0 <= error.position.offset <= len(text), text
        assert monotonic() - start < 5, text
    assert 10 < accepted < 450


DEEP = {
    "parentheses": "select " + "(" * 3000 + "1" + ")" * 3000,
    "open parentheses": "select " + "(" * 3000,
    "not": "select " + "not " * 30000 + "a",
    "minus": "select " + "- " * 30000 + "1",
    "minus and not": "select " + "not - " * 30000 + "1",
    "case": "select " + "case when " * 3000 + "1" + " then 1 end" * 3000,
    "plus": "select " + "+".join(["a"] * 3000),
    "concatenation and plus": "select " + "||".join(["a + b"] * 10 + ["+".join(["a"] * 3000)]),
    "casts": "select a" + "::int" * 3000,
    "subscripts": "select a" + "[1]" * 3000,
    "fields": "select (a)" + ".b" * 3000,
    "calls on fields": "select " + "(t.a).b " * 3000,
    "comparisons": "select a" + " = a" * 3000,
    "tests": "select a" + " is null" * 3000,
    "calls": "select " + "f(" * 3000 + ")" * 3000,
    "subqueries": "select * from " + "(select * from " * 3000 + "t" + ")" * 3000,
    "joins without on": "select * from a " + "join b " * 30000,
    "windows": "select f()" + " over ()" * 30000,
    "lambdas": "select f(" + "x -> " * 3000 + "1)",
    "intervals": "select " + "interval " * 30000 + "'1' day",
    "with": "with a as (" * 3000 + "select 1" + ") select 1" * 3000,
    "explain": "explain " * 3000 + "select 1",
    "types": "select cast(a as " + "row(a " * 3000 + "int" + ")" * 3000 + ")",
    "arrays": "select a::int" + "[]" * 3000,
    "table functions": "select * from " + "table(" * 3000 + "f(1)" + ")" * 3000,
}


@pytest.mark.parametrize("name", DEEP)
def test_depth_is_refused(name: str) -> None:
    with pytest.raises(DatabaseError):
        parse(DEEP[name])
