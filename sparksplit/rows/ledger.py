"""The ledger: which rows the weights have seen, per epoch number, as a count and a checksum."""

from __future__ import annotations

from dataclasses import dataclass

_MASK = 2**64 - 1

EntryJson = tuple[int, str]
"""(rows, checksum); the checksum as text, because JSON readers round large integers."""

LedgerJson = dict[str, EntryJson]
"""The entries by epoch."""


@dataclass(frozen=True)
class Entry:
    """rows: a count. checksum: sum modulo 2^64 of a hash of the rows' row_id (dataset.row_ids.row_checksum)."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Entry) -> Entry:
        return Entry(self.rows + other.rows, (self.checksum + other.checksum) & _MASK)

    def to_json(self) -> EntryJson:
        """Return the entry in a form for JSON."""
        return self.rows, str(self.checksum)

    @classmethod
    def from_json(cls, values: EntryJson) -> Entry:
        """The inverse of `to_json`."""
        rows, checksum = values
        return cls(int(rows), int(checksum))


@dataclass(frozen=True)
class Seen:
    """A short form of a ledger, of the same size for any number of epochs.

    total: the sum over all epochs.
    each: the entry of every epoch of the run. None if entries differ, an epoch is missing, or there is an extra epoch.
    """

    total: Entry
    each: Entry | None = None

    def exact(self, expected: Entry) -> bool:
        """Whether each epoch of the run has seen exactly the expected rows, and there is no extra epoch."""
        return self.each == expected


class Ledger:
    """Entries per epoch number."""

    def __init__(self, entries: dict[int, Entry] | None = None) -> None:
        self.entries = dict(entries or {})

    def seen(self, epochs: range) -> Seen:
        """Return the short form of this ledger, for a run of these epochs."""
        entries = set(self.entries.values())
        same = len(entries) == 1 and self.entries.keys() == set(epochs)
        return Seen(self.total(), entries.pop() if same else None)

    def total(self) -> Entry:
        """The sum over all epochs."""
        return sum(self.entries.values(), Entry())

    def to_json(self) -> LedgerJson:
        """Return the entries in a form for JSON."""
        return {str(epoch): entry.to_json() for epoch, entry in sorted(self.entries.items())}

    @classmethod
    def from_json(cls, values: LedgerJson) -> Ledger:
        """The inverse of `to_json`."""
        return cls({int(epoch): Entry.from_json(entry) for epoch, entry in values.items()})
