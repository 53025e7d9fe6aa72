"""Commands that are stored together come to what they come to one by one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from application.ports import Committed, Decide, Decision, Loader
from domain.delta import CommitDelta, CommittedDelta
from domain.errors import Rejected
from domain.ids import RoomId, SessionId
from domain.session import Titled
from domain.work import Work
from infrastructure.store.tables import OPERATIONS
from tests.properties.histories import ROOM, SESSIONS, Step, histories
from tests.properties.playing import SHARED, House, new_url, opened

STORE_ID: Final = "5a1e0000-0000-4000-8000-000000000000"
FEWER = settings(max_examples=max(5, settings().max_examples // 8))


class Kept(Exception):
    """The decision was taken aside, not stored."""


def decision_of(house: House, step: Step) -> Decide | None:
    """What a step asks of the store; None when it is refused before it gets there."""
    taken: list[Decide] = []

    def take(decide: Decide) -> Committed:
        taken.append(decide)
        raise Kept

    with patch.object(house.store, "submit", take):
        try:
            step.take(house.ledger)
        except Kept:
            return taken[0]
        except Rejected:
            return None
    return None


def stale(house: House, session: str) -> Decide:
    """A decision on what is stored now; if somebody comes before it, it is in conflict."""
    made: list[Work] = []

    def look(load: Loader) -> Decision:
        work = Work(RoomId(ROOM), house.clock.now, load.session)
        draft = work.session(SessionId(session))
        if draft.state.opened:
            draft.add(Titled(content={"title": "of one who looked before"}))
        made.append(work)
        return Decision({})

    house.store.submit(look)
    return lambda _: Decision({}, made[0])


def is_unwanted(text: str) -> bool:
    return crc32(text.encode()) % 4 == 0


class Refuses:
    """A host's participant that lets some deltas not be stored."""

    def participate(self, execute: Callable[[str, Sequence[Any]], None], delta: CommitDelta) -> None:
        del execute
        if is_unwanted(f"stored {delta.transaction_id}"):
            raise ValueError("not this one")


@dataclass
class Watched:
    """A house with an observer that does not take every delta."""

    house: House
    seen: list[CommittedDelta] = field(default_factory=list)

    def __call__(self, delta: CommittedDelta) -> None:
        self.seen.append(delta)
        if is_unwanted(f"seen {delta.transaction_id}"):
            raise ValueError("not now")

    def run(self, decides: Sequence[Decide]) -> list[str]:
        done, _ = self.house.store._writer.run(decides)
        self.house.ledger.delivery.notify()
        return [_spelled(one) for one in done]

    def everything(self) -> dict[str, Any]:
        with self.house.store._database.read() as tables:
            return {
                "log": list(tables.log(contents=True)),
                "outbox": tables.outbox(),
                **{table.name: list(tables.rows(table)) for table in OPERATIONS},
            }


def _spelled(done: Committed | BaseException) -> str:
    return repr(done) if isinstance(done, Committed) else f"{type(done).__name__}: {done}"


@contextmanager
def watched(url: str) -> Iterator[Watched]:
    """A house whose every id and salt can be foretold, so that two of them can be compared."""
    with opened(url, participant=Refuses()) as house:
        house.store._database.store_id = STORE_ID
        house.store._writer._salt = lambda: bytes(16)
        watching = Watched(house)
        house.ledger.subscribe(watching, "watching")
        yield watching


def check_batches(kind: str, history: list[Step], sizes: list[int], hasty: list[int]) -> None:
    with (
        new_url(kind) as one_url,
        new_url(kind) as other_url,
        watched(one_url) as together,
        watched(other_url) as apart,
    ):
        while history:
            size = sizes[len(history) % len(sizes)]
            batch, history = history[:size], history[size:]
            for watching in (together, apart):
                watching.house.clock.now += sum(step.moves_ms for step in batch)
            said = together.run(_decides(together.house, batch, hasty))
            said_apart = [
                one for decide in _decides(apart.house, batch, hasty) for one in apart.run([decide])
            ]
            assert said == said_apart, "the answers"
        assert together.seen == apart.seen, "what the observer was handed"
        assert together.everything() == apart.everything()
        assert together.house.store.verify().problems == ()


def _decides(house: House, batch: list[Step], hasty: list[int]) -> list[Decide]:
    decides = []
    for number, step in enumerate(batch):
        if number in hasty:
            decides.append(stale(house, SESSIONS[number % len(SESSIONS)]))
        decide = decision_of(house, replace(step, moves_ms=0))
        if decide is not None:
            decides.append(decide)
    return decides


BATCHES = (
    histories(),
    st.lists(st.integers(2, 12), min_size=1, max_size=3),
    st.lists(st.integers(0, 11), max_size=2),
)


@given(*BATCHES)
def test_a_batch_comes_to_what_its_commands_come_to_one_by_one(
    history: list[Step], sizes: list[int], hasty: list[int]
) -> None:
    check_batches("memory", history, sizes, hasty)


@pytest.mark.parametrize("kind", SHARED)
@FEWER
@given(*BATCHES)
def test_a_batch_comes_to_the_same_on_disk(
    kind: str, history: list[Step], sizes: list[int], hasty: list[int]
) -> None:
    check_batches(kind, history, sizes, hasty)
