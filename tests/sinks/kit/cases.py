"""The cases of the kit: each is told once, and run over every sink and both databases."""

from collections.abc import Awaitable, Callable

from application.lanes import State
from tests.sinks.kit.bench import Fault
from tests.sinks.kit.house import House

PENDING, CLAIMED, WAITING = State.PENDING, State.CLAIMED, State.WAITING
DELIVERED, PARKED, SKIPPED = State.DELIVERED, State.PARKED, State.SKIPPED
Case = Callable[[House], Awaitable[None]]
CASES: dict[str, tuple[Case, frozenset[Fault]]] = {}
"""By name: the case, and what its destination must be able to do."""


def case(*needs: Fault) -> Callable[[Case], Case]:
    """A case of the kit, and what its destination must be able to do."""

    def add(told: Case) -> Case:
        CASES[told.__name__] = (told, frozenset(needs))
        return told

    return add
