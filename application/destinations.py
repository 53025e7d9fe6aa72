"""Destinations with what belongs to them: a target that is checked, a secret to sign with, a trial."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from application import signing
from application.dry_run import decides_only
from application.ports import Clock
from application.signing import Change, Secret, SigningSecrets
from application.sinks import Parcel, Receipt, Sink
from application.subscriptions import Subscriptions
from domain.aggregate import Held
from domain.delta import CommitDelta, CommittedDelta, Mutation
from domain.errors import Outdated, Rejected
from domain.ids import Position, named_id
from domain.subscription import Added, Subscription

SIGNED: Final = frozenset(("webhook",))
"""Kinds of destination that are signed for."""
TRIAL_ROOM: Final = "reprise-test"
TRIAL_SESSION: Final = "reprise-test"
"""What a trial names; nobody's session is called so."""


@dataclass(frozen=True)
class Destinations:
    """The subscriptions of a store, and their secrets."""

    subscriptions: Subscriptions
    secrets: SigningSecrets
    clock: Clock
    random: Callable[[int], bytes]
    check: Callable[[str, str], str]
    """The usual spelling of a kind's target; raises what it has to say against it."""
    sink_of: Callable[[Subscription], Sink]
    """Opens what leads to a destination."""

    def add(
        self, added: Added, *, after: int | None = None, actor: str = ""
    ) -> tuple[Held[Subscription], str]:
        """Begin a subscription; it, and its secret for its receiver, blank where nothing is signed.

        Raises what `check` and `Subscriptions.add` raise. A subscription whose process dies before its
        secret is kept delivers nothing until it is rotated.
        """
        target = self.check(added.kind, added.target)
        secret = ""
        if added.kind in SIGNED:
            kept = self.secrets.of(added.name)
            secret = kept[0].value if kept else signing.spelled(self.random(signing.SECRET_BYTES))
        named = replace(added, target=target, secret_ref=signing.fingerprint(secret))
        held = self.subscriptions.add(named, after=after, actor=actor)
        if secret:
            self.secrets.change(added.name, lambda kept: kept or [Secret(secret)])
        return held, secret

    def rotate(
        self,
        name: str,
        keep_s: int = signing.ROTATION_S,
        *,
        actor: str = "",
        if_version: int | None = None,
    ) -> str:
        """Give a subscription another secret, and let the old one go on for so many seconds; the new one.

        Raises NotFound, and Rejected for a destination that is not signed for. A process that dies in
        between has rotated the secret and told no event: rotate again.
        """
        held = self.subscriptions.show(name)
        if if_version is not None and if_version != held.version:
            raise Outdated(f"subscription {name}", if_version, held.version)
        state = held.state
        if state.kind not in SIGNED:
            detail = f"nothing is signed for a {state.kind}; only a webhook has a secret"
            raise Rejected("invalid", "subscription", name, detail)
        now = self.clock.now_ms()
        secret = signing.rotate(self.secrets, name, self.random(signing.SECRET_BYTES), now, keep_s)
        until = now + keep_s * 1_000 if keep_s else 0
        self.subscriptions.rotate(name, signing.fingerprint(secret), until, actor=actor)
        return secret

    def remove(self, name: str, *, actor: str = "", if_version: int | None = None) -> None:
        """End a subscription and destroy its secrets."""
        self.subscriptions.remove(name, actor=actor, if_version=if_version)
        signing.forget(self.secrets, name)

    def tried(self) -> "Destinations":
        """The same, but what is done to them is only decided, and changes nothing."""
        subscriptions = replace(self.subscriptions, store=decides_only(self.subscriptions.store))
        return replace(self, subscriptions=subscriptions, secrets=_Untouched(self.secrets))

    async def test(self, state: Subscription) -> Receipt:
        """Send a subscription a delta that is in no store, and wait for what becomes of it."""
        sink = self.sink_of(state)
        try:
            return await sink.send(Parcel(state.name, trial(state, self.random(16), self.clock.now_ms())))
        finally:
            await sink.close()


class _Untouched:
    """Secrets that are looked at and stay."""

    def __init__(self, secrets: SigningSecrets) -> None:
        self.of = secrets.of

    def change(self, subscription: str, change: Change) -> None:
        """Nothing changes."""


def trial(state: Subscription, random: bytes, now: int) -> CommittedDelta:
    """A delta to try a destination with: of a session that nobody has, at position 0, where no commit is."""
    transaction = named_id("trial", random.hex())
    room = next(iter(sorted(state.rooms)), TRIAL_ROOM)
    mutation = Mutation(
        mutation_id=f"{transaction}:1",
        workspace_id=room,
        agent_session_id=TRIAL_SESSION,
        entity_kind="session",
        entity_id=TRIAL_SESSION,
        operation="upsert",
        version=0,
    )
    delta = CommitDelta(transaction_id=transaction, workspace_id=room, mutations=(mutation,))
    return CommittedDelta(delta, Position(0), Position(0), now)
