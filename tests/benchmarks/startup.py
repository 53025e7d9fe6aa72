"""How long the command line takes to say something."""

import subprocess
import sys
from pathlib import Path

from tests.benchmarks.figures import Figure, Table, best_s

RUNS = 10


def run(table: Table, folder: Path) -> None:
    reprise = Path(sys.executable).with_name("reprise")
    floor = best_s(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), RUNS)
    help_ = best_s(
        lambda: subprocess.run([reprise, "--help"], check=True, stdout=subprocess.DEVNULL),
        RUNS,
    )
    beside = f"bare interpreter {floor * 1e3:.0f} ms"
    table.add(Figure("reprise --help", f"{help_ * 1e3:.0f} ms", "<= 150 ms", help_ <= 0.150, beside))
