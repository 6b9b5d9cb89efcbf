"""The architecture, tested: what may import what, which packages are shipped, one public home per
name."""

from __future__ import annotations

import ast
import configparser
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import runnel
from runnel.connectors.files.connector import _FORMATS
from runnel.expressions.lazy_families import LAZY_FAMILIES
from tests.syntax_trees import lasting_tree

ROOT = Path(__file__).parent.parent
FOLDERS = {"engine": "runnel", "planner": "runnel.planner", "connectors": "runnel.connectors"}

LEVELS = {
    0: (
        "base",
        "deadline",
        "errors",
        "sqltypes",
    ),
    1: (
        "access",
        "catalog",
        "columns",
        "connector",
        "dag",
        "duckdb",
        "expressions",
        "processor",
        "relation",
        "storage",
        "watermarks",
    ),
    2: (
        "foreign",
        "processors",
        "rendering",
    ),
    3: (
        "named_jobs",
        "runtime",
        "snapshots",
        "testing",
    ),
    4: (
        "connectors",
        "planner",
    ),
    5: (
        "database",
        "results",
        "session",
        "settings",
    ),
    6: ("statements",),
    7: (
        "__init__",
        "__main__",
        "connection",
        "cursor",
        "dbapi20",
        "serving",
        "shell",
        "spark",
    ),
}
LEVEL_OF = {name: level for level, names in LEVELS.items() for name in names}
SEEN_BY_PLUGINS = 2
"""The planner and the connectors see levels up to this one, and themselves."""

SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    """The import name of a source file."""
    folder, *rest = path.relative_to(ROOT).with_suffix("").parts
    parts = [FOLDERS[folder], *rest]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = frozenset(map(module_name, SOURCES))


def part_of(module: str) -> str:
    """The part of the package that a module belongs to: the second name, `__init__` for the package
    itself."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


@cache
def parsed(path: Path) -> ast.Module:
    return lasting_tree(path.read_text("utf-8"))


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """The modules that a file imports, with the line: at its top, within functions, for type
    checkers only, and by a name in quotes."""
    return tuple(each_import(path))


def each_import(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name if name in MODULES else module) for name in names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and is_import_by_name(node):
            name = node.args[0]
            if isinstance(name, ast.Constant):
                yield node.lineno, str(name.value)
    for module in TABLES.get(str(path.relative_to(ROOT)), ()):
        yield 1, module


def is_import_by_name(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "import_module"


TABLES = {
    "connectors/files/connector.py": [f"runnel.connectors.{name}" for name, _ in _FORMATS.values()],
    "engine/__init__.py": [f"runnel.{home}" for home in runnel._HOMES],
    "planner/operators/__init__.py": [
        module_name(path)
        for path in (ROOT / "planner" / "operators").rglob("*.py")
        if path.stem not in ("__init__", "passes")
    ],
    "engine/expressions/functions.py": [f"runnel.expressions.{name}" for name in LAZY_FAMILIES],
}
"""The modules that a file imports by names that it has in a table."""


def test_every_part_has_a_level() -> None:
    parts = {part_of(module_name(path)) for path in SOURCES}
    assert parts == set(LEVEL_OF)


def test_imports_point_to_lower_levels() -> None:
    assert [wrong for path in SOURCES for wrong in wrong_imports(path)] == []


def test_imports_by_name_are_known() -> None:
    """`import_module` with a name that is put together needs an entry in TABLES."""
    found = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and is_import_by_name(node)
        and isinstance(node.args[0], ast.JoinedStr)
    }
    assert found == set(TABLES)
    assert {name for names in TABLES.values() for name in names} <= MODULES


IN_CIRCLES: dict[tuple[str, str], str] = {}
"""Imports that close a circle of files, each with the reason why it stays. There is none, and the
list only shrinks: an import in it that closes no circle fails the test."""


def test_each_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name
        for path in SOURCES
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {module_name(path): {name for _, name in imports(path)} & MODULES for path in SOURCES}
    closing = set()
    for source, target in IN_CIRCLES:
        graph[source].remove(target)
        if source in reached_from(target, graph):
            closing.add((source, target))
    assert set(IN_CIRCLES) == closing, "an exception that isn't needed any more"
    circles = [name for name in sorted(graph) if name in reached_from(name, graph)]
    assert circles == [], "files that import themselves by way of others"


def reached_from(module: str, graph: Mapping[str, set[str]]) -> set[str]:
    """The modules that a module imports, and those that these import, and so on."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def wrong_imports(path: Path) -> Iterator[str]:
    own = part_of(module_name(path))
    for line, module in imports(path):
        if module.split(".")[0] in FOLDERS:
            yield (
                f"{place(path, line)}: {module}: the import name is {FOLDERS[module.split('.')[0]]}"
            )
        if module.split(".")[0] != "runnel" or (module == "runnel" and own == "__init__"):
            continue
        other = part_of(module)
        if other == "__init__":
            if own not in ("testing", "shell"):
                yield f"{place(path, line)}: imports the root; take the name from its module"
            continue
        allowed = LEVEL_OF[own]
        if allowed == 4:
            allowed = 4 if own == other else SEEN_BY_PLUGINS
        if other in LEVEL_OF and LEVEL_OF[other] > allowed:
            yield (
                f"{place(path, line)}: {module} is of level {LEVEL_OF[other]}, "
                f"{own} of level {LEVEL_OF[own]}"
            )


FREE_IMPORTS = tuple(
    "runnel.errors runnel.sqltypes runnel.deadline runnel.base runnel.access runnel.catalog "
    "runnel.connector runnel.dag runnel.processor runnel.relation runnel.watermarks runnel.columns "
    "runnel.expressions runnel.storage runnel.planner.operators.passes runnel.planner.environment "
    "runnel.connectors.confined_path runnel.connectors.options runnel.connectors.packages".split()
)
"""Modules and folders that a docstring of a folder need not name: basics, contracts, values, and
what every folder of the planner or every connector may import."""

IMPORTS_BY_OTHER_RULES = frozenset(
    "runnel runnel.planner runnel.planner.operators runnel.planner.operators.streams".split()
)
"""Folders that import nearly everything: their docstrings name what they do not import."""

FOLDER_DOCSTRINGS = {
    module_name(path): ast.get_docstring(parsed(path)) or ""
    for path in SOURCES
    if path.name == "__init__.py"
}


def within(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.")


def path_names(module: str) -> set[str]:
    """The names of a module and its folders, without those of the three packages."""
    names = module.split(".")[1:]
    return set(names[1:] if len(names) > 1 and names[0] in FOLDERS else names)


@cache
def imported_by_folders() -> Mapping[str, set[str]]:
    """The modules that the files of each folder import, without its subfolders."""
    found: dict[str, set[str]] = {folder: set() for folder in FOLDER_DOCSTRINGS}
    for path in SOURCES:
        folder = module_name(path.parent / "__init__.py")
        found[folder] |= {name for _, name in imports(path) if name in MODULES}
    return found


@cache
def defined_by_folders() -> Mapping[str, set[str]]:
    """The functions, classes and methods that the files of each folder define."""
    found: dict[str, set[str]] = {folder: set() for folder in FOLDER_DOCSTRINGS}
    for path in SOURCES:
        found[module_name(path.parent / "__init__.py")] |= {
            node.name
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
    return found


@pytest.mark.parametrize("folder", sorted(FOLDER_DOCSTRINGS.keys() - IMPORTS_BY_OTHER_RULES))
def test_a_docstring_names_the_imports_of_its_folder(folder: str) -> None:
    """An import is named by its file or one of its folders, with or without the path."""
    named = {
        word.removesuffix(".py").split("/")[-1].split(".")[0]
        for word in re.findall(r"`([\w./]+)`", FOLDER_DOCSTRINGS[folder])
    }
    unnamed = {
        name
        for name in imported_by_folders()[folder]
        if name != "runnel"
        and not any(within(name, free) for free in (folder, *FREE_IMPORTS))
        and named.isdisjoint(path_names(name))
    }
    assert unnamed == set(), "state the import in the docstring of the folder's __init__.py"


@pytest.mark.parametrize("folder", sorted(FOLDER_DOCSTRINGS))
def test_a_docstring_names_files_that_exist(folder: str) -> None:
    """After "Begin with" a docstring names folders, and files and definitions of its folder and of
    the folders around it."""
    known = {part for name in FOLDER_DOCSTRINGS for part in name.split(".")}
    known |= {name.split(".")[-1] for name in MODULES if within(folder, name.rpartition(".")[0])}
    known |= defined_by_folders()[folder]
    text = FOLDER_DOCSTRINGS[folder].partition("Begin with")[2]
    assert set(re.findall(r"`([a-z_]+)[.`]", text)) - known == set()


def test_package_list_is_complete() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    there = {module_name(path) for path in SOURCES if path.name == "__init__.py"}
    assert listed == there
    folders = {module_name(path.parent / "__init__.py") for path in SOURCES}
    assert folders == there, "a folder without __init__.py"


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_refuse_to_be_imported_by_their_own_names(folder: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f'ImportError: this package is imported as "{FOLDERS[folder]}"' in done.stderr


def test_public_names_have_one_home() -> None:
    homes = {name: home for home, names in runnel._HOMES.items() for name in names}
    assert sum(len(names) for names in runnel._HOMES.values()) == len(homes)
    for name in runnel.__all__:
        value = getattr(runnel, name)
        if name in homes:
            module = importlib.import_module(f"runnel.{homes[name]}")
            assert getattr(module, name) is value
    assert set(homes) <= set(runnel.__all__)


def test_checkers_see_what_is_loaded_on_first_use() -> None:
    tree = ast.parse((ROOT / "engine" / "__init__.py").read_text("utf-8"))
    seen = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            for item in node.body:
                assert isinstance(item, ast.ImportFrom) and item.module is not None
                seen[item.module.removeprefix("runnel.")] = {alias.name for alias in item.names}
    assert seen == {home: set(names) for home, names in runnel._HOMES.items()}


def test_public_classes_say_so() -> None:
    classes = [value for name in runnel.__all__ if isinstance(value := getattr(runnel, name), type)]
    ours = [item for item in classes if item.__module__.split(".")[0] == "runnel"]
    assert {item.__module__ for item in ours} == {"runnel"}


def test_dir_shows_what_is_loaded_on_first_use() -> None:
    assert set(runnel.__all__) <= set(dir(runnel))


def test_version_is_that_of_the_package() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert runnel.__version__ == config["metadata"]["version"]


MOST_LINES = 600
"""Number of lines of the longest file."""
LONGER: set[str] = set()
"""Files still to be divided. The list only shrinks."""


def test_files_and_functions_are_of_a_readable_size() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n") for path in SOURCES}
    long_files = {path for path, count in lengths.items() if count > MOST_LINES}
    assert long_files == LONGER, "; ".join(
        f"{path} has {lengths[path]} lines, at most {MOST_LINES}: "
        "move a part of it to a module of its own"
        for path in sorted(long_files - LONGER)
    )
    functions = [
        (path, node)
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > len(SOURCES)
    long = [
        place(path, node.lineno)
        for path, node in functions
        if (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert long == [], "more than 60 lines"


MOST_FILES = 15
"""Number of files in the largest folder, `__init__.py` not counted."""


def test_folders_are_of_a_readable_size() -> None:
    sizes = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    assert len(sizes) > 80
    large = {str(folder.relative_to(ROOT)): n for folder, n in sizes.items() if n > MOST_FILES}
    assert large == {}, f"more than {MOST_FILES} files: move some of them to a folder within it"


PUBLIC_MODULES = (
    *("runnel.catalog", "runnel.connector", "runnel.dag", "runnel.processor", "runnel.sqltypes"),
    *("runnel.connectors.comparisons", "runnel.connectors.iterators", "runnel.connectors.options"),
    "runnel.processors.library",
)
"""Modules that documented programs import."""


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_documented_modules_stay_where_they_are(name: str) -> None:
    module = importlib.import_module(name)
    assert [item for item in vars(module) if not item.startswith("_")] != []


def test_modules_have_a_docstring_and_a_telling_name() -> None:
    assert [place(path) for path in SOURCES if not ast.get_docstring(parsed(path))] == []
    words = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
    assert [place(path) for path in SOURCES if words & set(path.stem.split("_"))] == []


def test_no_unfinished_work() -> None:
    # Put together here so that this file doesn't find itself.
    words = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
        if any(word in line.replace("(", " ").replace(":", " ").split() for word in words)
    ]
    assert not found


START = """
import sys
import runnel
connection = runnel.connect()
assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]
connection.close()
print(*sorted(sys.modules))
"""
LARGE = {"asyncio", "duckdb", "hashlib", "numpy.random", "pandas", "polars", "pyspark"}
LARGE |= {"pyarrow.dataset", "pyarrow.parquet"}
FOR_LATER = {
    *(
        "connectors.arrow.tables",
        "connectors.files.connector",
        "connectors.imap.connector",
        "connectors.pushed.table",
    ),
    *("planner.bind.write", "planner.explain.nodes", "planner.explain.explain"),
    *("planner.parse.dml", "planner.parse.ddl", "planner.parse.settings"),
    *(
        "processors.grouping.aggregate",
        "processors.calc",
        "processors.sources.generate",
        "processors.joins.join",
        "processors.library",
    ),
    *(
        "processors.sources.scan",
        "processors.grouping.set_operation",
        "processors.sorting.sort",
        "processors.unnest",
        "processors.sinks.write",
    ),
    *(
        "dbapi20",
        "runtime.simulation",
        "runtime.snapshots",
        "statements.batches",
        "statements.definitions",
    ),
    *("statements.show", "statements.writes", "testing"),
    *(
        "named_jobs.registry",
        "planner.parse.jobs",
        "planner.identity.vertices",
        "statements.jobs.jobs",
        "statements.jobs.show",
    ),
}
"""Our modules that `SELECT 1` has no use for. What is loaded before the first answer is what a new
process waits for."""
MOST_MODULES = 150
"""How many of our modules, packages not counted, a first query may load: slightly more than now."""


def test_handlers_use_the_session_and_not_the_database() -> None:
    """What a handler may use is declared in `Session`, and shared or of one client there."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "engine" / "statements").rglob("*.py"))
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Attribute) and node.attr in ("database", "_database"))
        or (isinstance(node, ast.ImportFrom) and node.module == "runnel.database")
    ]
    assert not found


@cache
def loaded_by_a_first_query() -> frozenset[str]:
    """The modules that a new process has loaded after its first query."""
    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, timeout=60, check=True
    )
    return frozenset(done.stdout.split())


OPTIONAL_PACKAGES = {"engine/spark/source.py": "its modules need pyspark, this one doesn't"}
"""Modules that import a module of their own folder within a function, with the reason."""


def test_imports_within_functions_cross_folders_or_spare_the_first_query() -> None:
    """A function imports a module of its own folder only to keep it out of the first query."""
    loaded = loaded_by_a_first_query()
    found = [
        place(path, node.lineno)
        for path in SOURCES
        if str(path.relative_to(ROOT)) not in OPTIONAL_PACKAGES and path.name != "__init__.py"
        for node in imports_in_functions(path)
        if all(folder_of(name) == folder_of(module_name(path)) for name in named_by(node))
        and (module_name(path) not in loaded or loaded.issuperset(named_by(node)))
    ]
    assert found == [], "import it at the top: no query is faster without it"


def imports_in_functions(path: Path) -> set[ast.ImportFrom]:
    return {
        inner
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom) and (inner.module or "").startswith("runnel")
    }


def named_by(node: ast.ImportFrom) -> set[str]:
    """The modules that an import loads: submodules, or the module that has the names."""
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    return names if names <= MODULES else {str(node.module)}


def folder_of(module: str) -> str:
    return module.rpartition(".")[0]


def test_a_first_query_loads_only_what_it_needs() -> None:
    loaded = loaded_by_a_first_query()
    assert not loaded & LARGE
    ours = {name.removeprefix("runnel.") for name in loaded if name.startswith("runnel.")}
    assert not ours & FOR_LATER
    assert {name.removeprefix("runnel.") for name in MODULES} >= FOR_LATER
    packages = {
        module_name(path).removeprefix("runnel.") for path in SOURCES if path.name == "__init__.py"
    }
    assert len(ours - packages) <= MOST_MODULES
