"""The files of the page: whole, licensed, from nowhere else, and served under a strict policy."""

import hashlib
import json
import re

import pytest
from starlette.testclient import TestClient

from atoll.server import create_app
from atoll.server.page.assets import POLICY, STATIC, assets

VENDOR = STATIC / "vendor"
ALLOWED = {"MIT", "Apache-2.0"}
IMPORT = re.compile(r"""(?<!["'])\b(?:from|import)\s*\(?\s*["']([^"']+)["']""")


@pytest.fixture(scope="module")
def client():
    """A service without modules."""
    with TestClient(create_app(), base_url="http://127.0.0.1:7410") as found:
        yield found


class TestVendored:
    """What others wrote."""

    entries = json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))["files"]

    @pytest.mark.parametrize("entry", entries, ids=lambda each: each["file"])
    def test_hash_version_and_licence(self, entry):
        """Each file is the one that was fetched, and its licence lies beside it."""
        data = (VENDOR / entry["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        assert len(data) == entry["bytes"]
        assert entry["version"]
        assert entry["licence"] in ALLOWED
        texts = [(VENDOR / each).read_text(encoding="utf-8") for each in entry["licence_files"]]
        word = "Apache License" if entry["licence"] == "Apache-2.0" else "Permission is hereby"
        assert word in texts[0]
        assert all("opyright" in text for text in texts)

    def test_nothing_else_lies_there(self):
        """A file that the manifest does not know is no part of the page."""
        known = {entry["file"] for entry in self.entries} | {"manifest.json"}
        known |= {each for entry in self.entries for each in entry["licence_files"]}
        assert {each.name for each in VENDOR.iterdir()} == known


def test_every_import_is_a_file_of_the_page():
    """Relative and there: bare ones would need an import map, which the policy forbids."""
    for name, data in assets().files.items():
        if name.endswith(".mjs"):
            for imported in IMPORT.findall(
                re.sub(r"/\*.*?\*/", "", data.decode(), flags=re.DOTALL)
            ):
                assert imported.startswith("."), (name, imported)
                assert (STATIC / name).parent.joinpath(imported).resolve().is_file(), (
                    name,
                    imported,
                )


def test_own_files_are_small_and_need_no_other_host():
    """One page per file; the only address written is a name space."""
    for name, data in assets().files.items():
        if not name.startswith("vendor/"):
            text = data.decode()
            assert len(text.splitlines()) <= 300, name
            others = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
            assert others == set(), name
            assert not re.search(r"innerHTML|\beval\(|new Function|document\.write", text), name


class TestServing:
    """How they reach a browser."""

    def test_the_document_names_the_files_of_its_version(self, client):
        """And is asked for again each time, cheaply."""
        found = client.get("/")
        assert found.status_code == 200
        assert found.headers["content-type"].startswith("text/html")
        assert found.headers["content-security-policy"] == POLICY
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-cache"
        assert f"/page/{assets().version}/main.mjs" in found.text
        assert "@version@" not in found.text
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", found.text)
        again = client.get("/", headers={"if-none-match": found.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    def test_files_are_kept_for_good(self, client):
        """Their address holds the hash; modules are JavaScript."""
        for name, data in assets().files.items():
            if name == "index.html":
                continue
            found = client.get(f"/page/{assets().version}/{name}")
            assert found.content == data
            assert "immutable" in found.headers["cache-control"]
            assert found.headers["x-content-type-options"] == "nosniff"
            if name.endswith(".mjs"):
                assert found.headers["content-type"].startswith("text/javascript")

    @pytest.mark.parametrize(
        "path",
        ["0000000000000000/main.mjs", "@/none.mjs", "@/../routes.py", "@/%2e%2e/routes.py", "@/"],
    )
    def test_nothing_else_is_served(self, client, path):
        """Neither files of another version nor any beside."""
        found = client.get(f"/page/{path.replace('@', assets().version)}")
        assert found.status_code == 404
        assert found.headers["content-type"] == "application/problem+json"

    def test_routes_for_data_keep_their_policy(self, client):
        """The page's policy is for its own files."""
        policy = client.get("/v1/status").headers["content-security-policy"]
        assert policy == "default-src 'none'; frame-ancestors 'none'"

    def test_the_policy_lets_nothing_in(self):
        """Nothing inline, nothing evaluated, no other host."""
        assert "unsafe" not in POLICY
        assert "http" not in POLICY
        assert "*" not in POLICY
        assert POLICY.startswith("default-src 'none'")
