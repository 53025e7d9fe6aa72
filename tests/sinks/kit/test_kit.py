"""What every sink does with a worker before it and a store behind: the same cases for all of them."""

import asyncio

import pytest

from tests.sinks.kit import cases_arriving, cases_dying, cases_failing, cases_operating, cases_refusing
from tests.sinks.kit.cases import CASES
from tests.sinks.kit.conftest import Kit

TOLD_IN = (cases_arriving, cases_failing, cases_refusing, cases_dying, cases_operating)


@pytest.mark.parametrize("name", CASES)
def test_sink(kit: Kit, name: str) -> None:
    """The case of this name, told by the function of this name."""
    told, needs = CASES[name]

    async def run() -> None:
        async with kit.house() as house:
            if not needs <= house.bench.faults:
                pytest.skip(
                    f"{kit.sink} cannot be told to be {', '.join(sorted(needs - house.bench.faults))}"
                )
            await told(house)

    asyncio.run(run())


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 30
