"""Tokens as data: made, proved, renewed, revoked; and failed tries counted."""

import msgspec
import pytest

from atoll.access.roles import Role
from atoll.access.throttle import Throttle
from atoll.access.tokens import checked_tokens, created, known_id, proved, revoked, rotated
from atoll.errors import DeclarationError, NotFoundError, UnauthenticatedError, UsageError

DAY = 86_400_000


def made(name="ann", role=Role.OPERATOR, now=0, **more):
    """One token and its text."""
    return created((), name, role, now, **more)


def test_a_token_is_who_it_was_made_for():
    """Name, role, modules."""
    tokens, text = made(modules=["shop", "shop", "orders"])
    caller = proved(tokens, text, 5).caller()
    assert (caller.name, caller.role, caller.modules) == (
        "ann",
        Role.OPERATOR,
        frozenset({"shop", "orders"}),
    )
    assert caller.sees("shop")
    assert not caller.sees("other")


def test_only_the_hash_is_kept():
    """Nothing of the secret can be read out of what is kept; no two are alike."""
    tokens, text = made()
    kept = msgspec.json.encode(tokens).decode()
    assert text.split("_")[2] not in kept
    assert len(text.split("_")[2]) * 4 == 256
    assert made()[1] != text


NEARLY = {
    "a digit other": lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
    "a digit more": lambda text: text + "0",
    "a digit less": lambda text: text[:-1],
    "capitals": lambda text: text.upper(),
    "a line break": lambda text: text + "\n",
    "hyphens": lambda text: text.replace("_", "-"),
    "another id": lambda text: "atoll_" + "0" * 12 + "_" + text.split("_")[2],
    "no id": lambda text: text.split("_")[2],
    "nothing": lambda text: "",
    "ten million": lambda text: "x" * 10_000_000,
}


@pytest.mark.parametrize("how", NEARLY)
def test_what_is_nearly_a_token_is_none(how):
    """One digit more, less or other; another's id: all look the same from outside."""
    tokens, text = made()
    with pytest.raises(UnauthenticatedError, match="not known here"):
        proved(tokens, NEARLY[how](text), 0)


def test_a_token_ends():
    """When it expires, to the millisecond; when it is revoked, by name or id."""
    tokens, text = made(lives_ms=DAY)
    assert proved(tokens, text, DAY - 1).name == "ann"
    with pytest.raises(UnauthenticatedError, match="expired"):
        proved(tokens, text, DAY)
    for which in ("ann", tokens[0].id):
        with pytest.raises(UnauthenticatedError, match="revoked"):
            proved(revoked(tokens, which, 7), text, 8)
    with pytest.raises(NotFoundError, match="has ended"):
        revoked(revoked(tokens, "ann", 7), "ann", 8)
    with pytest.raises(NotFoundError, match="no token"):
        revoked(tokens, "bob", 8)


def test_rotation_overlaps():
    """Both are taken for a while, then the new one alone; it lives as long as the old one did."""
    tokens, old = made(lives_ms=10 * DAY, modules=["shop"])
    tokens, new = rotated(tokens, "ann", 5 * DAY, DAY)
    assert proved(tokens, old, 6 * DAY - 1).role == proved(tokens, new, 5 * DAY).role
    with pytest.raises(UnauthenticatedError, match="expired"):
        proved(tokens, old, 6 * DAY)
    token = proved(tokens, new, 15 * DAY - 1)
    assert (token.expires_ms, token.modules) == (15 * DAY, ("shop",))


def test_an_overlap_never_prolongs():
    """An old token that ends sooner anyway ends then."""
    tokens, old = made(lives_ms=DAY)
    tokens, _ = rotated(tokens, "ann", 0, 5 * DAY)
    with pytest.raises(UnauthenticatedError):
        proved(tokens, old, DAY)


def test_names():
    """One taken token a name; a name can be written in a log; modules are names of modules."""
    tokens, _ = made()
    with pytest.raises(UsageError, match="already"):
        created(tokens, "ann", Role.VIEWER, 1)
    again, _ = created(revoked(tokens, "ann", 1), "ann", Role.VIEWER, 2)
    assert len(again) == 2
    for name in ("", "a b", "a\nb", "-x", "x" * 64, "ä"):
        with pytest.raises(UsageError, match="cannot name"):
            made(name)
    with pytest.raises(DeclarationError):
        made(modules=["../x"])


def test_weak_hashes_are_refused():
    """A file that was written by hand, with something that is no hash, or an id twice."""
    tokens, _ = made()
    with pytest.raises(UsageError, match="not made by Atoll"):
        checked_tokens([msgspec.structs.replace(tokens[0], sha256="")])
    with pytest.raises(UsageError, match="one id"):
        checked_tokens([*tokens, *tokens])


def test_known_ids():
    """Failed tries are counted apart for each token that there is, and together for the rest."""
    tokens, text = made()
    assert known_id(tokens, text[:-1] + "g") is None
    assert known_id(tokens, text) == tokens[0].id
    assert known_id(tokens, "atoll_" + "0" * 12 + "_" + "0" * 64) is None


def test_roles_include_those_below():
    """In the order in which they are declared."""
    for at, role in enumerate(Role):
        assert [role.includes(each) for each in Role] == [n <= at for n in range(4)]


def test_tries_are_throttled():
    """Ten within a minute, then none until the first of them is a minute ago; others go on."""
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for second in range(10):
        now[0] = float(second)
        assert throttle.wait_seconds(("1.2.3.4", "")) == 0
        throttle.failed(("1.2.3.4", ""))
    assert throttle.wait_seconds(("1.2.3.4", "")) == 51
    assert throttle.wait_seconds(("1.2.3.4", "abc")) == 0
    assert throttle.wait_seconds(("1.2.3.5", "")) == 0
    now[0] = 60.0
    assert throttle.wait_seconds(("1.2.3.4", "")) == 0
    now[0] = 1_000.0
    assert throttle.wait_seconds(("1.2.3.4", "")) == 0
    assert not throttle._failures


def test_counting_takes_bounded_memory():
    """Whoever has many addresses fills no memory."""
    throttle = Throttle(lambda: 0.0)
    for number in range(20_000):
        throttle.failed((str(number), ""))
    assert len(throttle._failures) == 10_000
