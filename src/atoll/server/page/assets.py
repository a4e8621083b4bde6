"""The files of the page, served under the hash of all of them.

``/`` is the one document. It names what it needs below ``/page/<hash>/``, where browsers keep it
for good: another version of the package is another hash, and no file is ever mixed with those of
another version. The policy lets the page load from this service alone, and run nothing that
stands in the document.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

STATIC = Path(__file__).parent / "static"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The content security policy of the page and of its files."""

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOR_GOOD = "public, max-age=31536000, immutable"
_HASH_CHARACTERS = 16
_DOCUMENT = "index.html"
_PLACEHOLDER = b"@version@"

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Assets:
    """All files of the page.

    Attributes:
        files: By name, as ``pages/overview.mjs``.
        version: The hash of all of them.
    """

    files: dict[str, bytes]
    version: str

    @property
    def document(self) -> bytes:
        """The page itself, with the names of what it loads."""
        return self.files[_DOCUMENT].replace(_PLACEHOLDER, self.version.encode())


@cache
def assets() -> Assets:
    """The files, read once, when somebody first asks for the page."""
    files = {
        file.relative_to(STATIC).as_posix(): file.read_bytes()
        for file in sorted(STATIC.rglob("*"))
        if file.suffix in _KINDS and file.is_file()
    }
    found = hashlib.sha256()
    for name, data in files.items():
        found.update(f"{name}\0{len(data)}\0".encode() + data)
    return Assets(files, found.hexdigest()[:_HASH_CHARACTERS])


@router.get("/")
def get_page(request: Request) -> Response:
    """The page."""
    found = assets()
    tag = f'"{found.version}"'
    headers = {"cache-control": "no-cache", "etag": tag, "content-security-policy": POLICY}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(found.document, headers=headers, media_type=_KINDS[".html"])


@router.get("/favicon.ico")
def get_icon() -> Response:
    """The icon, for browsers that ask for it by themselves."""
    return _file("icon.svg", "no-cache")


@router.get("/page/{version}/{name:path}")
def get_file(version: str, name: str) -> Response:
    """One of its files; those of another version are gone."""
    if version != assets().version:
        raise HTTPException(404, "this is a file of another version of the page; load it again")
    return _file(name, _FOR_GOOD)


def _file(name: str, kept: str) -> Response:
    data = assets().files.get(name)
    if data is None or name == _DOCUMENT:
        raise HTTPException(404, "the page has no such file")
    headers = {"cache-control": kept, "content-security-policy": POLICY}
    kind = _KINDS[Path(name).suffix]
    return Response(data, headers=headers, media_type=kind)
