"""Writes ``docs/reference/roles.md`` from the table of roles. A test holds the two in step."""

from __future__ import annotations

from pathlib import Path

from atoll.access.roles import Role
from atoll.server.access.table import ROWS, Effect, Reach, Row

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "roles.md"

_HEAD = """# Roles

Written by `scripts/roles_reference.py` from the table that the service itself goes by.
How to give roles out says [Who may call](../guides/securing.md).

Each role may do what the one before it may:

| role | may |
|---|---|
| `viewer` | read: select, subscribe, export, tail, ask queries, look at states and plans |
| `operator` | append records and events; pause, resume, roll back, set options, scale, cordon |
| `author` | decide what runs: deploy a module's code, make, change and delete runtimes |
| `admin` | read who did what |

A route that has no row here is not reachable, whoever calls.
A token for some modules (`--module`) reaches what is about *its module*, where other modules are
not found (404); in lists it sees *what it may see*; what is about *all modules* is refused (403).

"""
_TITLES: dict[Role | None, str] = {
    None: "Anybody",
    Role.VIEWER: "From viewer on",
    Role.OPERATOR: "From operator on",
    Role.AUTHOR: "From author on",
    Role.ADMIN: "Admins only",
}
_ABOUT = {Reach.NOTHING: ""}


def page() -> str:
    """The page."""
    parts = [
        _part(title, [row for row in ROWS if row.role is role]) for role, title in _TITLES.items()
    ]
    return _HEAD + "\n".join(part for part in parts if part)


def _part(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [f"## {title}", "", "| route | about | does |", "|---|---|---|"]
    for row in rows:
        about = _ABOUT.get(row.reach, str(row.reach))
        does = "" if row.effect is Effect.READS else str(row.effect)
        lines.append(f"| `{row.method} {row.template}` | {about} | {does} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
