"""The names of the files that COPY … TO writes into a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import uuid4

from runnel.errors import ProgrammingError

DEFAULT_PATTERN = "data_{i}"
_KNOWN = {"i", "uuid", "uuidv4"}


def file_names(pattern: str, suffix: str, *, are_added: bool) -> Callable[[int], str]:
    """Makes the name of the file with a number from FILENAME_PATTERN.

    pattern: has {i} for the number, {uuid} for a random identifier.
    are_added: whether the folder has files that must keep their names: then each name is new.
    """
    unknown = set(re.findall(r"\{([^}]*)\}", pattern)) - _KNOWN
    if unknown or not pattern or set(pattern) & set("/\\\0") or pattern.startswith((".", "_")):
        raise ProgrammingError(
            f"wrong value '{pattern}' for option FILENAME_PATTERN of COPY",
            hint="write a name such as 'part_{i}' or 'part_{uuid}', without an extension",
        )
    if are_added and "{uuid" not in pattern:
        pattern = pattern.replace("{i}", "{uuid}") if "{i}" in pattern else pattern + "_{uuid}"
    elif "{" not in pattern:
        pattern += "{i}"

    def name(number: int) -> str:
        text = pattern.replace("{i}", str(number))
        for known in ("{uuid}", "{uuidv4}"):
            text = text.replace(known, str(uuid4()))
        return text + suffix

    return name
