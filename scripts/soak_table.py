"""Print the report of ``make soak`` as a table: one line per suite, and the sum at the end.

python scripts/soak_table.py build/soak.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

KNOWN = ("at", "soak", "suite", "faults", "violations", "seconds")


def main() -> None:
    """Every line of the report; exit code 1 when something was violated or nothing was run."""
    path = Path(sys.argv[1])
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    print(f"{'suite':38} {'faults':>10} {'violations':>10} {'seconds':>9}")
    for line in lines:
        more = ", ".join(f"{name} {value}" for name, value in line.items() if name not in KNOWN)
        print(
            f"{line['suite'][:38]:38} {line['faults']:>10,} {line['violations']:>10,} "
            f"{line['seconds']:>9,.1f}  {more}".rstrip()
        )
    faults, violations, seconds = (
        sum(line[name] for line in lines) for name in ("faults", "violations", "seconds")
    )
    print(f"{'together':38} {faults:>10,} {violations:>10,} {seconds:>9,.1f}")
    if violations or not lines:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
