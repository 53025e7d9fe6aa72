"""Lanes in memory: what the statements of `lane_tables` do, over dictionaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol

from application.lanes import NEVER, UNFINISHED, Choice, Delivered, Mark, Parking, State
from domain.errors import Trimmed
from domain.ids import Position
from infrastructure.store.lane_tables import CLOCK_SKEW_MAX_MS, Aside, Claimed, LaneTables, moved
from infrastructure.store.tables import ASIDES, LANES, SUBSCRIPTIONS, TRIMS, OutboxRow, Row, Table
from infrastructure.store.writer import committed_delta

NEW_LANE: Final = (0, 0, 0, 0, "", 0, 0, 0, 0)
"""What a lane has behind its first columns when nobody has delivered it yet."""
_OPEN_ASIDES: Final = ("asked", "skipping")


class MemoryRows(Protocol):
    """The rows of one transaction in memory."""

    def get(self, table: Table, *keys: Any) -> Row | None: ...

    def put(self, table: Table, row: Row) -> None: ...

    def remove(self, table: Table, keys: Row) -> None: ...

    def rows(self, table: Table) -> Any: ...

    def outbox(self, after: int = 0, limit: int = 1_000) -> Sequence[OutboxRow]: ...

    def outbox_at(self, position: int) -> OutboxRow | None: ...

    def remove_outbox(self, position: int) -> None: ...


@dataclass(frozen=True, slots=True)
class _Lane:
    """A row of LANES."""

    name: str
    room: str
    position: int
    attempts: int
    error: str
    at: int
    target: int
    due_at: int
    refusals: int
    resumes_at: int
    owner: str
    token: int
    until: int
    gap: int
    asked: int

    @property
    def is_open(self) -> bool:
        return self.target > self.position or self.asked > 0


_FIELDS: Final = tuple(field.name for field in fields(_Lane))
_EVERYTHING: Final = 2**62


class MemoryLanes(LaneTables):
    """One transaction on the lanes."""

    def __init__(self, tables: MemoryRows) -> None:
        self._tables = tables

    def _lane(self, name: str, room: str) -> _Lane | None:
        row = self._tables.get(LANES, name, room)
        return _Lane(*row) if row else None

    def _lanes(self, name: str) -> list[_Lane]:
        return [_Lane(*row) for row in self._tables.rows(LANES) if row[0] == name]

    def _put(self, lane: _Lane) -> None:
        self._tables.put(LANES, tuple(getattr(lane, name) for name in _FIELDS))

    # Subscriptions.

    def begin(self, name: str, after: Position) -> None:
        if after < (trimmed := self.hold_trim()):
            raise Trimmed(after, trimmed)
        self.end(name)
        self._tables.put(SUBSCRIPTIONS, (name, after, after))

    def end(self, name: str) -> None:
        for table in (SUBSCRIPTIONS, LANES, ASIDES):
            for row in list(self._tables.rows(table)):
                if row[0] == name:
                    self._tables.remove(table, row[: table.keys])

    # What is new.

    def seen(self, name: str) -> int | None:
        row = self._tables.get(SUBSCRIPTIONS, name)
        return row[2] if row else None

    def has_new(self, name: str) -> bool:
        seen = self.seen(name)
        return seen is not None and bool(self._tables.outbox(seen, 1))

    def rooms_behind(self, position: int, limit: int) -> list[Row]:
        return [(row.last_position, row.room) for row in self._tables.outbox(position, limit)]

    def rows_behind(self, position: int, limit: int) -> list[OutboxRow]:
        return list(self._tables.outbox(position, limit))

    def open(self, name: str, lasts: Mapping[str, int], seen: int, now: int) -> None:
        for room, last in lasts.items():
            lane = self._lane(name, room) or _Lane(name, room, 0, 0, "", now, *NEW_LANE)
            is_set = lane.is_open or lane.until > now or lane.due_at >= NEVER
            due_at = lane.due_at if is_set else now
            self._put(replace(lane, target=max(lane.target, last), due_at=due_at))
        row = self._tables.get(SUBSCRIPTIONS, name)
        assert row is not None, "who asked how far it has seen is there"
        self._tables.put(SUBSCRIPTIONS, (*row[:2], seen))

    # Leases.

    def has_due(self, name: str, now: int) -> bool:
        return any(lane.is_open and lane.due_at <= now for lane in self._lanes(name))

    def next_due(self, name: str, now: int) -> int | None:
        due = [lane.due_at for lane in self._lanes(name) if lane.is_open and now < lane.due_at < NEVER]
        return min(due, default=None)

    def claim(self, name: str, owner: str, now: int, until: int, limit: int) -> list[Claimed]:
        due = sorted(
            (lane for lane in self._lanes(name) if lane.is_open and lane.due_at <= now),
            key=lambda lane: lane.due_at,
        )[:limit]
        for lane in due:
            self._put(replace(lane, owner=owner, token=lane.token + 1, until=until, due_at=until))
        return [
            Claimed(
                lane.room,
                lane.position,
                lane.target,
                lane.token + 1,
                lane.attempts,
                lane.refusals,
                lane.resumes_at,
                lane.gap,
            )
            for lane in due
        ]

    def mend(self, name: str, now: int) -> None:
        far = now + CLOCK_SKEW_MAX_MS
        for lane in self._lanes(name):
            is_far = lane.is_open and far < lane.due_at < NEVER
            if is_far and (lane.until > far or not lane.attempts):
                self._put(replace(lane, due_at=now))

    def rows_of(self, name: str, lanes: Sequence[Claimed], limit: int) -> list[list[OutboxRow]]:
        row = self._tables.get(SUBSCRIPTIONS, name)
        after = row[1] if row else _EVERYTHING
        rows = self._tables.outbox(after, _EVERYTHING)
        return [
            [
                one
                for one in rows
                if one.room == lane.room and lane.position < one.last_position <= lane.target
            ][:limit]
            for lane in lanes
        ]

    def asides_of(self, name: str, rooms: Sequence[str]) -> list[Aside]:
        return [
            Aside(row[2], row[1], row[3], row[7])
            for row in self._tables.rows(ASIDES)
            if row[0] == name and row[2] in rooms and row[3] in _OPEN_ASIDES
        ]

    def rows_at(self, positions: Sequence[int]) -> dict[int, OutboxRow]:
        found = {position: self._tables.outbox_at(position) for position in positions}
        return {position: row for position, row in found.items() if row}

    # Marks.

    def _held(self, mark: Mark, owner: str) -> _Lane | None:
        lane = self._lane(mark.lease.subscription, mark.lease.room)
        return lane if lane and (lane.token, lane.owner) == (mark.lease.token, owner) else None

    def _extend(self, marks: Sequence[Mark], owner: str, until: int) -> list[list[Row]]:
        found: list[list[Row]] = []
        for mark in marks:
            if lane := self._held(mark, owner):
                self._put(replace(lane, until=until, due_at=until))
            found.append([(1,)] if lane else [])
        return found

    def _move(self, marks: Sequence[Mark], owner: str, now: int, until: int) -> list[list[Row]]:
        found: list[list[Row]] = []
        for mark in marks:
            if lane := self._held(mark, owner):
                position, gap, attempts, refusals, resumes_at, error, at, *rest = moved(
                    mark, owner, now, until
                )
                kept_by, until_then, due_at, asked, *_ = rest
                self._put(
                    replace(
                        lane,
                        position=max(lane.position, position),
                        gap=gap,
                        attempts=attempts,
                        refusals=refusals,
                        resumes_at=resumes_at,
                        error=error,
                        at=at,
                        owner=kept_by,
                        until=until_then,
                        due_at=due_at,
                        asked=max(lane.asked - asked, 0),
                    )
                )
            found.append([(1,)] if lane else [])
        return found

    def _redelivered(self, rows: Sequence[tuple[str, int]], now: int) -> None:
        for name, position in rows:
            if row := self._tables.get(ASIDES, name, position):
                self._tables.put(ASIDES, (*row[:3], "delivered", row[4], "", now, row[7]))

    def _pass(self, marks: Sequence[Mark], now: int) -> None:
        for mark in marks:
            for row in list(self._tables.rows(ASIDES)):
                is_meant = (row[0], row[2], row[3]) == (mark.lease.subscription, mark.lease.room, "skipping")
                if is_meant and row[1] <= mark.position:
                    self._tables.put(ASIDES, (*row[:3], "skipped", *row[4:6], now, row[7]))

    def wake(self, name: str, now: int) -> None:
        for lane in self._lanes(name):
            is_waiting = lane.is_open and now < lane.due_at < NEVER and lane.until <= now and lane.at < now
            if is_waiting and lane.attempts and not lane.refusals and lane.resumes_at <= now:
                self._put(replace(lane, resumes_at=lane.due_at, due_at=now))

    # Rows that leave their lane's order.

    def _park(self, parking: Parking, position: int) -> bool:
        lane = self._held(Mark(parking.lease), parking.owner)
        if lane is None:
            return False
        self._put(
            replace(
                lane,
                position=max(lane.position, position),
                gap=parking.gap,
                attempts=0,
                refusals=0,
                resumes_at=0,
                error=parking.error,
                at=parking.now,
                owner="",
                until=0,
                due_at=parking.due_at,
                asked=max(lane.asked - int(parking.is_redelivery), 0),
            )
        )
        return True

    def _put_aside(
        self, name: str, position: int, room: str, state: str, attempts: int, error: str, now: int
    ) -> None:
        row = self._tables.get(ASIDES, name, position)
        redelivery = row[7] if row else 0
        self._tables.put(ASIDES, (name, position, room, state, attempts, error, now, redelivery))

    def _count_redelivery(self, name: str, position: int) -> None:
        row = self._tables.get(ASIDES, name, position)
        assert row is not None, "it was put a moment ago"
        self._tables.put(ASIDES, (*row[:7], row[7] + 1))

    def _free(self, name: str, room: str, now: int, *, asked: int = 0) -> None:
        if lane := self._lane(name, room):
            freed = replace(
                lane, owner="", until=0, token=lane.token + 1, attempts=0, refusals=0, resumes_at=0
            )
            self._put(replace(freed, due_at=now, asked=max(lane.asked + asked, 0)))

    # What is kept.

    def trimmed(self) -> int:
        row = self._tables.get(TRIMS, "outbox")
        assert row is not None, "it is there from the start"
        return int(row[1])

    def hold_trim(self) -> int:
        return self.trimmed()

    def _unfinished(self, name: str, after: int, seen: int) -> list[int | None]:
        is_observer = seen < 0
        for row in self._tables.outbox(after, _EVERYTHING):
            lane, aside = self._lane(name, row.room), self._tables.get(ASIDES, name, row.last_position)
            is_asked = aside is not None and aside[3] == "asked"
            position = lane.position if lane else 0
            target = _EVERYTHING if is_observer else lane.target if lane else 0
            is_left = position < row.last_position <= target or (not is_observer and row.last_position > seen)
            if is_asked or is_left:
                return [row.last_position]
        return []

    def first_unfinished(self) -> int | None:
        rows = self._tables.rows(SUBSCRIPTIONS)
        found = [position for row in rows for position in self._unfinished(*row) if position is not None]
        return min(found, default=None)

    def oldest(self, limit: int) -> list[Row]:
        return [(row.last_position, row.recorded_at) for row in self._tables.outbox(0, limit)]

    def trim(self, position: int) -> None:
        for row in self._tables.outbox(0, _EVERYTHING):
            if row.last_position <= position:
                self._tables.remove_outbox(row.last_position)
        for aside in list(self._tables.rows(ASIDES)):
            if aside[1] <= position:
                self._tables.remove(ASIDES, aside[:2])
        self._tables.put(TRIMS, ("outbox", position))

    # Looking.

    def standing(self, name: str, choice: Choice, now: int, after: int, limit: int) -> list[Delivered]:
        subscription = self._tables.get(SUBSCRIPTIONS, name)
        if subscription is None:
            return []
        rows = self._tables.outbox(max(after, subscription[1]), _EVERYTHING)
        found = (self._standing(name, row, now) for row in rows)
        return [one for one in found if _is_chosen(choice, one)][:limit]

    def _standing(self, name: str, row: OutboxRow, now: int) -> Delivered:
        lane = self._lane(name, row.room) or _Lane(name, row.room, 0, 0, "", 0, *NEW_LANE)
        aside = self._tables.get(ASIDES, name, row.last_position)
        state = _state(lane, aside, row.last_position, now)
        is_open = state in UNFINISHED
        attempts, error = (
            (lane.attempts, lane.error) if is_open else (aside[4], aside[5]) if aside else (0, "")
        )
        return Delivered(
            subscription=name,
            committed=committed_delta(row),
            state=state,
            attempts=attempts,
            due_at=lane.due_at if state == State.WAITING else 0,
            error=error,
            redelivery=aside[7] if aside else 0,
            owner=lane.owner if state == State.CLAIMED else "",
        )


def _state(lane: _Lane, aside: Row | None, position: int, now: int) -> State:
    if aside and aside[3] != "asked":
        return State.SKIPPED if aside[3] == "skipping" else State(aside[3])
    if aside is None and position <= lane.position:
        return State.DELIVERED
    is_known = aside is not None or position <= lane.target
    if is_known and lane.until > now:
        return State.CLAIMED
    return State.WAITING if is_known and lane.due_at > now else State.PENDING


def _is_chosen(choice: Choice, one: Delivered) -> bool:
    return (
        choice.room in ("", one.committed.room)
        and one.committed.recorded_at >= choice.since
        and (not choice.states or one.state in choice.states)
        and (not choice.transactions or one.committed.transaction_id in choice.transactions)
    )
