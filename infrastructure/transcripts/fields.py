"""Fields of foreign JSON, read without trusting their types: another type than expected counts as absent."""

from collections.abc import Mapping
from typing import Any

from application.transcript import Json

DETAILS_BYTES_MAX = 64 * 1024
"""A richer result in a larger record keeps its shape, but its long texts are cut."""
DETAIL_CHARS_MAX = 4_096
CUT_MARK = "[Output truncated]"


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def as_object(value: Json) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def content_blocks(content: Json) -> list[Mapping[str, Json]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return []


def joined_text(blocks: list[Mapping[str, Json]]) -> str:
    texts = (as_text(block.get("text")) for block in blocks if block.get("type") == "text")
    return "\n\n".join(text for text in texts if text)


def as_count(value: Json) -> int:
    """A number of tokens or the like; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def bounded(value: Json, record_bytes: int) -> Json:
    """What stands beside a text, its own long texts cut when the record is large."""
    return value if record_bytes <= DETAILS_BYTES_MAX else _cut(value)


def _cut(value: Json) -> Json:
    """The same shape with long texts cut; the line reader has bounded its depth."""
    if isinstance(value, str):
        return value if len(value) <= DETAIL_CHARS_MAX else value[:DETAIL_CHARS_MAX] + CUT_MARK
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value
