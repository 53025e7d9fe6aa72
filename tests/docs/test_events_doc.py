"""docs/events.md lists every topic with its facts, their defaults and its content, and nothing else."""

import json
import re
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from domain.event import Event, Reported
from domain.ids import RequestId, RoomId, SessionId, StreamId, TransactionId, TurnId
from domain.interaction import InteractionMoved, InteractionSuperseded
from domain.session import Relating
from domain.subscription import Chosen
from domain.tracked_room import PulledFrom
from domain.work import Source
from infrastructure.store.records import GENESIS, Envelope, seal
from infrastructure.store.topics import KINDS

EVENTS = (Path(__file__).parents[2] / "docs" / "events.md").read_text("utf-8")
SHARED: dict[str, type[Event]] = {
    "reported": Reported,
    "relating": Relating,
    "asked": InteractionMoved,
    "chosen": Chosen,
    "pulled from": PulledFrom,
}
"""The facts that several topics have: the name of their section, and the class they are inherited from."""


def section(name: str) -> str:
    """What stands below a heading of the third level."""
    found = re.findall(rf"^### {re.escape(name)}\n(.*?)(?=^##|\Z)", EVENTS, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"{name} has {len(found)} sections"
    return str(found[0])


def listed(name: str) -> dict[str, str]:
    """The facts in a section's table, with their defaults."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section(name), re.MULTILINE))


def facts(kind: type[Event], but: frozenset[str] = frozenset()) -> dict[str, str]:
    """The facts that a class stores, with their defaults as the page spells them."""
    return {
        to_camel(one.name): "always" if one.default is MISSING else f"`{json.dumps(one.default)}`"
        for one in fields(kind)
        if one.name != "content" and one.name not in but
    }


def names_of(kind: type[Event]) -> frozenset[str]:
    return frozenset(one.name for one in fields(kind))


def shared_by(kind: type[Event]) -> list[str]:
    return [name for name, base in SHARED.items() if issubclass(kind, base)]


def content_of(kind: type[Event]) -> set[str]:
    """The content that a class's docstring names."""
    _, _, said = (kind.__doc__ or "").partition("Content: ")
    return set(re.findall(r"`(\w+)`", said.split(". ")[0]))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TOPIC)
def test_each_topic_is_described_with_all_its_facts_and_no_others(kind: type[Event]) -> None:
    inherited = frozenset[str]().union(*(names_of(SHARED[name]) for name in shared_by(kind)))

    assert listed(kind.TOPIC) == facts(kind, inherited)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TOPIC)
def test_each_topic_is_described_with_its_shape_its_shared_facts_and_its_content(kind: type[Event]) -> None:
    text = section(kind.TOPIC)
    shared = re.search(r"Shared: ([a-z, ]+)\.", text)
    _, _, content = text.partition("Content: ")

    assert f"Shape: {kind.SHAPE}." in text
    assert (shared[1].split(", ") if shared else []) == shared_by(kind)
    assert set(re.findall(r"`(\w+)`", content.split("\n")[0])) == content_of(kind)


@pytest.mark.parametrize("name", SHARED)
def test_each_group_of_shared_facts_is_described(name: str) -> None:
    but = names_of(Reported) if issubclass(SHARED[name], Reported) and name != "reported" else frozenset()

    assert listed(name) == facts(SHARED[name], but)


def test_no_topic_is_described_that_is_not_known() -> None:
    described = re.findall(r"^### (.+)$", EVENTS, re.MULTILINE)

    assert sorted(described) == sorted([*SHARED, *(kind.TOPIC for kind in KINDS)])


def test_each_key_of_the_envelope_is_described() -> None:
    event = InteractionSuperseded(
        turn_id=TurnId("t"), request_id=RequestId("q"), cause="late", content={"all": "there is"}
    )
    envelope = Envelope(
        room=RoomId("r"),
        session=SessionId("s"),
        recorded_at=1,
        transaction=TransactionId("tx"),
        index=0,
        count=2,
        command_id="command",
        actor="somebody",
        source=Source("name"),
    )
    stored = seal(event, envelope, StreamId("stream"), 1, GENESIS, b"salt")
    beside = seal(event, replace(envelope, key="k"), StreamId("other"), 1, GENESIS, b"salt")
    table = EVENTS.split("## How to read it")[1].split("## Shared facts")[0]
    first_cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))

    assert set(re.findall(r"`(\w+)`", first_cells)) == {*json.loads(stored.facts), *json.loads(beside.facts)}
