"""TLS with certificates of one's own, which are read again when their files change."""

from __future__ import annotations

import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from atoll.errors import UsageError
from atoll.logs import get_logger

__all__ = ["Tls", "TlsFiles"]

_log = get_logger(__name__)

_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:@SECLEVEL=2"
"""Forward secrecy and authenticated encryption only; keys of RSA from 2048 bits on."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificates are.

    Attributes:
        certificate: The service's, with those that signed it, as PEM.
        key: Its key, as PEM without a password.
        client_ca: Those who sign certificates of clients; who shows none signed by them cannot
            even ask. No certificate is needed without.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Tls:
    """What a listening socket speaks.

    Args:
        files: The certificates.

    Raises:
        UsageError: When they cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._state()
        self.context = _context(files)

    def refresh(self) -> None:
        """Use what the files hold now; what cannot be used changes nothing, and is logged."""
        seen = self._state()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            _context(self._files)  # both files may be in the middle of being replaced
            self.context.load_cert_chain(self._files.certificate, self._files.key)
            if self._files.client_ca is not None:
                self.context.load_verify_locations(self._files.client_ca)
        except (UsageError, OSError) as error:
            _log.error("certificate-not-used", error=str(error))
            return
        _log.info("certificate-read-again", file=str(self._files.certificate))

    def _state(self) -> tuple[object, ...]:
        files = (self._files.certificate, self._files.key, self._files.client_ca)
        found: list[object] = []
        for each in files:
            try:
                about = each.stat() if each is not None else None
            except OSError:
                about = None
            found.append(about and (about.st_ino, about.st_mtime_ns, about.st_size))
        return tuple(found)


def _context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    try:
        if files.key.stat().st_mode & stat.S_IRWXO:
            raise UsageError(
                "everybody on this machine may use the key of the certificate",
                hint=f"chmod 600 {files.key}",
                file=str(files.key),
            )
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # an SSLError is one
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        raise UsageError(
            f"the certificate cannot be used: {str(reason).lower().replace('_', ' ')}",
            hint="give PEM files of a certificate and of its key, of RSA with 2048 bits or more "
            "or of an elliptic curve, without a password",
            certificate=str(files.certificate),
            key=str(files.key),
        ) from None
    return context


def _no_password() -> str:
    """Asked for only where there is one: a service must not ask at a terminal."""
    raise UsageError(
        "the key of the certificate has a password",
        hint="take it off: openssl pkey -in KEY -out NEW, and chmod 600 NEW",
    )
