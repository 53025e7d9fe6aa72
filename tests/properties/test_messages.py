"""Messages: a reader misses nothing, and what has ended stays as its end left it."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from application.views import MessageView
from domain import jsontext
from domain.event import seen_at
from domain.message import Message, MessageAdded, MessageChanged, MessageExtended
from domain.vocabulary import MESSAGE_TERMINAL, message_status_of
from tests.properties.histories import ROOM, SESSIONS, Step, histories
from tests.properties.playing import Happened, House, opened
from tests.properties.spellings import joined, json_texts, json_values


class Reader:
    """Polls a session's messages page by page, and keeps the latest it saw of each."""

    def __init__(self, house: House, session: str) -> None:
        self.house = house
        self.session = session
        self.cursor = 0
        self.seen: dict[str, MessageView] = {}

    def poll(self, limit: int) -> bool:
        """Read one page; whether there was any news."""
        if self.house.ledger.session(ROOM, self.session) is None:
            return False
        page = self.house.ledger.messages(ROOM, self.session, after=self.cursor, limit=limit)
        versions = [message.version for message in page.messages]
        assert versions == sorted(set(versions))
        assert all(version > self.cursor for version in versions)
        assert page.latest_version == max(versions, default=self.cursor)
        self.seen |= {message.message_id: message for message in page.messages}
        self.cursor = page.latest_version
        return bool(versions)


@given(histories(), st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_a_reader_ends_with_every_messages_latest_state(history: list[Step], limits: list[int]) -> None:
    with opened() as house:
        readers = [Reader(house, name) for name in SESSIONS]
        for index, step in enumerate(history):
            house.attempt(step)
            if limit := limits[index % len(limits)]:
                assert all(isinstance(reader.poll(limit), bool) for reader in readers)
        for reader in readers:
            while reader.poll(1):
                pass
            if house.ledger.session(ROOM, reader.session):
                stored = house.messages(reader.session)
                assert reader.seen == {message.message_id: message for message in stored}


@given(histories())
def test_message_versions_go_up_and_are_never_given_twice(history: list[Step]) -> None:
    """The events of one change share its version, and nothing else does."""
    with opened() as house:
        house.play(history)
        for name in SESSIONS:
            last, owner = 0, ("", "")
            for stored in house.ledger.events(ROOM, name):
                event = stored.event
                if isinstance(event, MessageAdded | MessageExtended | MessageChanged):
                    change = (stored.transaction, event.message_id)
                    assert event.version > last or (event.version == last and change == owner)
                    last, owner = event.version, change


# What has ended (SPEC M5, M7).


def ends_later(update: Mapping[str, Any], message: Message, at: int) -> bool:
    """Whether an update may replace what stands: it ends the message again, and happened later."""
    status = message_status_of(update.get("status", ""))
    names = ("occurredAtUnixMs", "startedAtUnixMs", "completedAtUnixMs")
    occurred_at = next((update[name] for name in names if update.get(name)), 0)
    is_later = not occurred_at or seen_at(occurred_at, at) > message.newest_at
    return status in MESSAGE_TERMINAL and is_later


def check_kept(before: Mapping[str, Any], after: Mapping[str, Any], *, may_grow: bool) -> None:
    """Everything that stood still stands; only the text may have got longer at its end."""
    for key, value in before.items():
        if isinstance(value, dict) and isinstance(after[key], dict):
            check_kept(value, after[key], may_grow=False)
        elif key == "text" and may_grow and isinstance(value, str):
            assert jsontext.join_halves(after[key]).startswith(value.removesuffix("\ud83d"))
        else:
            assert jsontext.same(after[key], value)


def payloads(house: House) -> dict[tuple[str, ...], Any]:
    """What every message says."""
    return {(name, one.message_id): one.payload for name in SESSIONS for one in house.messages(name)}


def check_ended(happened: Happened, said: Mapping[Any, Any], now: Mapping[Any, Any]) -> None:
    for key, message in happened.before.messages.items():
        if not message.is_terminal or key not in happened.after.messages:
            continue
        later = happened.after.messages[key]
        assert later.is_terminal
        mine = [one for one in happened.step.updates if one["messageId"] == key[1]]
        if any(ends_later(one, message, happened.at) for one in mine):
            continue
        assert (later.status, later.role, later.kind) == (message.status, message.role, message.kind)
        appends = any(one.get("contentDelta") and one.get("contentOffset") is not None for one in mine)
        check_kept(said[key], now[key], may_grow=appends)


@given(histories())
def test_a_message_that_has_ended_changes_only_by_a_later_end_or_at_its_own_end(history: list[Step]) -> None:
    with opened() as house:
        said: dict[tuple[str, ...], Any] = {}
        for happened in house.live(history):
            now = payloads(house)
            check_ended(happened, said, now)
            said = now


# What was said comes back (SPEC X1).


@given(st.dictionaries(json_texts, json_values, max_size=4))
def test_any_payload_comes_back_as_it_was_sent(payload: dict[str, Any]) -> None:
    turn = {"turnId": "t1", "phase": "running"}
    message = {"messageId": "m", "turnId": "t1", "role": "assistant", "kind": "text", "payload": payload}
    with opened() as house:
        house.ledger.report_state({"state": {"turn": turn, "messages": [message]}}, room=ROOM, session="root")
        stored = house.messages("root")[0].payload
        assert jsontext.to_bytes(stored) == jsontext.to_bytes(joined(payload))
        assert house.ledger.verify().ok
