"""How one claimed lane is delivered: which parcel is next, and what its receipt comes to."""

from dataclasses import replace

from application.lanes import NEVER, Claim, Due, Mark, Parking, Release
from application.sinks import Parcel, Receipt, Trouble
from domain.delivery_schedule import Parks, Tries, after_failure
from domain.ids import Position
from domain.subscription import OnParked


class LaneRun:
    """The deltas of one claim, one after the other, until one fails or all have arrived."""

    def __init__(self, claim: Claim, owner: str, on_parked: OnParked) -> None:
        self._claim = claim
        self._owner = owner
        self._on_parked = on_parked
        self._left = list(reversed(claim.due))
        self._tries = claim.tries
        self._gap = claim.gap

    @property
    def next(self) -> Due | None:
        """What is to be delivered next; None when all has arrived."""
        return self._left[-1] if self._left else None

    def parcel(self) -> Parcel:
        """The next delta, as its destination gets it."""
        due = self._left[-1]
        return Parcel(
            subscription=self._claim.lease.subscription,
            committed=due.committed,
            attempt=self._tries.attempts + 1,
            redelivery=due.redelivery,
            gap=0 if due.redelivery else self._gap + due.gap,
        )

    def arrived(self) -> Mark:
        """The destination has the parcel."""
        due = self._left.pop()
        self._tries = Tries()
        if due.redelivery:
            again = (due.committed.last_position,)
            return Mark(self._claim.lease, gap=self._gap, redelivered=again)
        self._gap = 0
        return Mark(self._claim.lease, due.committed.last_position, is_passing=self._claim.is_passing)

    def failed(self, receipt: Receipt, now: int, chance: float) -> Mark | Parking:
        """The parcel did not arrive: its lane waits, or the delta is given up; this run is over."""
        due = self._left[-1]
        after = after_failure(
            self._tries,
            refused=receipt.trouble is Trouble.MESSAGE,
            now=now,
            chance=chance,
            retry_after_s=receipt.retry_after_s,
            is_redelivery=due.redelivery > 0,
        )
        if not isinstance(after, Parks):
            return self._released(Release(after.due_at, after.tries, receipt.reason or "failed"))
        is_redelivery = due.redelivery > 0
        stops = self._on_parked == "stop" and not is_redelivery
        return Parking(
            lease=self._claim.lease,
            owner=self._owner,
            position=due.committed.last_position,
            attempts=after.tries.attempts,
            error=receipt.reason or "failed",
            is_redelivery=is_redelivery,
            gap=self._gap if is_redelivery else self._gap + due.gap + 1,
            due_at=NEVER if stops else now,
            now=now,
        )

    def left(self, now: int) -> Mark:
        """Give the lane back with what is left of it, such as when the worker stops."""
        return self._released(Release(now, self._tries))

    def done(self, now: int) -> Mark:
        """Give the lane back when all has arrived; what was passed over is finished as well."""
        claim = self._claim
        mark = self._released(Release(now))
        return replace(
            mark,
            position=max(claim.through, Position(1)),
            gap=self._gap + claim.gap_after,
            is_passing=claim.is_passing,
        )

    def _released(self, release: Release) -> Mark:
        return Mark(self._claim.lease, gap=self._gap, release=release)


def merged(earlier: Mark, later: Mark) -> Mark:
    """Two marks of one lease as one: what came later holds, what was delivered adds up."""
    return replace(
        later,
        position=max(earlier.position, later.position),
        redelivered=earlier.redelivered + later.redelivered,
        is_passing=earlier.is_passing or later.is_passing,
        release=later.release or earlier.release,
        gap=later.gap if _tells(later) else earlier.gap,
        tries=later.tries if _tells(later) else earlier.tries,
    )


def _tells(mark: Mark) -> bool:
    """Whether it does more than keep the lease."""
    return bool(mark.position or mark.redelivered or mark.release)
