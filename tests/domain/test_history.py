"""What the history of a session tells, and how it shows that nobody has changed it."""

from dataclasses import replace

import pytest

from infrastructure.store.event_store import EventStore
from infrastructure.store.memory import MemoryDatabase
from tests.domain.story import Story, update


def database(story: Story) -> MemoryDatabase:
    assert isinstance(story.ledger.store, EventStore)
    database = story.ledger.store._database
    assert isinstance(database, MemoryDatabase)
    return database


def test_the_history_keeps_every_event_with_its_place(story: Story) -> None:
    """A3: Each event has its position, its stream version and its transaction, without a hole."""
    story.turn("t1", "running")
    story.say(update("m1", "x"))
    story.turn("t1", "completed")

    events = story.events()

    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert [event.position for event in events] == list(range(1, len(events) + 1))
    assert all(event.transaction and event.recorded_at == story.clock.now for event in events)


def test_verify_reads_everything_and_finds_nothing(story: Story) -> None:
    """A3: Streams, heads, content, outbox and read models fit together."""
    story.turn("t1", "running")
    story.say(update("m1", "x"))
    story.ask("r1")

    found = story.ledger.verify()

    assert (found.ok, found.streams, found.events) == (True, 1, story.count())
    assert found.outbox == len(list(story.ledger.deltas()))


def test_verify_names_the_first_event_that_was_changed(story: Story) -> None:
    """A3: Changed facts do not fit the hash, and the event is named by its place."""
    story.turn("t1", "running")
    records = database(story)._data.records
    stored = records[1]
    records[1] = replace(stored, facts=stored.facts.replace(b"running", b"waiting"))
    assert records[1] != stored

    found = story.ledger.verify()

    records[1] = stored
    assert not found.ok
    assert "hash" in found.problems[0].what


def test_facts_and_content_are_apart(story: Story) -> None:
    """A3: The hashed facts carry a salted commitment to the content, and none of the content."""
    story.report(title="secret-title", cwd="/secret-path")

    for stored in database(story)._data.records:
        assert b"secret" not in stored.facts


@pytest.mark.parametrize("also_restored", [False, True])
def test_a_purge_keeps_a_history_that_verifies(also_restored: bool, story: Story) -> None:
    """A3: When the content is destroyed the facts remain, and their hashes still hold."""
    story.report(title="secret")
    if also_restored:
        story.delete()
        story.restore()

    story.purge()

    assert story.ledger.verify().ok
    titled = next(event for event in story.events() if event.topic == "session.titled")
    assert (titled.is_erased, titled.event.content) == (True, None)


def test_a_purge_leaves_facts_and_no_content(story: Story) -> None:
    """A4: After a purge no row, no event and no delta holds what was said; the facts are all there."""
    story.report(title="secret title", cwd="/secret", settings={"secret": 1})
    story.turn("t1", "running")
    story.say(update("m1", "secret text"))
    story.ask("r1", input={"secret": 1})
    story.answer("r1", {"secret": 1})
    topics = story.topics()

    story.purge()

    assert story.topics()[: len(topics)] == topics
    assert "secret" not in repr(database(story)._data.contents)
    assert "secret" not in repr(database(story)._data.models)
    assert "secret" not in repr([event.event for event in story.events()])
