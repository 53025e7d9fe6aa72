"""Warnings about one file, bounded: a file of damage alone must not make a report as large as itself."""

from collections import Counter

from application.transcript import Place, Remark

REMARKS_PER_CODE_MAX = 100


class Remarks:
    """Collects warnings; of one code the first are kept whole and the rest are counted."""

    def __init__(self) -> None:
        self._kept: list[Remark] = []
        self._seen: Counter[str] = Counter()

    def add(self, code: str, text: str, place: Place | None = None) -> None:
        self._seen[code] += 1
        if self._seen[code] <= REMARKS_PER_CODE_MAX:
            self._kept.append(Remark(code, text, place))

    def as_warnings(self) -> tuple[Remark, ...]:
        rest = [
            Remark(code, f"{seen - REMARKS_PER_CODE_MAX} more of the same")
            for code, seen in self._seen.items()
            if seen > REMARKS_PER_CODE_MAX
        ]
        return (*self._kept, *rest)
