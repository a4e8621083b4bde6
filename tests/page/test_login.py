"""Logging in, where the service asks who calls, and what a viewer is offered."""

import time

import pytest
from browsing import opened, served

from atoll.access.authority import Authority
from atoll.access.roles import Role
from atoll.access.token_file import TokenFile
from atoll.access.tokens import created


@pytest.fixture(scope="module")
def locked(shop, tmp_path_factory):
    """The address of a service that asks, and a token by role."""
    root = tmp_path_factory.mktemp("tokens")
    file = TokenFile.of(root)
    now = time.time_ns() // 1_000_000

    def make(role):
        return file.change(lambda kept: created(kept, str(role), role, now))

    tokens = {role: make(role) for role in (Role.VIEWER, Role.OPERATOR)}
    with served(shop[1], authority=Authority.of(root)) as url:
        yield url, tokens


@pytest.fixture
def seen(browser, locked):
    """A fresh page of it."""
    with opened(browser, locked[0]) as found:
        yield found


def log_in(page, token):
    """With the form."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_wrong_token_is_refused_and_a_right_one_opens_where_one_wanted_to_go(seen, locked):
    """The session lasts over a reload, and ends with *log out*."""
    seen.expected = ("401",)
    page = seen.open("m/shop/topology/sales")
    log_in(page, "atoll_nothing")
    page.get_by_role("alert").wait_for()
    log_in(page, locked[1][Role.OPERATOR])
    page.get_by_role("button", name="Pause").wait_for()
    assert "operator" in page.locator(".who").inner_text()
    page.reload()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="log out").click()
    page.get_by_label("Token").wait_for()


def test_changes_carry_the_word_of_the_page(seen, locked, shop):
    """Else the service would refuse them."""
    page = seen.open("m/shop/topology/sales")
    log_in(page, locked[1][Role.OPERATOR])
    page.get_by_role("button", name="Pause").click()
    page.locator("dialog").get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert shop[1].topology("sales").status()["state"] == "running"


def test_a_viewer_is_offered_no_change(seen, locked):
    """Read only, and not by choice."""
    page = seen.open("m/shop/topology/sales")
    log_in(page, locked[1][Role.VIEWER])
    page.wait_for_selector(".box")
    assert page.get_by_role("button", name="Pause").count() == 0
    assert page.get_by_label("read only").is_disabled()
