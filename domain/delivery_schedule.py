"""When a delivery that failed is tried again, and when it is given up (SPEC L5)."""

from dataclasses import dataclass
from typing import Final

WAITS_S: Final = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The wait before each attempt, the first one immediately: 10 attempts over 75 h 35 m."""
ATTEMPTS_MAX: Final = len(WAITS_S)
REFUSALS_MAX: Final = 3
"""A delta that the destination itself refuses is parked after so many refusals."""
JITTER: Final = 0.1
"""A wait is longer by up to this share, so that lanes that failed together do not come back together."""
RETRY_AFTER_MAX_S: Final = 86_400
"""A destination's wish for a later time is heard up to the longest wait of the schedule."""


@dataclass(frozen=True, slots=True)
class Tries:
    """What the next delta of a lane has met with so far."""

    attempts: int = 0
    """Attempts that the schedule planned and that failed."""
    refusals: int = 0
    """How many of its failures said that the delta itself is at fault."""
    resumes_at: int = 0
    """When the schedule's next attempt is due, in ms, of a lane that was woken before; 0 when it was not."""


@dataclass(frozen=True, slots=True)
class Waits:
    """It is tried again at `due_at`, in ms."""

    tries: Tries
    due_at: int


@dataclass(frozen=True, slots=True)
class Parks:
    """It is given up until an operator decides."""

    tries: Tries


def after_failure(
    tries: Tries,
    *,
    refused: bool,
    now: int,
    chance: float,
    retry_after_s: float | None = None,
    is_redelivery: bool = False,
) -> Waits | Parks:
    """What comes after an attempt that failed at `now`; `chance` is 0 to 1 and decides the jitter.

    A lane that a success of its destination woke early has had one attempt more: if that fails, the lane
    goes back to the time its schedule says, and is not woken again before. A delta that an operator wants
    delivered again had its tries, so one refusal parks it.
    """
    refusals = tries.refusals + refused
    if refused and refusals >= (1 if is_redelivery else REFUSALS_MAX):
        return Parks(Tries(tries.attempts + 1, refusals))
    floor = now + _floor_ms(retry_after_s)
    if tries.resumes_at > now:
        return Waits(Tries(tries.attempts, refusals, tries.resumes_at), max(tries.resumes_at, floor))
    attempts = tries.attempts + 1
    if attempts >= ATTEMPTS_MAX:
        return Parks(Tries(attempts, refusals))
    wait_ms = round(WAITS_S[attempts] * 1_000 * (1 + JITTER * chance))
    return Waits(Tries(attempts, refusals), max(now + wait_ms, floor))


def _floor_ms(retry_after_s: float | None) -> int:
    """What the destination asked for, within reason; nonsense is not heard."""
    if retry_after_s is None or not retry_after_s > 0:
        return 0
    return round(min(retry_after_s, RETRY_AFTER_MAX_S) * 1_000)
