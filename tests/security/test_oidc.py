"""S1: tokens that somebody else signs, by the keys that its provider publishes."""

import base64
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.testclient import TestClient

from atoll.access.authority import Authority
from atoll.access.oidc import Oidc, OidcSettings, read_oidc
from atoll.access.roles import Role
from atoll.access.sessions import Sessions
from atoll.access.token_file import LiveTokens, TokenFile
from atoll.errors import StorageError, UnauthenticatedError, UsageError
from atoll.server import create_app

SETTINGS = OidcSettings(
    issuer="https://idp.example",
    audience="atoll",
    jwks_url="https://idp.example/keys",
    roles={"readers": Role.VIEWER, "ops": Role.OPERATOR},
    role_claim="realm.groups",
    modules_claim="modules",
    skew_seconds=10,
)
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
WEAK = rsa.generate_private_key(65_537, 1024)
EC, RSA = jwt.algorithms.ECAlgorithm, jwt.algorithms.RSAAlgorithm


def published(**more):
    """The keys as a provider publishes them."""
    keys = {"one": (EC, KEY), "weak": (RSA, WEAK), **more}
    return json.dumps(
        {
            "keys": [
                {**kind.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}
                for name, (kind, key) in keys.items()
            ]
        }
    ).encode()


def signed(key=KEY, kid="one", alg="ES256", **claims):
    """A token; a claim that is None is left out."""
    now = int(time.time())
    said = {
        "iss": "https://idp.example",
        "aud": "atoll",
        "sub": "ann@example",
        "iat": now,
        "exp": now + 300,
        "realm": {"groups": ["readers", "else"]},
        "modules": ["shop"],
        **claims,
    }
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm=alg, headers={"kid": kid})


@pytest.fixture
def oidc():
    """What reads them; how often keys were asked for."""
    asked = []

    def fetch(url):
        asked.append(url)
        return published()

    found = Oidc(SETTINGS, fetch)
    found.asked = asked
    return found


def test_a_signed_token_is_who_it_says(oidc):
    """Name, the highest role of its groups, modules, and when it ends; keys are asked for once."""
    for _ in range(3):
        caller, ends = oidc.known(signed(realm={"groups": ["ops", "readers"]}))
        assert (caller.name, caller.role, caller.how) == ("ann@example", Role.OPERATOR, "oidc")
        assert caller.modules == frozenset({"shop"})
        assert 290_000 < ends - time.time() * 1_000 < 301_000
    assert oidc.asked == ["https://idp.example/keys"]


def unsigned():
    """A token without a signature."""
    parts = [
        {"alg": "none", "kid": "one"},
        jwt.decode(signed(), options={"verify_signature": False}),
    ]
    texts = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in parts]
    return ".".join(text.rstrip("=") for text in texts) + "."


def made_with_the_public_key():
    """A token whose symmetric key is what everybody knows."""
    pem = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secret = pem.replace(b"-", b"+")  # else the library itself refuses to make it
    return signed(secret, alg="HS256")


BAD = {
    "none": unsigned,
    "symmetric": made_with_the_public_key,
    "another key": lambda: signed(OTHER),
    "an unknown key": lambda: signed(kid="two"),
    "no key named": lambda: jwt.encode({"sub": "x"}, KEY, algorithm="ES256"),
    "a weak key": lambda: signed(WEAK, kid="weak", alg="RS256"),
    "another audience": lambda: signed(aud="other"),
    "no audience": lambda: signed(aud=None),
    "another issuer": lambda: signed(iss="https://evil.example"),
    "no issuer": lambda: signed(iss=None),
    "expired": lambda: signed(exp=int(time.time()) - 60),
    "no end": lambda: signed(exp=None),
    "not yet": lambda: signed(nbf=int(time.time()) + 60),
    "no role": lambda: signed(realm={"groups": ["else"]}),
    "roles of another shape": lambda: signed(realm="ops"),
    "no name": lambda: signed(sub=None),
    "a name with line breaks": lambda: signed(sub="ann\nroot"),
    "cut": lambda: signed()[:-4],
    "changed": lambda: signed().replace(".", ".e30", 1),
    "nonsense": lambda: "x.y.z",
    "nothing": lambda: "",
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_what_is_no_good_is_refused(oidc, kind):
    """Whatever is wrong with it."""
    with pytest.raises(UnauthenticatedError):
        oidc.known(BAD[kind]())


def test_clocks_may_differ_a_little(oidc):
    """By so many seconds as is said, and no more."""
    now = int(time.time())
    assert oidc.known(signed(exp=now - 4))[0].name == "ann@example"
    assert oidc.known(signed(iat=now + 4, nbf=now + 4))[0].name == "ann@example"
    with pytest.raises(UnauthenticatedError, match="expired"):
        oidc.known(signed(exp=now - 15))


def test_no_modules_claim_is_no_module(oidc):
    """A token that leaves the claim out sees none, rather than all."""
    assert oidc.known(signed(modules=None))[0].modules == frozenset()


def test_new_keys_are_asked_for_but_not_for_every_token():
    """A provider changes keys; somebody who makes names up does not make the service ask again."""
    now, keys, asked = [0.0], [published()], []

    def fetch(url):
        asked.append(url)
        return keys[0]

    oidc = Oidc(SETTINGS, fetch, clock=lambda: now[0])
    oidc.known(signed())
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            oidc.known(signed(OTHER, kid="two"))
    assert len(asked) == 1
    keys[0] = published(two=(EC, OTHER))
    now[0] = 61.0
    assert oidc.known(signed(OTHER, kid="two"))[0].role is Role.VIEWER
    assert len(asked) == 2
    keys[0] = b"nonsense"
    now[0] = 10_000.0
    assert oidc.known(signed())[0].role is Role.VIEWER
    with pytest.raises(StorageError, match="cannot be had"):
        Oidc(SETTINGS, lambda url: b"x").known(signed())


def test_over_http(app, tmp_path, oidc, bearer):
    """Beside tokens of its own, and in place of them; a session of it ends with it."""
    live = LiveTokens(TokenFile.of(tmp_path))
    application = create_app(app, authority=Authority(live, Sessions(tmp_path / "s"), oidc))
    with TestClient(application, base_url="http://127.0.0.1:7410") as client:
        assert client.get("/v1/modules").status_code == 401
        assert client.get("/v1/modules", headers=bearer(unsigned())).status_code == 401
        told = client.get("/v1/session", headers=bearer(signed())).json()
        assert (told["name"], told["how"], told["modules"]) == ("ann@example", "oidc", ["shop"])
        pause = "/v1/modules/shop/topologies/mb/pause"
        assert client.post(pause, json={}, headers=bearer(signed())).status_code == 403
        session = client.post("/v1/session", json={"token": signed()}).json()
        assert session["role"] == "viewer"
        assert client.get("/v1/modules").status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"jwks_url": "http://idp.example/keys"},
        {"jwks_url": "file:///etc/passwd"},
        {"roles": {}},
        {"roles": {"ops": "king"}},
        {"audience": ""},
        {"skew_seconds": 3_600},
        {"more": 1},
    ],
)
def test_wrong_settings_are_refused(tmp_path, change):
    """Before anything is served."""
    file = tmp_path / "oidc.json"
    good = {
        "issuer": "https://idp.example",
        "audience": "atoll",
        "jwks_url": "https://idp.example/keys",
        "roles": {"ops": "operator"},
    }
    file.write_text(json.dumps(good))
    assert read_oidc(file).roles == {"ops": Role.OPERATOR}
    file.write_text(json.dumps({**good, **change}))
    with pytest.raises(UsageError):
        read_oidc(file)
