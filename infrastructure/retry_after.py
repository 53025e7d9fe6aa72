"""How long a server asks to be left alone (RFC 9110, Retry-After)."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

RETRY_AFTER_S_MAX: Final = 3600.0
"""The longest wait that a server may ask for (SPEC B6)."""
_SECONDS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


def retry_after_s(value: str | None, now_ms: int) -> float | None:
    """The seconds from now, at most an hour; None if nothing usable is asked (SPEC B6).

    Seconds or a date in any of the three spellings of HTTP; what lies in the past and what is neither is
    ignored.
    """
    text = (value or "").strip()
    wait_s = float(text) if _SECONDS.fullmatch(text) else _seconds_until(text, now_ms)
    return min(wait_s, RETRY_AFTER_S_MAX) if wait_s > 0 else None


def _seconds_until(date: str, now_ms: int) -> float:
    """Seconds until a date; 0 for what is none."""
    try:
        then = parsedate_to_datetime(date)
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return then.timestamp() - now_ms / 1000
    except (ValueError, TypeError, OverflowError):
        return 0.0
