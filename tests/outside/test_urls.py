"""Holds which URLs a runtime may ask: the rules, with a resolver made for the test."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from atoll.outside.urls import (
    Redirect,
    Refused,
    Target,
    UrlRules,
    redirected,
    target_of,
    url_misfit,
)

PUBLIC = "93.184.216.34"
EVERYTHING = UrlRules(hosts=frozenset({"*"}), ports=frozenset(range(1, 65_536)))


def resolver(*addresses):
    """Gives the same addresses to every question, and counts them."""

    def resolve(host, port):
        resolve.asked.append((host, port))
        return addresses

    resolve.asked = []
    return resolve


TEXTS = [
    *("", "example.com", "//example.com", "ftp://example.com/", "file:///etc/passwd"),
    *("gopher://example.com/", "data:text/plain,x", "javascript:alert(1)", "http:/example.com"),
    *("http:example.com", "http://", "http:///x", "http://?x", "unix:///run/docker.sock"),
    *("http://user@example.com/", "http://user:pw@example.com/", "http://a@b@example.com/"),
    *("http://example.com\\@evil.com/", "http://example.com:x/", "http://example.com:99999/"),
    *("http://example.com:0/", "http://example.com:/", "http://exa mple.com/"),
    *("http://example.com/\r\nHost: x", "http://example.com/\t", "http://example.com/\0"),
    *("http://ex\u0430mple.com/", "http://\u2460\u2461\u2466.0.0.1/", "http://[::1", "http://[x]/"),
    *("http://[fe80::1%25eth0]/", "http://-a.com/", "http://a..b/", "http://.example.com/"),
    *("http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/"),
    *("http://0/", "http://0x7f000001/", "http://127.0.0.1.5/", "http://017700000001/"),
    *("http://example.com/<x>", 'http://example.com/"', "http://" + "a" * 64 + ".com/"),
    *("http://" + "a." * 130 + "com/", "http://example.com/" + "x" * 2_100, "http://%31/"),
    *("http://127.0.0.1%2f@example.com", "http://a_/", "HTTP//x", "http://{x}/"),
]
"""No URLs, or such that parsers read differently."""


@pytest.mark.parametrize("url", TEXTS)
def test_texts_that_are_no_url_to_ask(url):
    """Refused by the text alone, wherever it stands; nothing is looked up."""
    resolve = resolver(PUBLIC)
    assert url_misfit(url)
    assert isinstance(target_of(url, EVERYTHING, resolve), Refused)
    assert resolve.asked == []


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://127.0.0.53/", "http://0.0.0.0/", "http://10.0.0.1/"),
        *("http://172.16.0.1/", "http://192.168.1.1/", "http://169.254.169.254/latest"),
        *("http://100.64.0.1/", "http://100.127.255.254/", "http://224.0.0.1/"),
        *("http://255.255.255.255/", "http://240.0.0.1/", "http://198.18.0.1/"),
        *("http://192.0.2.1/", "http://[::1]/", "http://[::]/", "http://[fe80::1]/"),
        *("http://[fc00::1]/", "http://[fd12::1]/", "http://[ff02::1]/", "http://[fec0::1]/"),
        *("http://[::ffff:127.0.0.1]/", "http://[::ffff:169.254.169.254]/"),
        *("http://[::ffff:7f00:1]/", "http://[::127.0.0.1]/", "http://[64:ff9b::7f00:1]/"),
        *("http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::1]/", "http://[2002:7f00:1::]/"),
        *("http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/", "http://[2001:db8::1]/"),
        *("http://[2002:5db8:d822::1]/", "http://[64:ff9b:1::5db8:d822]/", "http://[100::1]/"),
        *("http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://a.localhost/"),
        *("http://metadata/", "http://metadata.google.internal/", "http://x.internal/"),
        *("http://printer.local/", "http://router.home.arpa/"),
    ],
)
def test_addresses_that_are_not_public(url):
    """Each notation of an inner address is refused though every host and port is allowed."""
    assert isinstance(target_of(url, EVERYTHING, resolver(PUBLIC)), Refused)


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        (PUBLIC, "10.0.0.1"),
        ("::ffff:10.0.0.1",),
        ("fe80::1%eth0",),
        ("169.254.169.254",),
        (),
        ("what",),
    ],
)
def test_a_name_with_an_inner_address(addresses):
    """One inner address among several refuses the name, and so does none."""
    assert isinstance(target_of("http://a.com/", EVERYTHING, resolver(*addresses)), Refused)


def test_a_name_that_cannot_be_looked_up():
    """The resolver's error is an answer like others."""

    def resolve(host, port):
        raise OSError

    assert isinstance(target_of("http://a.com/", EVERYTHING, resolve), Refused)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("http://example.com/a?b#c", "example.com", 80),
        ("HTTPS://Example.COM", "example.com", 443),
        ("https://example.com.:8443/", "example.com", 8443),
        ("http://93.184.216.34/", "93.184.216.34", 80),
        ("http://[2606:2800:220:1:248:1893:25c8:1946]/", "2606:2800:220:1:248:1893:25c8:1946", 80),
        ("http://[::ffff:93.184.216.34]/", "::ffff:93.184.216.34", 80),
    ],
)
def test_where_to_connect(url, host, port):
    """The address that was checked is the one to connect to; the name is asked for once."""
    resolve = resolver(PUBLIC, "93.184.216.35")
    found = target_of(url, EVERYTHING, resolve)
    assert isinstance(found, Target)
    assert (found.host, found.port) == (host, port)
    literal = resolve.asked == []
    assert ip_address(found.address) == ip_address(host if literal else PUBLIC)
    assert len(resolve.asked) <= 1


def test_a_name_that_changes_its_address():
    """It is asked for once: what a second question would give is never seen."""
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    found = target_of("http://a.com/", EVERYTHING, lambda *_: next(answers))
    assert found.address == PUBLIC
    refused = target_of("http://a.com/", EVERYTHING, lambda *_: ["127.0.0.1"])
    assert "loopback" in refused.why


@pytest.mark.parametrize(
    ("rules", "url", "allowed"),
    [
        (UrlRules(), "http://example.com/", False),
        (UrlRules(hosts=frozenset({"example.com"})), "http://example.com/", True),
        (UrlRules(hosts=frozenset({"example.com"})), "http://example.com:8080/", False),
        (UrlRules(hosts=frozenset({"example.com"})), "http://a.example.com/", False),
        (UrlRules(hosts=frozenset({"*.example.com"})), "http://a.b.example.com/", True),
        (UrlRules(hosts=frozenset({"*.example.com"})), "http://example.com/", False),
        (UrlRules(hosts=frozenset({"*.example.com"})), "http://badexample.com/", False),
        (
            UrlRules(hosts=frozenset({"*"}), ports=frozenset({8080})),
            "http://example.com:8080/",
            True,
        ),
        (UrlRules(local=frozenset({"127.0.0.1:9000"})), "http://127.0.0.1:9000/x", True),
        (UrlRules(local=frozenset({"127.0.0.1:9000"})), "http://127.0.0.1:9001/", False),
        (UrlRules(local=frozenset({"127.0.0.1:9000"})), "http://localhost:9000/", False),
        (UrlRules(local=frozenset({"[::1]:9000"})), "http://[::1]:9000/", True),
    ],
)
def test_what_the_operator_allows(rules, url, allowed):
    """Nothing by default; hosts, those below a name, ports; local targets one by one."""
    resolve = resolver(PUBLIC)
    assert isinstance(target_of(url, rules, resolve), Target) == allowed
    assert allowed or resolve.asked == []


HEADERS = {"Authorization": "secret", "Cookie": "c", "X-Api-Key": "k", "Accept": "*/*"}


@pytest.mark.parametrize(
    ("location", "kept"),
    [
        ("/b", HEADERS),
        ("https://example.com/b", HEADERS),
        ("https://example.com:444/b", {"Accept": "*/*"}),
        ("https://other.com/", {"Accept": "*/*"}),
        ("//other.com/", {"Accept": "*/*"}),
    ],
)
def test_headers_of_a_redirect(location, kept):
    """What may hold a secret goes to no other origin."""
    found = redirected("https://example.com/a", location, HEADERS, 0)
    assert isinstance(found, Redirect)
    assert found.headers == kept


@pytest.mark.parametrize(
    ("location", "count"),
    [
        ("http://example.com/", 0),
        ("file:///etc/passwd", 0),
        ("https://u:p@example.com/", 0),
        ("https://[x/", 0),
        ("/again", 3),
    ],
)
def test_redirects_that_lead_nowhere(location, count):
    """Neither to plain text, nor to what is no URL to ask, nor without end."""
    assert isinstance(redirected("https://example.com/a", location, {}, count), Refused)


def test_a_redirect_inwards_is_seen_when_it_is_asked():
    """The new URL is checked from the beginning."""
    found = redirected("http://example.com/", "http://169.254.169.254/", {}, 0)
    assert isinstance(target_of(found.url, EVERYTHING, resolver(PUBLIC)), Refused)
