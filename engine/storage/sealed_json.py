"""JSON in files with a checksum as its last member, so that what a fault of the disk changed isn't
read as something else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

_CHECKSUM = "checksum"
_SEAL = re.compile(rb',\n "checksum": "([0-9a-f]{8})"\n}\Z')


def sealed(content: Mapping[str, Any]) -> str:
    """An object that isn't empty, as text with its checksum."""
    text = json.dumps(content, ensure_ascii=False, indent=1).removesuffix("\n}")
    return f'{text},\n "{_CHECKSUM}": "{crc32(text.encode()):08x}"\n}}'


def unsealed(data: bytes, since: int) -> Any:
    """The value of a text; ValueError where it isn't what was written. One of the "format" `since`
    must have a checksum. The formats before it had none; whether others can be read is for the
    caller to say."""
    seal = _SEAL.search(data)
    if seal is not None and seal[1] != b"%08x" % crc32(data[: seal.start()]):
        raise ValueError("its checksum is wrong: it was changed or cut short")
    try:
        content = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(content, dict):
        if seal is None and content.get("format") == since:
            raise ValueError("its checksum is missing: it was changed, or cut short")
        content.pop(_CHECKSUM, None)
    return content
