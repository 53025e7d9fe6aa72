"""What is said about a file beside its conversation: how many records, which damage, what is odd."""

from collections.abc import Iterator, Sequence

from application.transcript import Place, Remark
from infrastructure.transcripts.lines import Damage, Lost, Record
from infrastructure.transcripts.remarks import Remarks


class Account:
    """Counts what is read of one file and collects its warnings."""

    def __init__(self) -> None:
        self.records = self.damaged = 0
        self._remarks = Remarks()

    def record(self, record: Record) -> None:
        self.records += 1
        if record.invalid_utf8:
            self.remark("invalid_utf8", "bytes that are not UTF-8 stand as U+DC00 + byte", record.place)
        if record.numbers_as_text:
            spellings = ", ".join(record.numbers_as_text)
            self.remark("number_as_text", f"too large for 64 bits, kept as text: {spellings}", record.place)

    def damage(self, damage: Damage) -> Iterator[Lost]:
        """The pieces of a damaged line that are lost."""
        self.damaged += 1
        self.remark("damaged_line", f"{damage.reason}; {damage.recovered} recovered", damage.place)
        yield from damage.lost

    def remark(self, code: str, text: str, place: Place | None = None) -> None:
        self._remarks.add(code, text, place)

    def tally(self, code: str, text: str, places: Sequence[Place]) -> None:
        """What is said once a file, with a count."""
        if places:
            self.remark(code, f"records {text}: {len(places)}", places[0])

    @property
    def warnings(self) -> tuple[Remark, ...]:
        return self._remarks.as_warnings()
