"""Modules that one job imports: other jobs, and the program, have other modules of the same names.

The modules of a job have an `__import__` of their own, which finds the job's modules first, for
absolute and relative imports; all other imports are Python's. They are in `sys.modules` only while
they are executed, under a name that no other job uses, such as `runnel_job_5.rates`.
`importlib.import_module` does not find them.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import resolve_name
from itertools import count
from operator import attrgetter
from threading import RLock
from types import ModuleType
from typing import Any

from runnel.errors import Error, ErrorCode, ProgrammingError, exception_text
from runnel.expressions.python.function import PythonFunction
from runnel.session.function_signature import signature_of
from runnel.session.job_code.sources import INIT
from runnel.session.python_function import FunctionOptions, python_function
from runnel.storage.value_codec import register_code

ENTRY = "register"
FAILURES = (Exception, SystemExit, GeneratorExit)
"""The exceptions of user code that are errors of the job; KeyboardInterrupt is not."""
_IMPORT_ARGUMENTS = ("globals", "locals", "fromlist", "level")
_OWN_OPTIONS = ("scalar", "nulls", "deterministic", "replace")
"""The options of `create_function` besides DuckDB's."""
_numbers = count(1)


class FunctionRegistrar:
    """The connection as a job's module sees it: the functions are the job's. A function that the
    job has already is not replaced."""

    def __init__(self) -> None:
        self.functions: dict[str, PythonFunction] = {}

    def create_function(
        self,
        name: str,
        function: Any,
        parameter_types: Sequence[Any] | None = None,
        return_type: Any = None,
        **options: Any,
    ) -> None:
        """As `Connection.create_function`."""
        own = {key: options.pop(key) for key in _OWN_OPTIONS if key in options}
        made = replace(FunctionOptions(None, None), **own)
        found = signature_of(function, parameter_types, return_type, made, options)
        self._add(name, function, *found)

    def create_aggregate(
        self,
        name: str,
        function: Any,
        parameter_types: Sequence[Any],
        return_type: Any,
        **options: Any,
    ) -> None:
        """As `Connection.create_aggregate`."""
        made = FunctionOptions(**options, is_aggregate=True)
        self._add(name, function, parameter_types, return_type, made)

    def _add(self, name: str, *rest: Any) -> None:
        made = python_function(name, *rest)
        self.functions.setdefault(made.name.lower(), made)


class JobCode:
    """The modules of one job. Threads may share it.

    sources: the sources by dotted name; see `sources`.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = dict(sources)
        self._root = f"runnel_job_{next(_numbers)}"
        self._tops = {name.partition(".")[0] for name in sources}
        self._builtins = {**vars(builtins), "__import__": self._import}
        self._modules: dict[str, ModuleType] = {}
        self._lock = RLock()
        register_code(self._root, self)

    def functions(self) -> dict[str, PythonFunction]:
        """The functions that the modules register, by lower-case name. ProgrammingError if a module
        cannot be loaded, or none has a function `register`."""
        registrar, entries = FunctionRegistrar(), 0
        for name in sorted(self._tops):
            module = self._loaded(name)
            try:
                entry = getattr(module, ENTRY, None)
                if callable(entry):
                    entries += 1
                    entry(registrar)
            except Error:
                raise
            except FAILURES as error:
                raise _failed(name, error) from error
        if not entries:
            names = ", ".join(f'"{name}"' for name in sorted(self._tops))
            raise ProgrammingError(
                f"module {names} has no function {ENTRY}(connection)",
                hint=(
                    "write one that calls connection.create_function for each function of the "
                    "job's query"
                ),
            )
        return registrar.functions

    def import_name(self, reference: str) -> Any:
        """The function or class with a reference, `module:name`, from the job's modules if they
        have it, otherwise from Python's own."""
        module, _, name = reference.partition(":")
        if module.partition(".")[0] in self._tops:
            return attrgetter(name)(self._loaded(module))
        return attrgetter(name)(import_module(module))

    def _loaded(self, name: str) -> ModuleType:
        try:
            return self._module(name)
        except FAILURES as error:
            raise _failed(name, error) from error

    def _module(self, name: str) -> ModuleType:
        """A module by its dotted name; it is executed once, after the package that it is in."""
        with self._lock:
            if name in self._modules:
                return self._modules[name]
            package, _, leaf = name.rpartition(".")
            parent = self._module(package) if package else None
            if name not in self._modules:  # the package may have imported it
                self._execute(name)
            if parent is not None:
                setattr(parent, leaf, self._modules[name])
            return self._modules[name]

    def _execute(self, name: str) -> None:
        is_package = any(item.startswith(f"{name}.") for item in self._sources)
        source = f"{name}.{INIT}" if is_package else name
        if not is_package and name not in self._sources:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        full = f"{self._root}.{name}"
        self._modules[name] = sys.modules[full] = module = ModuleType(full)
        module.__dict__["__builtins__"] = self._builtins
        module.__package__ = full if is_package else full.rpartition(".")[0]
        if is_package:
            module.__path__ = []
        try:
            if source in self._sources:
                file = f"{name.replace('.', '/')}.py"
                code = compile(self._sources[source], file, "exec", dont_inherit=True)
                exec(code, module.__dict__)
        except BaseException:
            del self._modules[name]
            raise
        finally:
            sys.modules.pop(full, None)

    def _import(self, name: str, *args: Any, **kwargs: Any) -> ModuleType:
        """`__import__` in the job's modules; see `builtins.__import__` for its other arguments."""
        given = {**dict(zip(_IMPORT_ARGUMENTS, args, strict=False)), **kwargs}
        level, path = given.get("level") or 0, name
        if level:
            full = resolve_name("." * level + name, (given.get("globals") or {})["__package__"])
            path = full.removeprefix(self._root).lstrip(".")
            if not path:
                raise ImportError("attempted relative import beyond top-level package")
        if path.partition(".")[0] not in self._tops:
            return builtins.__import__(name, **given)
        module = self._module(path)
        if not given.get("fromlist"):
            return self._module(path.partition(".")[0])
        for item in _names(given["fromlist"], module):
            if not hasattr(module, item) and self._has(f"{path}.{item}"):
                self._module(f"{path}.{item}")
        return module

    def _has(self, name: str) -> bool:
        return name in self._sources or any(item.startswith(f"{name}.") for item in self._sources)


def _names(listed: Sequence[str], module: ModuleType) -> list[str]:
    """The names that an import lists; `*` stands for the names in `__all__`."""
    public = [str(name) for name in getattr(module, "__all__", ())] if "*" in listed else []
    return [name for name in listed if name != "*"] + public


def _failed(name: str, error: BaseException) -> ProgrammingError:
    return ProgrammingError(
        f'module "{name}" can\'t be loaded',
        code=ErrorCode.GENERIC,
        detail=exception_text(error),
        hint="correct the module; CREATE JOB reads it again",
    )
