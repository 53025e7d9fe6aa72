"""How hypothesis searches: briefly and the same way each time, or for long with REPRISE_LONG=1."""

import os

from hypothesis import HealthCheck, settings

# What a health check warns of is the size of a history, which is meant.
_MEANT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=80, suppress_health_check=_MEANT
)
settings.register_profile("long", deadline=None, max_examples=2_000, suppress_health_check=_MEANT)
settings.load_profile("long" if os.environ.get("REPRISE_LONG") == "1" else "ci")
