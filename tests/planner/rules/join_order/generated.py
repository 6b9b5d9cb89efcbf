"""Joins of many small tables, as a statement and its tables, made from a seed.

Each table has a primary key `id` and columns with the same numbers in another order, so that a join
by any two columns has at most as many rows as a table, and a wrong order millions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

ROWS = 8

Edge = tuple[int, int]


@dataclass
class Case:
    """A statement and the tables that it reads.

    tables: for each name the columns by name.
    sql: the statement.
    ordered: the same for SQLite, which joins in the order in which CROSS JOIN is written: each
        table has a condition with the tables before it.
    """

    tables: dict[str, dict[str, list[int | None]]] = field(default_factory=dict)
    sql: str = ""
    ordered: str = ""


def chain(number: int, random: Random) -> list[Edge]:
    return [(i, i + 1) for i in range(number - 1)]


def star(number: int, random: Random) -> list[Edge]:
    return [(0, i) for i in range(1, number)]


def tree(number: int, random: Random) -> list[Edge]:
    return [(random.randrange(i), i) for i in range(1, number)]


def cycle(number: int, random: Random) -> list[Edge]:
    return [*chain(number, random), (0, number - 1)]


def clique(number: int, random: Random) -> list[Edge]:
    return [(i, j) for j in range(number) for i in range(j)]


def disconnected(number: int, random: Random) -> list[Edge]:
    return [edge for edge in tree(number, random) if edge[1] % max(3, number // 3)]


SHAPES = {item.__name__: item for item in (chain, star, tree, cycle, clique, disconnected)}


def case(shape: str, number: int, seed: int, outer: bool = False, same: bool = False) -> Case:
    """A join of `number` tables.

    shape: which tables the conditions connect: a key of SHAPES.
    outer: whether some of the tables are themselves outer joins.
    same: whether all names in FROM stand for few tables.
    """
    random = Random(f"{shape} {number} {seed}")
    made = Case()
    edges = SHAPES[shape](number, random)
    columns: list[dict[str, list[int | None]]] = [
        {"id": list(range(ROWS)), "x": _numbers(random)} for _ in range(number)
    ]
    conditions = [_condition(columns, edge, random, shape == "clique") for edge in edges]
    names = [f"t{i}" for i in range(number)]
    if same:
        names = [f"t{i % 3} AS t{i}" for i in range(number)]
        for i in range(3, number):
            for name, values in columns[i].items():
                columns[i % 3].setdefault(name, values)
    made.tables = {f"t{i}": columns[i] for i in range(3 if same else number)}
    roots = {0} | set(range(number)) - {i for edge in edges for i in edge[1:]}
    conditions += [f"t{i}.id = {random.randrange(ROWS)}" for i in roots]
    if outer:
        names = [_with_outer_join(name, i, made, random) for i, name in enumerate(names)]
    shown = [f"t{i}.x" for i in range(number)]
    random.shuffle(shown)
    made.ordered = _text(shown, " CROSS JOIN ".join(names), _balanced(conditions))
    random.shuffle(names)
    random.shuffle(conditions)
    made.sql = _text(shown, ", ".join(names), " AND ".join(conditions))
    return made


def _text(shown: list[str], tables: str, condition: str) -> str:
    return f"SELECT {', '.join(shown)} FROM {tables} WHERE {condition}"


def _balanced(conditions: list[str]) -> str:
    """The conjunction in brackets, since SQLite's expressions are at most 1,000 levels deep."""
    middle = len(conditions) // 2
    if not middle:
        return conditions[0]
    return f"({_balanced(conditions[:middle])} AND {_balanced(conditions[middle:])})"


def _numbers(random: Random) -> list[int | None]:
    numbers: list[int | None] = list(range(ROWS))
    random.shuffle(numbers)
    if random.random() < 0.3:
        numbers[random.randrange(ROWS)] = None
    return numbers


def _condition(
    columns: list[dict[str, list[int | None]]], edge: Edge, random: Random, by_key: bool
) -> str:
    first, second = edge
    if by_key:
        sides = [f"t{first}.id", f"t{second}.id"]
    else:
        columns[first][f"k{second}"] = _numbers(random)
        sides = [f"t{first}.k{second}", f"t{second}.id"]
    random.shuffle(sides)
    return " = ".join(sides)


def _with_outer_join(name: str, number: int, made: Case, random: Random) -> str:
    """The table, or an outer join that has all its rows."""
    if random.random() < 0.7:
        return name
    made.tables[f"u{number}"] = {"id": _numbers(random)[: ROWS // 2], "v": [1] * (ROWS // 2)}
    return f"{name} LEFT JOIN u{number} ON u{number}.id = t{number}.x"


def steps(number: int, seed: int) -> Case:
    """Inner and outer joins in turn, each with the table before."""
    random = Random(f"steps {number} {seed}")
    made = Case(tables={"t0": {"id": list(range(ROWS)), "x": _numbers(random)}})
    text = "t0"
    for i in range(1, number):
        made.tables[f"t{i}"] = {"id": list(range(ROWS)), "x": _numbers(random)}
        kind = random.choice(["JOIN", "JOIN", "LEFT JOIN"])
        near = random.randrange(max(0, i - 3), i)
        text += f" {kind} t{i} ON t{i}.id = t{near}.x"
    shown = ", ".join(f"t{i}.x" for i in range(number))
    made.sql = made.ordered = f"SELECT {shown} FROM {text} WHERE t0.id < 5"
    return made
