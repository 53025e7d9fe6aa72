"""What every stored event is: small facts kept for ever, and content that can be erased."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

Content = Mapping[str, Any]
"""What people or agents wrote. None in its place: not read, or erased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. Its topic and the names of its fields are stored for ever.

    A field that holds its default is left out of the stored facts, so a default is part of the shape.
    """

    TOPIC: ClassVar[str]
    SHAPE: ClassVar[int] = 1

    content: Content | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Event):
    """An event that a report made; `occurred_at` is the report's own time in ms, 0 when unknown."""

    occurred_at: int = 0


def seen_at(occurred_at: int, recorded_at: int) -> int:
    """The time that counts in comparisons: nobody reports from the future (SPEC R4); 0 when unknown."""
    return min(occurred_at, recorded_at)


def is_older(occurred_at: int, recorded_at: int, than: int) -> bool:
    """Whether a report lies before a stored time; an unknown time counts as newest (SPEC R4)."""
    return occurred_at > 0 and min(occurred_at, recorded_at) < than


def earliest(stored: int, given: int) -> int:
    """The earlier of two times, 0 meaning unknown."""
    return min(stored, given) if stored and given else stored or given
