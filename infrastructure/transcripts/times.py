"""Times as transcripts write them: RFC 3339, epoch seconds, epoch milliseconds, or something else."""

from datetime import UTC, datetime

from application.transcript import Json

UNKNOWN = 0
"""What an absent or unreadable time counts as."""
MS_MIN = 100_000_000_000
"""A smaller number is seconds: as milliseconds it would lie before March 1973."""
MS_MAX = 253_402_300_799_999
"""The end of the year 9999."""


def time_ms(value: Json) -> int:
    """Unix milliseconds, or UNKNOWN. A text without a zone is taken as UTC."""
    if isinstance(value, str):
        return _text_ms(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_ms(value)
    return UNKNOWN


def _text_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(UNKNOWN, round(moment.timestamp() * 1000))
    except (ValueError, OverflowError):
        pass
    try:
        return _number_ms(float(text))
    except ValueError:
        return UNKNOWN


def _number_ms(number: float) -> int:
    ms = number if number >= MS_MIN else number * 1000
    return round(ms) if 0 < ms <= MS_MAX else UNKNOWN
