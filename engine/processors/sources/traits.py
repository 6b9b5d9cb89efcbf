"""The check of a source's traits before it is read."""

from __future__ import annotations

from dataclasses import fields

from runnel.connector import Source, SourceTraits
from runnel.errors import InterfaceError


def check_traits(source: Source) -> None:
    """Raises InterfaceError if a source has a trait as an attribute of its own, where it would have
    no effect."""
    for trait in fields(SourceTraits):
        if hasattr(source, trait.name):
            kind = type(source).__name__
            raise InterfaceError(
                f"{trait.name} of {kind} is not an attribute of a source, but one of its traits",
                hint=f"set traits = SourceTraits({trait.name}=True) in {kind}",
            )
