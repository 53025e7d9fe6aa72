"""What the reference remote serves: rooms of sessions and messages, told in steps.

A step is a JSON object, so that it can stand on a command line, go over the control route, or be taken by a
copy of the record inside a test, which then knows what the remote has.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

Step = Mapping[str, Any]

BEGINNING_MS: Final = 1_710_000_000_000
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 500


@dataclass
class HostedMessage:
    """A message as it is now."""

    sequence: int
    version: int
    row: dict[str, Any]
    """Its fields by their names in camelCase."""
    raw: str | None = None
    """A text that stands in the place of the row."""


@dataclass
class HostedSession:
    """A session with its messages."""

    row: dict[str, Any]
    messages: dict[str, HostedMessage] = field(default_factory=dict)
    head: int = 0
    """The last message version."""
    claim: dict[str, Any] = field(default_factory=dict)
    """What its pages say beside the rows, true or not."""
    is_endless: bool = False
    _by_version: list[tuple[int, str]] = field(default_factory=list)
    """Every version there ever was, lowest first; outdated ones are passed over."""

    def put(self, name: str, fields: Mapping[str, Any], raw: str | None = None) -> None:
        """Add a message or change it, at a version of its own."""
        self.head += 1
        known = self.messages.get(name)
        sequence = known.sequence if known else len(self.messages) + 1
        at = BEGINNING_MS + self.head * 1000
        row = {
            **(known.row if known else {"role": "assistant", "kind": "text", "occurredAtUnixMs": at}),
            **fields,
        }
        row |= {"createdAtUnixMs": BEGINNING_MS + sequence * 1000, "updatedAtUnixMs": at}
        self.messages[name] = HostedMessage(sequence, self.head, row, raw)
        self._by_version.append((self.head, name))
        self.row["updatedAtUnixMs"] = at

    def above(self, version: int) -> Iterator[tuple[str, HostedMessage]]:
        """Messages above a version, lowest first."""
        for number, name in self._by_version[bisect_right(self._by_version, (version, "\U0010ffff")) :]:
            message = self.messages[name]
            if message.version == number:
                yield name, message


@dataclass
class HostedRoom:
    """A room of the remote."""

    sessions: dict[str, HostedSession] = field(default_factory=dict)
    epoch: int = 1
    names: str = "camel"
    """Or `snake`."""
    numbers: str = "number"
    """Or `text`."""
    home: str = ""
    """What a service of our own says of itself; the ancestor says neither this nor an epoch."""

    def page(self, head: Mapping[str, Any], rows_name: str, rows: list[str]) -> str:
        """A page whose rows are spelled already."""
        members = self.spelled(head)[1:-1]
        return f'{{{members + ", " if members else ""}"{rows_name}": [{", ".join(rows)}]}}'

    def spelled(self, fields: Mapping[str, Any]) -> str:
        """An object as this room spells its names and numbers; what people wrote is left alone."""
        return json.dumps({self._name(name): self._value(value) for name, value in fields.items()})

    def _name(self, name: str) -> str:
        return re.sub("([A-Z])", r"_\1", name).lower() if self.names == "snake" else name

    def _value(self, value: Any) -> Any:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if is_number and self.numbers == "text" else value


@dataclass
class Hosted:
    """The whole record of a remote."""

    rooms: dict[str, HostedRoom] = field(default_factory=dict)
    # Changes.

    def take(self, step: Step) -> bool:
        """Do a step; False for one that changes no record."""
        match step["do"]:
            case "fill":
                self._fill(step)
            case "session":
                self._session(step).row.update(step.get("fields", {}))
            case "message":
                self._session(step).put(step["message"], step.get("fields", {}), step.get("raw"))
            case "claim":
                self._session(step).claim = dict(step["claim"])
            case "endless":
                self._session(step).is_endless = True
            case "remove":
                del self.rooms[step["room"]].sessions[step["session"]]
            case "reset":
                room = self.rooms[step["room"]]
                self.rooms[step["room"]] = replace(room, sessions={}, epoch=room.epoch + 1)
            case "speak":
                self._speak(step)
            case _:
                return False
        return True

    def _speak(self, step: Step) -> None:
        room = self.rooms.setdefault(step["room"], HostedRoom())
        room.names = step.get("names", room.names)
        room.numbers = step.get("numbers", room.numbers)
        room.home = step.get("home", room.home)

    def _session(self, step: Step) -> HostedSession:
        room = self.rooms.setdefault(step["room"], HostedRoom())
        name = step["session"]
        if name not in room.sessions:
            room.sessions[name] = HostedSession(_session_row(name, len(room.sessions)))
        return room.sessions[name]

    def _fill(self, step: Step) -> None:
        """`sessions` sessions of `messages` messages each, in turns of ten."""
        self.rooms.setdefault(step["room"], HostedRoom())
        for number in range(1, step["sessions"] + 1):
            session = self._session({"room": step["room"], "session": f"session-{number}"})
            for place in range(1, step["messages"] + 1):
                session.put(f"message-{place}", _message_fields(number, place))

    # Pages.

    def agents(self, room: str) -> str | None:
        """The list of a room's sessions; None for an unknown room."""
        if (hosted := self.rooms.get(room)) is None:
            return None
        extra = {"home": hosted.home, "epoch": str(hosted.epoch)} if hosted.home else {}
        rows = [
            hosted.spelled({"agentSessionId": name, **session.row, **extra})
            for name, session in hosted.sessions.items()
        ]
        return hosted.page({"presences": []}, "sessions", rows)

    def messages(self, room: str, session: str, after: int, limit: int) -> str | None:
        """A page of messages; None for an unknown session."""
        hosted = self.rooms.get(room)
        told = hosted.sessions.get(session) if hosted else None
        if hosted is None or told is None:
            return None
        limit = min(limit, LIMIT_MAX)
        while told.is_endless and told.head < after + limit + 1:
            told.put(f"message-{told.head + 1}", _message_fields(1, told.head + 1))
        found = list(islice(told.above(after), limit + 1))
        head: dict[str, Any] = {"latestVersion": told.head, "hasMore": len(found) > limit}
        if hosted.home:
            head |= {"epoch": str(hosted.epoch), "home": hosted.home}
        rows = [_message_row(hosted, session, name, message) for name, message in found[:limit]]
        return hosted.page(head | told.claim, "messages", rows)


def _message_row(room: HostedRoom, session: str, name: str, message: HostedMessage) -> str:
    if message.raw is not None:
        return message.raw.replace("VERSION", str(message.version))
    own = {"id": message.sequence, "agentSessionId": session, "messageId": name}
    return room.spelled({**own, "version": message.version, **message.row})


def _session_row(name: str, place: int) -> dict[str, Any]:
    at = BEGINNING_MS + place
    return {
        "id": place + 1,
        "agentTargetId": "target",
        "deviceId": "device",
        "presenceId": "",
        "userId": "user",
        "provider": "codex",
        "providerSessionId": f"provider-{name}",
        "sessionOrigin": "WORKSPACE_AGENT_SESSION_ORIGIN_RUNTIME",
        "cwd": "/work",
        "status": "idle",
        "lifecycleStatus": "active",
        "turnPhase": "settled",
        "title": f"About {name}",
        "startedAtUnixMs": at,
        "endedAtUnixMs": 0,
        "createdAtUnixMs": at,
        "updatedAtUnixMs": at,
    }


_KINDS: Final = ("text", "reasoning", "tool_call", "text")


def _message_fields(session: int, place: int) -> dict[str, Any]:
    """A message of a filled session, which is a function of its place."""
    is_prompt = place % 10 == 1
    kind = "text" if is_prompt else _KINDS[place % len(_KINDS)]
    payload: dict[str, Any] = {"text": f"What message {place} of session {session} says."}
    if kind == "tool_call":
        payload = {"toolName": "shell", "input": {"command": f"make {place}"}, "output": {"stdout": "done"}}
    return {
        "turnId": f"turn-{(place - 1) // 10 + 1}",
        "role": "user" if is_prompt else "tool" if kind == "tool_call" else "assistant",
        "kind": kind,
        "status": "completed",
        "payload": payload,
    }
