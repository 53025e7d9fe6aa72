"""What the outcome of a call means for waits and breakers: which rules to ask, of which aggregates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from application.pull_calls import Call, Step
from application.pull_rooms import HostPulls
from domain.backoff import BACKOFF, BackoffEvent, RoomBackoff, Trouble, fail, host_recovered, succeed
from domain.backoff_policy import BackoffPolicy
from domain.breaker import (
    BREAKER,
    SERVICE_BREAKER,
    BreakerEvent,
    BreakerPolicy,
    HostBreaker,
    Suspicion,
    is_of_the_host,
    open_breaker,
    probe_answered,
    probe_failed,
)

NO_STEPS: Final[Sequence[Step]] = ()


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Judges outcomes by the policies of a process."""

    waits: BackoffPolicy | None
    breakers: BreakerPolicy | None
    seed: str

    def answered(self, call: Call, host: HostPulls, backoff: RoomBackoff | None, now: int) -> Sequence[Step]:
        """The remote answered: it is not suspected, a probe closes the breaker, and the lane has no wait."""
        host.suspicion = Suspicion()
        steps = [self._close(call, now)] if call.is_probe else []
        if backoff and call.lane in backoff.waits:
            steps.append(Step(BACKOFF, call.room, lambda state: succeed(state, call.lane)))
        return steps

    def failed(
        self, call: Call, host: HostPulls, trouble: Trouble, now: int, *, has_progressed: bool
    ) -> Sequence[Step]:
        """The call brought nothing, or no more; the lane pays, or the host, or nobody."""
        if call.is_probe:
            return self._probe_failed(call, trouble, now)
        if self.breakers is None or not is_of_the_host(trouble):
            if trouble.status or has_progressed:
                host.suspicion = Suspicion()
            return self._charge(call, trouble, now, has_progressed=has_progressed)
        if host.breaker.is_open:
            return NO_STEPS
        if has_progressed:
            host.suspicion = Suspicion()
        host.suspicion = host.suspicion.failed(call.room, now)
        if not host.suspicion.is_enough(self.breakers):
            return self._charge(call, trouble, now, has_progressed=has_progressed)
        policy, since, seed = self.breakers, host.suspicion.since, self.seed

        def opens(state: HostBreaker) -> Sequence[BreakerEvent]:
            return open_breaker(state, since, trouble, policy, now, seed=seed)

        return [Step(BREAKER, call.host, opens)]

    def _probe_failed(self, call: Call, trouble: Trouble, now: int) -> Sequence[Step]:
        """A probe's failure charges the breaker and no lane; a refusal is an answer, and the room's own."""
        if trouble.status and not is_of_the_host(trouble):
            return [self._close(call, now), *self._charge(call, trouble, now)]
        policy, seed = self.breakers or SERVICE_BREAKER, self.seed

        def stays_open(state: HostBreaker) -> Sequence[BreakerEvent]:
            return probe_failed(state, call.probe, trouble, policy, now, seed=seed)

        return [Step(BREAKER, call.host, stays_open)]

    def _close(self, call: Call, now: int) -> Step:
        policy = self.breakers or SERVICE_BREAKER
        return Step(BREAKER, call.host, lambda state: probe_answered(state, call.probe, policy, now))

    def _charge(
        self, call: Call, trouble: Trouble, now: int, *, has_progressed: bool = False
    ) -> Sequence[Step]:
        policy, seed = self.waits, self.seed
        if policy is None or trouble.is_canceled:
            return NO_STEPS

        def charges(state: RoomBackoff) -> Sequence[BackoffEvent]:
            return fail(state, call.lane, trouble, policy, now, seed=seed, has_progressed=has_progressed)

        return [Step(BACKOFF, call.room, charges)]


def taken_back(breaker: HostBreaker, backoffs: Sequence[RoomBackoff]) -> Sequence[Step]:
    """What a closed breaker leaves to do: the waits that its outage cost are cleared."""
    since, closed_at = breaker.since, breaker.closed_at
    return [
        Step(BACKOFF, backoff.room, lambda state: host_recovered(state, since, closed_at))
        for backoff in backoffs
        if host_recovered(backoff, since, closed_at)
    ]
