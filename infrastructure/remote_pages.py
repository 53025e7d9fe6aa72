"""Reads the pages of remotes: a bad row spoils no page, and keeps the bytes it came in.

(SPEC P4, WIRE "Message list", "Agents list")
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from application.remote import LENIENT, AgentsPage, BadRow, MessagesPage, RemoteMessage, RemoteSession
from domain.reports import Flag, Id, Integer

Json = Any


class NotAPage(Exception):
    """The body is not the expected object; its text says what it is instead."""


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands beside the rows."""

    __pydantic_config__: ClassVar[ConfigDict] = LENIENT

    latest_version: Integer = 0
    has_more: Flag = False
    epoch: Id = ""
    home: Id = ""


_HEAD: Final = TypeAdapter(_Head)
_SESSION: Final = TypeAdapter(RemoteSession)
_MESSAGE: Final = TypeAdapter(RemoteMessage)
_VERSION: Final = TypeAdapter[int](Integer)


def read_agents(body: bytes) -> AgentsPage:
    """The sessions of a room; raises NotAPage."""
    members, rows = _page(body, "sessions")
    head = _head(members)
    return AgentsPage(tuple(_session(row) for row in rows), head.epoch, head.home)


def read_messages(body: bytes) -> MessagesPage:
    """A page of messages; raises NotAPage."""
    members, rows = _page(body, "messages")
    head = _head(members)
    return MessagesPage(
        tuple(_message(row) for row in rows), head.latest_version, head.has_more, head.epoch, head.home
    )


def _session(row: "_Row") -> RemoteSession | BadRow:
    session = _row(row, _SESSION)
    if isinstance(session, RemoteSession) and not session.id:
        return row.bad("agentSessionId: expected an id")
    return session


def _message(row: "_Row") -> RemoteMessage | BadRow:
    message = _row(row, _MESSAGE)
    if isinstance(message, RemoteMessage) and not message.message_id:
        return row.bad("messageId: expected an id")
    if isinstance(message, RemoteMessage) and message.version < 1:
        return row.bad("version: expected an integer of at least 1")
    return message


def _head(members: Mapping[str, Json]) -> _Head:
    try:
        return _HEAD.validate_python(_without_nulls(members))
    except ValidationError as error:
        raise NotAPage(_reason(error)) from None


_Known = TypeVar("_Known", RemoteSession, RemoteMessage)


def _row(row: "_Row", shape: TypeAdapter[_Known]) -> _Known | BadRow:
    """A row by its shape, or why it cannot be read."""
    if row.is_damaged:
        return row.bad("not UTF-8")
    if not isinstance(row.value, dict):
        return row.bad("expected an object")
    try:
        return shape.validate_python(_without_nulls(row.value))
    except ValidationError as error:
        return row.bad(_reason(error))


def _without_nulls(members: Mapping[str, Json]) -> dict[str, Json]:
    """A name that stands with null says nothing, so its other spelling may."""
    return {name: value for name, value in members.items() if value is not None}


def _reason(error: ValidationError) -> str:
    """The first mistake: which field, and what was expected; never the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    cause = first.get("ctx", {}).get("error")
    return f"{where}: {cause if cause is not None else first['msg']}"


# From bytes to members and rows. The JSON is taken apart here one row at a time, so that a bad row can be
# kept as it came.


class _Row(NamedTuple):
    """One element of the list of rows."""

    number: int
    value: Json
    raw: bytes
    is_damaged: bool
    """Whether its bytes are no UTF-8."""

    def bad(self, reason: str) -> BadRow:
        return BadRow(self.number, self.raw, reason, self._version())

    def _version(self) -> int | None:
        """The version, if at least that can be read."""
        if not isinstance(self.value, dict):
            return None
        try:
            version = _VERSION.validate_python(self.value.get("version"))
        except ValidationError:
            return None
        return version if version >= 1 else None


_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DAMAGE: Final = re.compile("[\udc80-\udcff]")
"""What `surrogateescape` makes of bytes that are no UTF-8; JSON's own escapes are still spelled out here."""
_value_at: Final = json.JSONDecoder(strict=False).raw_decode


def _page(body: bytes, rows_name: str) -> tuple[dict[str, Json], list[_Row]]:
    """The members of the page, and its rows; a list that is null is empty."""
    reader = _Reader(body.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
    members: dict[str, Json] = {}
    rows: list[_Row] | None = None
    try:
        for name in reader.names():
            if name == rows_name and reader.next() == "[":
                rows = list(reader.rows())
            else:
                members[name] = reader.value()
    except (ValueError, RecursionError):
        raise NotAPage(f"the reply is no JSON object ({len(body)} bytes)") from None
    if rows is None and members.get(rows_name, "") is None:
        rows = []
    if rows is None:
        raise NotAPage(f"the reply has no list {rows_name!r}")
    return members, rows


class _Reader:
    """Walks a JSON text from one value to the next; raises ValueError where it is none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self) -> str:
        """The next character that is not white space; blank at the end."""
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()
        return self._text[self._at : self._at + 1]

    def value(self) -> Json:
        self.next()
        value, self._at = _value_at(self._text, self._at)
        return value

    def names(self) -> Iterator[str]:
        """The names of the whole text's object; their values are read in between."""
        for _ in self._items("{", "}"):
            name = self.value()
            if not isinstance(name, str):
                raise ValueError("a name is no text")
            self._expect(":")
            yield name
        if self.next():
            raise ValueError("there is more behind the object")

    def rows(self) -> Iterator[_Row]:
        """The elements of a list."""
        for index in self._items("[", "]"):
            self.next()
            begin = self._at
            value = self.value()
            raw = self._text[begin : self._at]
            yield _Row(index, value, raw.encode("utf-8", "surrogateescape"), bool(_DAMAGE.search(raw)))

    def _items(self, opening: str, closing: str) -> Iterator[int]:
        """The number of each item of a list or an object, whose text is read in between."""
        self._expect(opening)
        if self._take(closing):
            return
        for number in itertools.count():
            yield number
            if self._take(closing):
                return
            self._expect(",")

    def _take(self, character: str) -> bool:
        if self.next() != character:
            return False
        self._at += 1
        return True

    def _expect(self, character: str) -> None:
        if not self._take(character):
            raise ValueError(f"expected {character}")
