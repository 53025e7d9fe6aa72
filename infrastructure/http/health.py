"""Whether the service is alive, and whether it is ready: named checks, each with its answer.

A check is asked once at a time. One that does not answer in time is unknown, and the next question waits
for the same answer, so that a store that hangs is not asked more and more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from domain.errors import RepriseError

CHECK_TIMEOUT_S: Final = 2.0
HEARTBEAT_S_MAX: Final = 30.0
"""Seconds without a sign after which a background worker counts as stuck."""

Status = Literal["ok", "failing", "unknown"]


class Failing(RepriseError):
    """A check found what it looks for not to be well; the text says what."""


@dataclass(frozen=True, slots=True)
class Check:
    """Something the service cannot do without; `ask` says how it is, or raises."""

    name: str
    ask: Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a check."""

    name: str
    status: Status
    detail: str


@dataclass
class Readiness:
    """Whether requests should come here."""

    checks: Sequence[Check]
    is_stopping: bool = False
    timeout_s: float = CHECK_TIMEOUT_S
    _asking: dict[str, asyncio.Task[str]] = field(default_factory=dict)

    async def ask(self) -> tuple[bool, dict[str, Any]]:
        """Whether it is ready, and the answer of each check."""
        answers = await asyncio.gather(*map(self._answer, self.checks))
        is_ready = not self.is_stopping and all(one.status == "ok" for one in answers)
        status = "stopping" if self.is_stopping else "ready" if is_ready else "not ready"
        checks = [{"name": one.name, "status": one.status, "detail": one.detail} for one in answers]
        return is_ready, {"status": status, "checks": checks}

    async def _answer(self, check: Check) -> Answer:
        task = self._asking.get(check.name)
        if task is None:
            task = self._asking[check.name] = asyncio.ensure_future(_asked(check))
        try:
            async with asyncio.timeout(self.timeout_s):
                detail = await asyncio.shield(task)
        except TimeoutError:
            return Answer(check.name, "unknown", f"no answer within {self.timeout_s:g} s")
        except RepriseError as error:
            # A store's text may name places, which are for the log.
            detail = str(error) if isinstance(error, Failing) else type(error).__name__
            return Answer(check.name, "failing", detail)
        finally:
            if task.done():
                self._asking.pop(check.name, None)
        return Answer(check.name, "ok", detail)

    async def close(self) -> None:
        """Wait for nothing any more."""
        for task in self._asking.values():
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)


async def _asked(check: Check) -> str:
    return await check.ask()
