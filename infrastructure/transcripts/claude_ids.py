"""Identities the Claude Code importer derives: a stored contract, since a change imports everything anew."""

import json
import re
from pathlib import PurePosixPath
from uuid import UUID, uuid5

from application.transcript import Json

NAMESPACE = UUID("2f0d3c1e-58a7-5e0b-9a44-7f3f3f0b6c1d")
"""For what the transcript itself gives no id."""

ID_CHARS_MAX = 400
"""Longer ids are derived instead, so that an id with a suffix stays within the service's 512."""

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def derived_id(*parts: Json) -> str:
    """The same parts give the same id, in every process and for ever."""
    return str(uuid5(NAMESPACE, json.dumps(parts)))


def usable_id(text: str) -> str:
    """`text` trimmed; derived from it when a store could not carry it; blank stays blank."""
    text = text.strip()
    if len(text) <= ID_CHARS_MAX and text.isprintable():
        return text
    return derived_id("id", text)


def reasoning_id(reply_id: str) -> str:
    return f"{reply_id}:reasoning"


def child_session_id(parent_session_id: str, agent: str) -> str:
    """`agent` is the agent's own id, else the uuid of its first record; neither is unique in a room."""
    return f"{parent_session_id}:agent-{agent}" if parent_session_id else f"agent-{agent}"


class SourcePath:
    """What the path of a transcript says about it: Windows separators are read as well."""

    def __init__(self, path: str) -> None:
        self._path = PurePosixPath(path.replace("\\", "/"))
        self.stem = self._path.name.removesuffix(".jsonl")

    @property
    def session_uuid(self) -> str:
        """The session that the file is named for, blank when it is named otherwise."""
        return self.stem if _UUID.fullmatch(self.stem) else ""

    @property
    def agent_id(self) -> str:
        """The sub-agent that the file is named for, blank when it is none's."""
        return self.stem.removeprefix("agent-") if self.stem.startswith("agent-") else ""

    @property
    def parent_session_uuid(self) -> str:
        """The session whose folder a sub-agent's file stands in, at whatever depth."""
        folders = reversed(self._path.parts[:-1])
        return next((folder for folder in folders if _UUID.fullmatch(folder)), "")
