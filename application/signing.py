"""The secrets that webhooks are signed with: one per subscription, and its predecessors for a while.

Events name a secret by its fingerprint, which tells it from others and nothing else.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, Protocol

PREFIX: Final = "whsec_"
"""As Standard Webhooks has it."""
SECRET_BYTES: Final = 32
"""Of the 24 to 64 that Standard Webhooks allows."""
FINGERPRINT_LENGTH: Final = 12
ROTATION_S: Final = 24 * 60 * 60
"""How long a replaced secret goes on signing beside the new one, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as its receiver has it."""

    value: str = field(repr=False)
    valid_until: int = 0
    """Unix milliseconds; 0 for the current one."""

    def signs(self, now: int) -> bool:
        return not self.valid_until or now < self.valid_until


Change = Callable[[Sequence[Secret]], Sequence[Secret]]


class SigningSecrets(Protocol):
    """Where secrets are kept: in no event, no list, no log and no export."""

    def of(self, subscription: str) -> Sequence[Secret]:
        """The secrets of a subscription by its name, the current one first; none when it has none."""

    def change(self, subscription: str, change: Change) -> None:
        """Keep what `change` makes of them, in one transaction; what it leaves out is destroyed."""


def create(secrets: SigningSecrets, subscription: str, random: bytes) -> str:
    """Give a subscription its first secret, unless it has one; the text is for its receiver."""
    made = Secret(spelled(random))
    secrets.change(subscription, lambda kept: kept or [made])
    return secrets.of(subscription)[0].value


def rotate(
    secrets: SigningSecrets, subscription: str, random: bytes, now: int, keep_s: int = ROTATION_S
) -> str:
    """Give a subscription another secret; what signed until now goes on for `keep_s` seconds at the most."""
    value = spelled(random)
    end = now + keep_s * 1_000

    def change(kept: Sequence[Secret]) -> Sequence[Secret]:
        older = (replace(one, valid_until=min(one.valid_until or end, end)) for one in kept)
        return [Secret(value), *(one for one in older if one.signs(now))]

    secrets.change(subscription, change)
    return value


def forget(secrets: SigningSecrets, subscription: str) -> None:
    """Destroy the secrets of a subscription."""
    secrets.change(subscription, lambda _: [])


def fingerprint(value: str) -> str:
    """What events and lists call a secret; blank for none."""
    return "sha256:" + sha256(value.encode()).hexdigest()[:FINGERPRINT_LENGTH] if value else ""


def spelled(random: bytes) -> str:
    """Random bytes as Standard Webhooks spells a secret."""
    assert 24 <= len(random) <= 64, "Standard Webhooks wants 24 to 64 random bytes"
    return PREFIX + b64encode(random).decode()
