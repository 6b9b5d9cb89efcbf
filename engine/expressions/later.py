"""Which functions are in the modules that are imported on first use: for each module, the keys of its functions and the
names under which SQL calls them (none for an operator). A test compares this with what the modules define."""

from __future__ import annotations

from collections.abc import Mapping


def _family(text: str) -> dict[str, tuple[str, ...]]:
    """Read from words: `key` is called by the same word in upper case, `key=A,B` by A and B, `key=` by none."""
    functions = {}
    for word in text.split():
        key, equals, names = word.partition("=")
        functions[key] = tuple(names.split(",")) if names else () if equals else (key.upper(),)
    return functions


_MODULES = {
    "attempts": "try_cast=",
    "json_building": """
        json_object= json_array= json_array_of_list= json_object_of_lists= to_json=TO_JSON,TO_JSONB,ROW_TO_JSON
        json_pretty=JSON_PRETTY,JSONB_PRETTY json_strip_nulls json_merge_patch
    """,
    "json_functions": """
        json_value= json_outcome= json_query= json_exists= is_json= json_arrow= json_arrow_text=
        json_extract=JSON_EXTRACT,JSON_EXTRACT_PATH json_extract_string=JSON_EXTRACT_STRING,JSON_EXTRACT_PATH_TEXT
        json_array_length json_keys json_type=JSON_TYPE,JSON_TYPEOF json_contains json_valid
    """,
}
LATER: Mapping[str, Mapping[str, tuple[str, ...]]] = {module: _family(text) for module, text in _MODULES.items()}
