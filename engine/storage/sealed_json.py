"""JSON files with a checksum as the last member, so that a disk fault is detected on reading."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

_CHECKSUM = "checksum"
_SEAL = re.compile(rb',\n "checksum": "([0-9a-f]{8})"\n}\Z')


def sealed(content: Mapping[str, Any]) -> str:
    """Encode a JSON object, which must not be empty, as text with its checksum."""
    text = json.dumps(content, ensure_ascii=False, indent=1).removesuffix("\n}")
    return f'{text},\n "{_CHECKSUM}": "{crc32(text.encode()):08x}"\n}}'


def unsealed(data: bytes, since: int) -> Any:
    """Decode a text; raises ValueError if it differs from the text that was written.

    since: the "format" of an object that must have a checksum. Objects of earlier formats have
        none. The caller decides which other formats it can read.
    """
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
