"""Fetch the libraries of the web page again: ``python scripts/vendor_page.py``.

For development alone, and only to change a version: the files are part of the sources. They are
taken from the packages as published (``npm pack``), bare imports made relative (the page's policy
forbids an import map), and written with their licences and a manifest, which a test holds.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/atoll/server/page/static/vendor"

PACKAGES = {
    "preact@11.2.0": {"dist/preact.mjs": "preact.mjs", "hooks/dist/hooks.mjs": "hooks.mjs"},
    "htm@3.1.1": {"dist/htm.mjs": "htm.mjs"},
    "@preact/signals-core@1.14.5": {"dist/signals-core.mjs": "signals-core.mjs"},
    "@preact/signals@2.11.4": {"dist/signals.mjs": "signals.mjs"},
    "@dagrejs/dagre@3.1.3": {"dist/dagre.esm.js": "dagre.mjs"},
}
"""By package and version, which of its files is wanted, and how it is called here."""

LICENCES = {"LICENSE": "", "dist/dagre.esm.js.LEGAL.txt": "bundled"}
"""What a package says of its licence, and of those of what it bundles."""

IMPORTS = {
    "preact": "./preact.mjs",
    "preact/hooks": "./hooks.mjs",
    "@preact/signals-core": "./signals-core.mjs",
}


def main() -> None:
    """Fetch all of them, and write the manifest."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for old in TARGET.iterdir():
        old.unlink()
    entries = [entry for package in PACKAGES for entry in _vendor(package)]
    text = json.dumps({"files": entries}, indent=2) + "\n"
    (TARGET / "manifest.json").write_text(text, encoding="utf-8")


def _vendor(package: str) -> list[dict[str, object]]:
    name, _, version = package.rpartition("@")
    short = name.rpartition("/")[2]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603
            ["npm", "pack", "--silent", package],  # noqa: S607
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            files = {
                each.name.removeprefix("package/"): archive.extractfile(each).read()  # type: ignore[union-attr]
                for each in archive.getmembers()
                if each.isfile()
            }
    licences = []
    for source, word in LICENCES.items():
        if source in files:
            licences.append("-".join(filter(None, ("LICENSE", short, word))) + ".txt")
            (TARGET / licences[-1]).write_bytes(files[source])
    entries = []
    for source, target in PACKAGES[package].items():
        data = _relative(files[source].decode()).encode()
        (TARGET / target).write_bytes(data)
        entries.append(
            {
                "file": target,
                "package": name,
                "version": version,
                "source": source,
                "licence": json.loads(files["package.json"])["license"],
                "licence_files": licences,
                "sha256": hashlib.sha256(data).hexdigest(),
                "bytes": len(data),
            }
        )
    return entries


def _relative(text: str) -> str:
    """The module with relative imports, and without the name of a source map."""
    found = re.sub(r"(?m)^//# sourceMappingURL=.*\n?", "", text)
    for bare, relative in IMPORTS.items():
        found = found.replace(f'from"{bare}"', f'from"{relative}"')
    return found


if __name__ == "__main__":
    main()
