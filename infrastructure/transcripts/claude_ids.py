"""Identities special to Claude Code, and what the path of one of its files says."""

from pathlib import PurePosixPath

from infrastructure.transcripts.ids import UUID_PATTERN


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
        return self.stem if UUID_PATTERN.fullmatch(self.stem) else ""

    @property
    def agent_id(self) -> str:
        """The sub-agent that the file is named for, blank when it is none's."""
        return self.stem.removeprefix("agent-") if self.stem.startswith("agent-") else ""

    @property
    def parent_session_uuid(self) -> str:
        """The session whose folder a sub-agent's file stands in, at whatever depth."""
        folders = reversed(self._path.parts[:-1])
        return next((folder for folder in folders if UUID_PATTERN.fullmatch(folder)), "")
