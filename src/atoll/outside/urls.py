"""Which addresses outside a runtime may ask: what is decided about a URL, and nothing done.

A URL in a definition or an event is somebody's who may not reach what this machine can: other
hosts of its network, the machine itself, the service that hands out its credentials. So a URL is
checked twice. :func:`url_misfit` looks at its text, when a definition is read and at each event.
:func:`target_of` decides at the time of the request, with the addresses that the name has *then*;
whoever connects uses exactly the address that it returns, under the name that it returns, and asks
nobody again. A name that resolves to something else a moment later changes nothing.

One address among several that may not be asked refuses the name: who publishes such a mix tries
which one is taken. A redirect is a new URL (:func:`redirected`): it is checked from the beginning,
at most three times, and no header that could hold a secret follows it to another origin.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urljoin, urlsplit

import msgspec

URL_MAX = 2_048
REDIRECTS_MAX = 3
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?)*\.?\Z"
)
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\.?\Z")
_NAMES_OF_METADATA = {"metadata", "metadata.google.internal", "instance-data"}
_KEPT_NAMES = ("localhost", "local", "localdomain", "internal", "home.arpa")
_CREDENTIALS = {"authorization", "cookie", "cookie2", "proxy-authorization", "x-api-key"}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""The addresses of a host and port, as texts; raises OSError when it has none."""


class UrlRules(msgspec.Struct, frozen=True):
    """Which addresses the operator allows; nothing by default.

    Args:
        hosts: Names of hosts, ``*`` for every public one, ``*.example.com`` for those below a name.
        ports: Which ports may be asked besides 80 and 443.
        local: Targets on this machine or its network, as ``host:port``, that are allowed although
            their addresses are not public: a service beside Atoll, or a test's. The host is
            exactly what stands in the URL.
    """

    hosts: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()
    local: frozenset[str] = frozenset()


class Target(msgspec.Struct, frozen=True):
    """Where a request goes: connect to ``address``, present ``host`` (TLS name, Host header)."""

    url: str
    scheme: str
    host: str
    port: int
    address: str


class Refused(msgspec.Struct, frozen=True):
    """Why a URL may not be asked."""

    why: str


class Redirect(msgspec.Struct, frozen=True):
    """Where an answer sends the asker, and with which headers."""

    url: str
    headers: Mapping[str, str]


def url_misfit(url: str) -> str | None:
    """What is wrong with the text of a URL, whoever may ask it; None when nothing is."""
    parsed = _parse(url)
    return parsed.why if isinstance(parsed, Refused) else None


def target_of(url: str, rules: UrlRules, resolve: Resolver) -> Target | Refused:
    """Where to connect for a URL, or why nobody may.

    Args:
        url: From a definition, an event, or a redirect.
        rules: What the operator allows.
        resolve: Looks the name up; called once, and only for a name that the rules allow.
    """
    parsed = _parse(url)
    if isinstance(parsed, Refused):
        return parsed
    scheme, host, port = parsed
    local = f"{_bracketed(host)}:{port}" in rules.local
    if not local:
        refused = _outside_rules(host, port, rules)
        if refused:
            return refused
    literal = _literal(host)
    try:
        found = [str(literal)] if literal else list(resolve(host, port))
        addresses = [ipaddress.ip_address(each.partition("%")[0]) for each in found]
    except (OSError, ValueError):
        return Refused(f"host {host!r} has no address")
    if not addresses:
        return Refused(f"host {host!r} has no address")
    for each in addresses:
        why = None if local else _misfit_of(each)
        if why:
            return Refused(f"host {host!r} has the address {each}, which is {why}")
    return Target(url, scheme, host, port, str(addresses[0]))


def redirected(
    url: str, location: str, headers: Mapping[str, str], count: int
) -> Redirect | Refused:
    """Where an answer leads; the URL is still to be given to :func:`target_of`.

    Args:
        url: What was asked.
        location: The answer's header ``Location``.
        headers: Of the request.
        count: How many redirects came before.
    """
    if count >= REDIRECTS_MAX:
        return Refused(f"it redirects more than {REDIRECTS_MAX} times")
    try:
        onwards = urljoin(url, location)
    except ValueError:
        return Refused("it redirects to what is no URL")
    was, will = _parse(url), _parse(onwards)
    if isinstance(will, Refused):
        return Refused(f"it redirects, and {will.why}")
    if isinstance(was, Refused):
        return was
    if was[0] == "https" and will[0] == "http":
        return Refused("it redirects from https to http")
    kept = (
        headers
        if was == will
        else {name: value for name, value in headers.items() if name.lower() not in _CREDENTIALS}
    )
    return Redirect(onwards, dict(kept))


def _parse(url: str) -> tuple[str, str, int] | Refused:
    """Scheme, host and port."""
    if len(url) > URL_MAX:
        return Refused(f"the URL is longer than {URL_MAX} characters")
    # Parsers disagree about these, and where they do one of them connects to another host.
    if not url.isascii() or not url.isprintable() or any(each in url for each in ' \\"<>^`{|}'):
        return Refused("the URL holds a character that none may hold")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return Refused("the URL cannot be read")
    if parts.scheme not in _PORTS:
        return Refused("the URL is neither http nor https")
    if not url[len(parts.scheme) :].startswith("://") or not parts.hostname:
        return Refused("the URL has no host")
    if "@" in parts.netloc:
        return Refused("the URL holds a user or a password: give a header instead")
    if port == 0 or parts.netloc.endswith(":"):
        return Refused("the URL has no port where it begins to name one")
    host = parts.hostname.lower()
    misfit = _host_misfit(host, bracketed=parts.netloc.startswith("["))
    return (
        Refused(misfit)
        if misfit
        else (parts.scheme, host.rstrip("."), port or _PORTS[parts.scheme])
    )


def _host_misfit(host: str, *, bracketed: bool) -> str | None:
    if bracketed:
        return None if "%" not in host and _literal(host) else "the URL's host is no address"
    if not _HOST.match(host):
        return "the URL's host is no name of a host"
    # What a resolver takes for an address in another notation: 127.1, 0x7f.1, 2130706433.
    if _NUMBER.match(host.rstrip(".").rpartition(".")[2]) and not _literal(host):
        return "the URL's host is an address in an unusual notation"
    return None


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _outside_rules(host: str, port: int, rules: UrlRules) -> Refused | None:
    if port not in {80, 443} | rules.ports:
        return Refused(f"port {port} is not allowed")
    if (
        host in _NAMES_OF_METADATA
        or host.rpartition(".")[2] in _KEPT_NAMES
        or host.endswith(_KEPT_ENDS)
    ):
        return Refused(f"host {host!r} is a name of this machine's or its network's")
    above = host.split(".")
    wild = {"*." + ".".join(above[at:]) for at in range(1, len(above))}
    if "*" in rules.hosts or host in rules.hosts or wild & rules.hosts:
        return None
    return Refused(f"host {host!r} is not among those allowed")


_KEPT_ENDS = tuple("." + name for name in _KEPT_NAMES)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_TUNNELS = tuple(
    map(ipaddress.ip_network, ("64:ff9b:1::/48", "2001::/32", "2002::/16", "5f00::/16"))
)
_CGNAT = ipaddress.ip_network("100.64.0.0/10")


def _misfit_of(address: Address) -> str | None:
    """Why an address is none of the public internet's; None when it is one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _ipv4_within(address)
        if inner is not None:
            why = _misfit_of(inner)
            return why and f"{why}, written as IPv6"
        if any(address in network for network in _TUNNELS):
            return "translated or tunnelled"
    kinds = {
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
        "unspecified": address.is_unspecified,
        "shared": isinstance(address, ipaddress.IPv4Address) and address in _CGNAT,
        "private": address.is_private,
        "reserved": address.is_reserved,
        "site-local": isinstance(address, ipaddress.IPv6Address) and address.is_site_local,
    }
    named = next((name for name, found in kinds.items() if found), None)
    return named or (None if address.is_global else "not public")


def _ipv4_within(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one is another notation of: mapped, compatible, NAT64."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    number = int(address)
    if address in _NAT64 or 1 < number < 1 << 32:
        return ipaddress.IPv4Address(number & 0xFFFFFFFF)
    return None
