"""The secrets that webhooks are signed with: one per subscription, and its predecessors for a while."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

PREFIX: Final = "whsec_"
"""As Standard Webhooks has it."""
SECRET_BYTES: Final = 32
"""Of the 24 to 64 that Standard Webhooks allows."""
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

    def of(self, ref: str) -> Sequence[Secret]:
        """The secrets of a subscription, the current one first; none when it has none."""

    def change(self, ref: str, change: Change) -> None:
        """Keep what `change` makes of them, in one transaction; what it leaves out is destroyed."""


def create(secrets: SigningSecrets, ref: str, random: bytes) -> str:
    """Give a subscription its first secret, in place of any other; the text is for its receiver."""
    value = _spelled(random)
    secrets.change(ref, lambda _: [Secret(value)])
    return value


def rotate(secrets: SigningSecrets, ref: str, random: bytes, now: int, keep_s: int = ROTATION_S) -> str:
    """Give a subscription another secret; what signed until now goes on for `keep_s` seconds at the most."""
    value = _spelled(random)
    end = now + keep_s * 1_000

    def change(kept: Sequence[Secret]) -> Sequence[Secret]:
        older = (replace(one, valid_until=min(one.valid_until or end, end)) for one in kept)
        return [Secret(value), *(one for one in older if one.signs(now))]

    secrets.change(ref, change)
    return value


def forget(secrets: SigningSecrets, ref: str) -> None:
    """Destroy the secrets of a subscription."""
    secrets.change(ref, lambda _: [])


def _spelled(random: bytes) -> str:
    assert 24 <= len(random) <= 64, "Standard Webhooks wants 24 to 64 random bytes"
    return PREFIX + b64encode(random).decode()
