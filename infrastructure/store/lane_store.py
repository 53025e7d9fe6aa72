"""The lanes that the delivery worker sees: claims with their deltas, marks, and rows for operators."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Final, Protocol, TypeVar

from application.lanes import Choice, Claim, Delivered, Due, Lease, Mark, Want
from domain.delivery_schedule import Tries
from domain.ids import Position
from domain.subscription import Filter
from infrastructure.store.lane_tables import ASKED_MAX, Aside, Claimed, LaneTables, lease_of
from infrastructure.store.tables import RUNS_MAX, OutboxRow, Tables, TransactionLost
from infrastructure.store.writer import committed_delta

TAIL_ROWS: Final = 500
"""Rows of the outbox that lanes are told of with one claim."""
LANE_ROWS: Final = 20
"""Rows of one lane that are claimed at once; more would let other lanes wait longer."""

T = TypeVar("T")


class LaneDatabase(Protocol):
    """A place that keeps lanes."""

    def operate(self) -> AbstractContextManager[LaneTables]:
        """One transaction on the lanes beside those of the writer.

        It is whole or not there, but a crash of the machine may lose the newest ones.
        """

    def read(self) -> AbstractContextManager[Tables]: ...


class LaneStore:
    """application.lanes.Lanes over a database."""

    def __init__(self, database: LaneDatabase) -> None:
        self._database = database

    def claim(self, wants: Sequence[Want], owner: str, now: int, until: int) -> Sequence[Claim]:
        due = self._with_something_due(wants, now)
        return self._operate(
            lambda lanes: [claim for want in due for claim in _claim(lanes, want, owner, now, until)]
        )

    def _with_something_due(self, wants: Sequence[Want], now: int) -> list[Want]:
        """Looks before it takes the lock, since mostly there is nothing to do."""
        with self._database.read() as tables:
            lanes = tables.lanes
            return [want for want in wants if lanes.has_new(want.name) or lanes.has_due(want.name, now)]

    def settle(
        self, marks: Sequence[Mark], owner: str, now: int, until: int, wake: Collection[str] = ()
    ) -> Sequence[Lease]:
        def settle(lanes: LaneTables) -> Sequence[Lease]:
            lost = lanes.settle(marks, owner, now, until)
            for name in sorted(wake):
                lanes.wake(name, now)
            return lost

        return self._operate(settle)

    def mend(self, names: Sequence[str], now: int) -> None:
        def mend(lanes: LaneTables) -> None:
            for name in names:
                lanes.mend(name, now)

        self._operate(mend)

    def next_due(self, names: Sequence[str], now: int) -> int | None:
        with self._database.read() as tables:
            found = [tables.lanes.next_due(name, now) for name in names]
        return min((at for at in found if at is not None), default=None)

    def trim(self, recorded_before: int, limit: int) -> int:
        def trim(lanes: LaneTables) -> int:
            lanes.hold_trim()
            unfinished = lanes.first_unfinished()
            old = list(
                takewhile(
                    lambda row: row[1] < recorded_before and (unfinished is None or row[0] < unfinished),
                    lanes.oldest(limit),
                )
            )
            if old:
                lanes.trim(old[-1][0])
            return len(old)

        return self._operate(trim)

    def deliveries(
        self, name: str, filter_: Filter, choice: Choice, now: int, after: Position, limit: int
    ) -> Sequence[Delivered]:
        found: list[Delivered] = []
        while len(found) < limit:
            with self._database.read() as tables:
                page = tables.lanes.standing(name, choice, now, after, limit)
            found += [one for one in page if filter_.wants(one.committed.delta)]
            if len(page) < limit:
                break
            after = page[-1].committed.last_position
        return found[:limit]

    def _operate(self, work: Callable[[LaneTables], T]) -> T:
        for _ in range(RUNS_MAX - 1):
            try:
                with self._database.operate() as lanes:
                    return work(lanes)
            except TransactionLost:
                continue
        with self._database.operate() as lanes:
            return work(lanes)


def _claim(lanes: LaneTables, want: Want, owner: str, now: int, until: int) -> list[Claim]:
    _tail(lanes, want, now)
    claimed = lanes.claim(want.name, owner, now, until, want.lanes)
    if not claimed:
        return []
    asides = lanes.asides_of(want.name, [lane.room for lane in claimed])
    by_room: dict[str, list[Aside]] = {}
    for aside in asides:
        by_room.setdefault(aside.room, []).append(aside)
    asked = [aside.position for aside in asides if aside.state == "asked"]
    again = lanes.rows_at(asked) if asked else {}
    rows = lanes.rows_of(want.name, claimed, LANE_ROWS)
    return [
        _claim_of(want, lane, found, by_room.get(lane.room, []), again)
        for lane, found in zip(claimed, rows, strict=True)
    ]


def _tail(lanes: LaneTables, want: Want, now: int) -> None:
    """Let the lanes know what was committed."""
    seen = lanes.seen(want.name)
    if seen is None:
        return
    lasts: dict[str, int] = {}
    last = seen
    if want.filter.entity_kinds:
        for row in lanes.rows_behind(seen, TAIL_ROWS):
            last = row.last_position
            if want.filter.wants(committed_delta(row).delta):
                lasts[row.room] = last
    else:
        for last, room in lanes.rooms_behind(seen, TAIL_ROWS):
            if want.filter.wants_room(room):
                lasts[room] = last
    if last > seen:
        lanes.open(want.name, lasts, last, now)


def _claim_of(
    want: Want,
    lane: Claimed,
    rows: Sequence[OutboxRow],
    asides: Sequence[Aside],
    again: dict[int, OutboxRow],
) -> Claim:
    """What there is to deliver in a lane: first what is wanted again, then what comes next in order."""
    asked = {one.position: one for one in asides if one.state == "asked" and one.position in again}
    skipped = {one.position for one in asides if one.state == "skipping"}
    due = [
        Due(committed_delta(again[position]), asked[position].redelivery)
        for position in sorted(asked)[:ASKED_MAX]
    ]
    gap = passed = 0
    for row in rows:
        committed = committed_delta(row)
        if row.last_position in skipped:
            gap, passed = gap + 1, passed + 1
        elif want.filter.wants(committed.delta):
            due.append(Due(committed, gap=gap))
            gap = 0
    return Claim(
        lease=lease_of(want.name, lane),
        due=tuple(due),
        through=rows[-1].last_position if len(rows) == LANE_ROWS else Position(lane.target),
        tries=Tries(lane.attempts, lane.refusals, lane.resumes_at),
        gap=lane.gap,
        gap_after=gap,
        is_passing=passed > 0,
    )
