"""Takes secrets out of a transcript before anything of it is stored.

What is found is replaced by a mark that names its kind. What a text becomes depends on the text alone (and
the key it stands under), so a transcript that is imported while it grows ends as one that is imported once.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from application.transcript import Entry, Interaction, Json, KeptRecord, Message, Session, Transcript, TurnEnd

Find = Callable[[str], Iterable[tuple[str, str]]]
"""The secrets in a text, each with its kind."""

_CANDIDATE: Final = re.compile(r"[\w\-+/=.:@~%]{16}")
"""Whatever is a secret has so many characters without a blank; a text without them is not looked at."""
_TELLING_KEY: Final = re.compile(r"key|secret|token|passw|pwd|auth|credential", re.IGNORECASE)
"""Keys of JSON that say what their value is: they are looked at together."""


def marked(kind: str) -> str:
    """What stands in a secret's place."""
    return f"[redacted: {kind}]"


@dataclass
class Redactor:
    """Takes secrets out of transcripts, and counts what it took."""

    find: Find
    counts: Counter[str] = field(default_factory=Counter)

    def transcript(self, told: Transcript) -> Transcript:
        return replace(told, sessions=tuple(self._session(session) for session in told.sessions))

    def _session(self, told: Session) -> Session:
        entries = tuple(self._entry(entry) for entry in told.entries)
        return replace(told, entries=entries, title=self.text(told.title))

    def _entry(self, entry: Entry) -> Entry:
        match entry:
            case Message():
                payload = self._value(entry.payload)
                return entry if payload is entry.payload else replace(entry, payload=payload)
            case Interaction():
                return replace(entry, input=self._value(entry.input), output=self._value(entry.output))
            case KeptRecord():
                return replace(entry, raw=self._bytes(entry.raw))
            case TurnEnd() if entry.error_message:
                return replace(entry, error_message=self.text(entry.error_message))
            case _:
                return entry

    def text(self, text: str, key: str = "") -> str:
        if len(text) < 16 or not _CANDIDATE.search(text):
            return text
        context = f'{key}: "{text}"' if _TELLING_KEY.search(key) else text
        found = {secret: kind for kind, secret in self.find(context) if secret in text}
        for secret in sorted(found, key=lambda secret: (-len(secret), secret)):
            self.counts[found[secret]] += text.count(secret)
            text = text.replace(secret, marked(found[secret]))
        return text

    def _value(self, value: Json, key: str = "") -> Any:
        """The value itself where nothing is to be taken out of it."""
        if isinstance(value, str):
            return self.text(value, key)
        if isinstance(value, Mapping):
            after = {name: self._value(item, name) for name, item in value.items()}
            return value if all(after[name] is value[name] for name in after) else after
        if isinstance(value, list):
            items = [self._value(item, key) for item in value]
            return value if all(one is other for one, other in zip(items, value, strict=True)) else items
        return value

    def _bytes(self, raw: bytes) -> bytes:
        text = raw.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")


@lru_cache(maxsize=1)
def known_secrets() -> Find:
    """The detector of Kingfisher, without its network: about a third of a second, more the first time."""
    from kingfisher_sdk import Rules, Scanner
    from platformdirs import user_cache_path

    rules = Rules(cache_dir=user_cache_path("reprise", appauthor=False) / "rules")
    scanner = Scanner(rules, base64=False)

    def find(text: str) -> Iterable[tuple[str, str]]:
        # It reads bytes; what is no UTF-8 is no part of a secret.
        for finding in scanner.scan(text.encode("utf-8", "replace")):
            yield finding.rule_id.rpartition(".")[2], finding.secret

    return find
