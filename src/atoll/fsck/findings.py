"""What a check found, and how much it looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be.

    Attributes:
        severity: ``damage``: something stored is lost or wrong. ``leftover``: nobody needs it.
        file: The file, relative to the root.
        what: What is wrong.
        cost: What it means for the module: what cannot be read, rebuilt or undone.
    """

    severity: Literal["damage", "leftover"]
    file: str
    what: str
    cost: str


@dataclass(slots=True)
class Report:
    """All findings of a root, and what was looked at."""

    findings: list[Finding] = field(default_factory=list)
    objects: int = 0
    files: int = 0
    segments: int = 0
    stores: int = 0
    bytes: int = 0

    def damage(self, file: str, what: str, cost: str) -> None:
        """Add a damage."""
        self.findings.append(Finding("damage", file, what, cost))

    def leftover(self, file: str, what: str) -> None:
        """Add something that may be deleted."""
        self.findings.append(Finding("leftover", file, what, "none: nothing names it"))

    def damages(self) -> Iterator[Finding]:
        """The findings that matter."""
        return (each for each in self.findings if each.severity == "damage")

    @property
    def is_sound(self) -> bool:
        """Whether everything that is needed is there and as it was written."""
        return not any(self.damages())

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, for ``--json``."""
        return {
            "sound": self.is_sound,
            "checked": {
                "objects": self.objects,
                "files": self.files,
                "segments": self.segments,
                "stores": self.stores,
                "bytes": self.bytes,
            },
            "findings": [
                {
                    "severity": each.severity,
                    "file": each.file,
                    "what": each.what,
                    "cost": each.cost,
                }
                for each in self.findings
            ],
        }
