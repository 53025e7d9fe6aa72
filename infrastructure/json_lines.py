"""JSON as lines of a file or a terminal."""

import re
from typing import Any, Final

_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Beyond what JSON escapes anyway: other controls and line ends, and changes of direction."""


def json_line(value: Any) -> bytes:
    """A value as a line: what ends lines elsewhere, or a terminal would obey, stands as a JSON escape."""
    from domain import jsontext

    text = _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", jsontext.to_text(value))
    return text.encode() + b"\n"
