"""Packages that connectors need, and that are installed separately."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from runnel.errors import OperationalError


def required(module: str, use: str, extra: str) -> Any:
    """The package of `module`, which is imported; OperationalError if it is not installed.

    `use` names what needs it, `extra` the extra of Runnel that installs it.
    """
    package = module.partition(".")[0]
    try:
        import_module(module)
    except ImportError as error:
        raise OperationalError(
            f"{use} needs the package {package.replace('_', '-')}",
            detail=str(error),
            hint=f"pip install 'runnel[{extra}]'",
        ) from error
    return import_module(package)
