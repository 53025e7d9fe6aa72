"""Prints what half an hour without a host costs, the ancestor's profile beside ours.

.venv/bin/python -m tests.simulation
"""

import sys

from tests.simulation.figures import HEADER, outage
from tests.simulation.world import SEED, SERVICE, without_breaker


def main() -> None:
    """200 rooms with 5 sessions each, a tick of 5 s, 30 minutes without the host."""
    sys.stdout.write(f"{HEADER}\n")
    for profile in (SEED, without_breaker(SERVICE), SERVICE):
        told, _ = outage(profile)
        sys.stdout.write(f"{told.row()}\n")


if __name__ == "__main__":
    main()
