"""How long to wait: the arithmetic of waits, and the two profiles that are used (SPEC B1, B2, B5, B6).

Lengths are seconds, instants are Unix milliseconds.
"""

from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import Final

CLOCK_SET_BACK_MS: Final = 60_000
"""A clock that stands further than this before the beginning of a wait was set back in between."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A wait, taken apart; each part is stored, so that nobody has to compute it again."""

    step_s: float
    """What the policy says; the next step grows from it."""
    retry_after_s: float
    """What the remote asked for, as far as it counts; 0 when it did not."""
    jitter_s: float
    """What chance added on top."""

    @property
    def total_s(self) -> float:
        """How long to wait at least."""
        return max(self.step_s, self.retry_after_s) + self.jitter_s

    def until(self, now: int) -> int:
        """When it is over: never earlier than its length, though milliseconds are whole."""
        return now + ceil(round(self.total_s * 1_000, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffPolicy:
    """How waits grow, and what else counts. Raises ValueError for lengths that make no sense."""

    initial_s: float
    maximum_s: float = 0.0
    """0: the initial wait is the longest, too."""
    multiplier: float = 2.0
    """Below 1 counts as 1: a wait never shrinks."""
    jitter: float = 0.0
    """The share of a wait that chance may add at most, 0 to 1; behind the cap, and never taken off."""
    retry_after_max_s: float = 0.0
    """The most of a Retry-After that is heeded; 0: it is not."""
    refusals_max: int = 0
    """So many permanent answers in a row park a lane; 0: they change nothing."""
    parked_s: float = 3_600.0
    """How often a parked lane is tried."""
    forgives_progress: bool = False
    """Whether a round that stored something before it failed starts the escalation over."""

    def __post_init__(self) -> None:
        _positive("initial_s", self.initial_s)
        _length("maximum_s", self.maximum_s)
        _length("multiplier", self.multiplier)
        _length("jitter", self.jitter)
        _length("retry_after_max_s", self.retry_after_max_s)
        _positive("parked_s", self.parked_s)
        if self.jitter > 1:
            raise ValueError(f"jitter is a share from 0 to 1, not {self.jitter}")
        if self.refusals_max < 0:
            raise ValueError(f"refusals_max counts answers, so it is not {self.refusals_max}")

    @property
    def cap_s(self) -> float:
        """The longest step."""
        return self.maximum_s or self.initial_s

    @property
    def longest_s(self) -> float:
        """No wait after a failure is longer, whatever the remote asks for and chance adds."""
        return max(self.cap_s, self.retry_after_max_s) + self.cap_s * self.jitter

    def next(self, last_s: float) -> float:
        """The step behind a step; behind 0, the first one."""
        if last_s <= 0:
            return min(self.initial_s, self.cap_s)
        return min(last_s * max(self.multiplier, 1.0), self.cap_s)

    def delay(self, step_s: float, retry_after_s: float | None, drawn: float) -> Delay:
        """The wait for a step; `drawn` is from 0 up to but not including 1.

        Jitter is a share of the wait, of the cap at most: an hour that the remote asked for is not
        stretched by a quarter of an hour.
        """
        asked_s = self.heeded(retry_after_s)
        jitter_s = floor(self.jitter * drawn * min(max(step_s, asked_s), self.cap_s) * 1_000) / 1_000
        return Delay(step_s, asked_s, jitter_s)

    def heeded(self, retry_after_s: float | None) -> float:
        """As much of a Retry-After as counts (SPEC B6); what is no length of time counts as not said."""
        if retry_after_s is None or not isfinite(retry_after_s) or retry_after_s <= 0:
            return 0.0
        return min(retry_after_s, self.retry_after_max_s)


def _length(name: str, value: float) -> None:
    if not isfinite(value) or value < 0:
        raise ValueError(f"{name} has to be a number from 0 up, not {value}")


def _positive(name: str, value: float) -> None:
    _length(name, value)
    if not value:
        raise ValueError(f"{name} has to be more than 0; to wait not at all, give no policy")


def has_ended(began: int, until: int, now: int) -> bool:
    """Whether a wait is over, at the very instant on which it ends too.

    A clock that was set back would stretch it, by an hour perhaps. A wait that seems to begin in the future
    is over: one try too early tells what is true today.
    """
    return now >= until or now < began - CLOCK_SET_BACK_MS


SEED_POLICY: Final = BackoffPolicy(initial_s=10.0, maximum_s=300.0)
"""Exactly as the ancestor waits: 10, 20, 40, 80, 160, 300, 300 … s and nothing else (SPEC B2)."""

SERVICE_POLICY: Final = BackoffPolicy(
    initial_s=10.0,
    maximum_s=300.0,
    jitter=0.25,
    retry_after_max_s=3_600.0,
    refusals_max=3,
    forgives_progress=True,
)
"""What the service does unless it is told otherwise."""
