"""S13: TLS with certificates of one's own, read again when they change; certificates of clients."""

import datetime as dt
import ipaddress
import socket
import ssl
import time

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from atoll.cli.client import Client, ServiceUnreachableError
from atoll.cli.protecting import protect
from atoll.errors import UsageError
from atoll.server import create_app, serve
from atoll.server.listening.tls import Tls, TlsFiles
from atoll.server.serve import bind


def certificate(folder, name, key=None, password=None):
    """A certificate that signs itself, and its key: their files."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    hidden = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].touch(mode=0o600)
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden)
    )
    return files


@pytest.fixture
def files(tmp_path):
    """A certificate of the service."""
    return certificate(tmp_path, "service")


def trusting(path, **more):
    """What a client speaks who trusts a certificate."""
    context = ssl.create_default_context(cafile=str(path))
    for name, value in more.items():
        setattr(context, name, value)
    return context


def test_it_speaks_tls_and_nothing_else(app, files):
    """1.2 and later; plain HTTP gets no answer; the cookie is for TLS only."""
    with serve(create_app(app), bind("127.0.0.1", 0), tls=Tls(TlsFiles(*files))) as address:
        assert address.url.startswith("https://")
        assert httpx.get(f"{address.url}/healthz", verify=trusting(files[0])).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(address.url.replace("https", "http") + "/healthz")
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address.url}/healthz", verify=ssl.create_default_context())
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            old = trusting(files[0], maximum_version=ssl.TLSVersion.TLSv1_1)
        with (
            socket.create_connection((address.host, address.port), timeout=60) as plain,
            pytest.raises(ssl.SSLError),
        ):
            old.wrap_socket(plain, server_hostname="127.0.0.1")


def test_certificates_are_read_again(app, files, tmp_path):
    """Without a restart."""
    with serve(create_app(app), bind("127.0.0.1", 0), tls=Tls(TlsFiles(*files))) as address:

        def serial():
            pem = ssl.get_server_certificate((address.host, address.port))
            return x509.load_pem_x509_certificate(pem.encode()).serial_number

        first = serial()
        new = certificate(tmp_path, "new")
        for old, fresh in zip(files, new, strict=True):
            fresh.replace(old)
        deadline = time.monotonic() + 60
        while serial() == first:
            assert time.monotonic() < deadline


def test_a_broken_certificate_changes_nothing(app, files):
    """What was there before is used on."""
    tls, trusted = Tls(TlsFiles(*files)), trusting(files[0])
    with serve(create_app(app), bind("127.0.0.1", 0), tls=tls) as address:
        files[0].write_text("nonsense")
        tls.refresh()
        assert httpx.get(f"{address.url}/healthz", verify=trusted).status_code == 200


def test_clients_show_certificates(app, files, tmp_path):
    """Who has none of the right hands cannot even ask."""
    of_client, of_other = certificate(tmp_path, "client"), certificate(tmp_path, "other")
    tls = Tls(TlsFiles(*files, client_ca=of_client[0]))
    with serve(create_app(app), bind("127.0.0.1", 0), tls=tls) as address:
        known = trusting(files[0])
        known.load_cert_chain(*of_client)
        assert httpx.get(f"{address.url}/healthz", verify=known).status_code == 200
        unknown = trusting(files[0])
        unknown.load_cert_chain(*of_other)
        for context in (unknown, trusting(files[0])):
            with pytest.raises(httpx.TransportError):
                httpx.get(f"{address.url}/healthz", verify=context)


def test_weak_and_open_keys_are_refused(tmp_path):
    """RSA of 1024 bits, a key that all may read, one with a password, one of another's."""
    weak = certificate(tmp_path, "weak", rsa.generate_private_key(65_537, 1024))
    with pytest.raises(UsageError, match="too small"):
        Tls(TlsFiles(*weak))
    good = certificate(tmp_path, "good")
    with pytest.raises(UsageError, match="mismatch"):
        Tls(TlsFiles(good[0], certificate(tmp_path, "third")[1]))
    hidden = certificate(tmp_path, "hidden", password=b"secret")
    with pytest.raises(UsageError, match="password"):
        Tls(TlsFiles(*hidden))
    good[1].chmod(0o644)
    with pytest.raises(UsageError, match="everybody"):
        Tls(TlsFiles(*good))
    with pytest.raises(UsageError, match="cannot be used"):
        Tls(TlsFiles(tmp_path / "none", tmp_path / "none"))


def test_commands_trust_what_they_are_told(app, files, monkeypatch):
    """The system's certificates, or those of a file; never none."""
    with serve(create_app(app), bind("127.0.0.1", 0), tls=Tls(TlsFiles(*files))) as address:
        with pytest.raises(ServiceUnreachableError, match="certificate"):
            Client(address.url).get("modules")
        monkeypatch.setenv("ATOLL_CA_FILE", str(files[0]))
        with Client(address.url) as client:
            assert client.get("modules")["modules"][0]["name"] == "shop"
        monkeypatch.setenv("ATOLL_CA_FILE", str(files[1]))
        with pytest.raises(UsageError, match="no certificates"):
            Client(address.url)


def test_with_tls_and_tokens_others_may_reach_it(tmp_path, tokens, root, files):
    """Both are needed."""
    assert protect("0.0.0.0", root, None, None, *files).tls is not None
    with pytest.raises(UsageError, match="there are no tokens"):
        protect("0.0.0.0", tmp_path / "other", None, None, *files)
    with pytest.raises(UsageError, match="both"):
        protect("127.0.0.1", root, None, None, files[0], None)
