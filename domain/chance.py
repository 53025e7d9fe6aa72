"""Chance that can be told again: a function of a seed and of what is drawn for."""

import json
from hashlib import sha256


def chance(seed: str, *names: str) -> float:
    """A number from 0 up to but not including 1, spread evenly over names; the same for the same names."""
    digest = sha256(json.dumps([seed, *names], separators=(",", ":")).encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48
