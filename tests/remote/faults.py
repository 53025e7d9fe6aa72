"""How the reference remote fails: rules that pick calls, and what happens to them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.remote.hosted import Step


@dataclass(frozen=True)
class Call:
    """A call that the remote got."""

    number: int
    """Over all calls, from 1."""
    at_ms: int
    route: str
    """`agents` or `messages`."""
    prefix: str
    room: str
    session: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def after(self) -> int:
        return int(self.query.get("after_version", "0") or 0)

    @property
    def limit(self) -> int:
        return int(self.query.get("limit", "100") or 100)


@dataclass
class Rule:
    """Picks calls: by route, room and session, then by their number among these, or by lot."""

    step: Step
    seen: int = 0

    def picks(self, call: Call) -> bool:
        """Whether this call fails; counts it if it is one of those that the rule is about."""
        if any(
            name in self.step and self.step[name] != getattr(call, name)
            for name in ("route", "room", "session")
        ):
            return False
        # A page that would reach a version is picked whatever its limit, so that bisecting finds the row.
        if "covers" in self.step and not call.after < self.step["covers"] <= call.after + call.limit:
            return False
        self.seen += 1
        if "calls" in self.step:
            return bool(self.seen in self.step["calls"])
        if "share" in self.step:
            lot = random.Random(f"{self.step.get('seed', 0)} {self.seen}")
            return bool(lot.random() < self.step["share"])
        return True


@dataclass
class Faults:
    """The rules in force; the first that picks a call decides."""

    rules: list[Rule] = field(default_factory=list)

    def take(self, step: Step) -> bool:
        """Do a step; False for one that is about something else."""
        match step["do"]:
            case "fail":
                self.rules.append(Rule(step))
            case "heal":
                self.rules.clear()
            case _:
                return False
        return True

    def of(self, call: Call) -> Mapping[str, Any] | None:
        """What happens to a call instead of a good answer."""
        picked = [rule.step for rule in self.rules if rule.picks(call)]
        return picked[0] if picked else None
