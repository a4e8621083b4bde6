"""Whole messages over a stream socket, and how both ends prove that they know a secret.

A message is its length, a check of that, and its bytes: who lost the place in the stream notices,
and does not wait for as many bytes as some text in the middle comes to. Before the first one the
driver sends a random challenge, and the task answers with what it says of itself, a challenge of
its own and a digest of all that under the secret; then the driver proves the same. Nothing of a
message is looked at, and nothing is unpickled, before the other end has proved itself. Digests are
compared in constant time.

The scheme is challenge and response with HMAC (RFC 2104) over SHA-256; the two directions carry
different labels, so that no answer can be sent back as one's own.
"""

from __future__ import annotations

import errno
import hmac
import secrets
import select
import socket
import struct
import time
import weakref
import zlib

HANDSHAKE_SECONDS_MAX = 10.0
_LENGTH = struct.Struct("!Q")
_HEADER = struct.Struct("!QI")
_CHALLENGE_BYTES = 32
_DIGEST_BYTES = 32
_HELLO_BYTES_MAX = 1024
_COPIED_BYTES_MAX = 64 * 1024
"""Up to this size it is cheaper to copy a message behind its length than to send twice."""
_KEEPALIVE = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 11_000,
}
"""A host that vanished without a word is noticed after so many seconds and tries; after so many
milliseconds, when it owes an answer."""


class ImpostorError(Exception):
    """The other end does not know the secret, or does not speak this protocol."""


class OutOfPlaceError(OSError):
    """What came is not the beginning of a message, so nothing can follow it."""


class Wire:
    """One connected socket. Used by one thread at a time, except for :meth:`sever`.

    Args:
        connected: A stream socket; the wire closes it.
    """

    def __init__(self, connected: socket.socket) -> None:
        """Small messages leave at once, and a silent end is noticed."""
        self._socket = connected
        # The last one who uses it closes it: nobody else knows when that is. Not in __del__: in a
        # cycle, as failures and their traces make them, the socket may go first, and complain.
        weakref.finalize(self, connected.close)
        connected.settimeout(None)
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE.items():
                if hasattr(socket, name):
                    connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def fileno(self) -> int:
        """The descriptor, to wait for messages on several wires at once."""
        return self._socket.fileno()

    def send(self, message: bytes, until: float | None = None) -> None:
        """Send a message.

        Args:
            message: The bytes.
            until: When to give up, by ``time.monotonic()``.

        Raises:
            OSError: When the other end is gone; TimeoutError when it takes nothing.
        """
        self._socket.settimeout(_left(until))
        header = header_of(len(message))
        if len(message) <= _COPIED_BYTES_MAX:
            self._socket.sendall(header + message)
        else:
            self._socket.sendall(header)
            self._socket.sendall(message)

    def receive(self, until: float | None = None, bytes_max: int | None = None) -> bytearray:
        """The next message.

        Args:
            until: When to give up, by ``time.monotonic()``.
            bytes_max: The most that the other end may send.

        Raises:
            EOFError: When the other end is gone.
            OSError: When the connection broke, or what comes is not the beginning of a message;
                TimeoutError when no whole message came.
            ImpostorError: When there is a most, and the message is longer or is none.
        """
        header = self._exactly(_HEADER.size, until)
        length, _ = _HEADER.unpack(header)
        if header != header_of(length):
            said = "what came is not the beginning of a message"
            raise ImpostorError(said) if bytes_max else OutOfPlaceError(errno.EPROTO, said)
        if bytes_max is not None and length > bytes_max:
            raise ImpostorError(f"a message of {length} bytes where {bytes_max} are the most")
        return self._exactly(length, until)

    def _exactly(self, length: int, until: float | None) -> bytearray:
        data = bytearray(length)
        rest = memoryview(data)
        while rest:
            self._socket.settimeout(_left(until))
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError("the other end is gone")
            rest = rest[count:]
        return data

    def is_quiet(self) -> bool:
        """Whether the other end is there and has said nothing that was not asked for."""
        return not self.waits_for_message(0)

    def waits_for_message(self, seconds: float) -> bool:
        """Whether something came, if only the end; waits for it so long."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        try:
            return bool(poll.poll(max(0.0, seconds) * 1000))
        except (OSError, ValueError):
            return True

    def await_end(self, seconds_max: float) -> bool:
        """Wait until the other end is gone, whatever it says before; False when it stays.

        What it says may be the rest of a message, so it is not read as messages.
        """
        until = time.monotonic() + seconds_max
        try:
            while True:
                self._socket.settimeout(_left(until))
                if not self._socket.recv(_COPIED_BYTES_MAX):
                    return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def sever(self) -> None:
        """Let whoever sends or receives on either end fail at once. For other threads too."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # it is gone already
            return

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


def header_of(length: int) -> bytes:
    """What stands before a message of so many bytes: the length and a check of it.

    The bytes themselves are the kernel's to keep.
    """
    return _HEADER.pack(length, zlib.crc32(_LENGTH.pack(length)))


def prove(wire: Wire, secret: bytes, hello: bytes) -> None:
    """The task's part: prove that it knows the secret, say what it is, and hold the driver to it.

    Args:
        wire: To whom.
        secret: What both ends know.
        hello: What the task says of itself.

    Raises:
        ImpostorError: When the driver does not prove itself.
        OSError: When the connection broke.
        EOFError: When the driver let go.
    """
    until = time.monotonic() + HANDSHAKE_SECONDS_MAX
    challenge = wire.receive(until, _CHALLENGE_BYTES)
    own = secrets.token_bytes(_CHALLENGE_BYTES)
    wire.send(_digest(secret, b"task", challenge, own, hello) + own + hello, until)
    answer = wire.receive(until, _DIGEST_BYTES)
    if not hmac.compare_digest(answer, _digest(secret, b"driver", own, challenge, hello)):
        raise ImpostorError("the driver does not know the secret")


def verify(wire: Wire, secret: bytes) -> bytes:
    """The driver's part; what the task says of itself, once it has proved that it may.

    Raises:
        ImpostorError: When it does not know the secret.
        OSError: When the connection broke or nothing came.
        EOFError: When it let go.
    """
    until = time.monotonic() + HANDSHAKE_SECONDS_MAX
    challenge = secrets.token_bytes(_CHALLENGE_BYTES)
    wire.send(challenge, until)
    answer = wire.receive(until, _DIGEST_BYTES + _CHALLENGE_BYTES + _HELLO_BYTES_MAX)
    digest, rest = answer[:_DIGEST_BYTES], answer[_DIGEST_BYTES:]
    theirs, hello = rest[:_CHALLENGE_BYTES], rest[_CHALLENGE_BYTES:]
    if not hmac.compare_digest(digest, _digest(secret, b"task", challenge, theirs, hello)):
        raise ImpostorError("a connection did not prove that it knows the secret")
    wire.send(_digest(secret, b"driver", theirs, challenge, hello), until)
    return bytes(hello)


def _digest(secret: bytes, label: bytes, *parts: bytes | bytearray) -> bytes:
    """Of all parts, each with its length, so that no two lists of parts are alike."""
    whole = b"".join(len(part).to_bytes(8, "big") + part for part in (label, *parts))
    return hmac.digest(secret, whole, "sha256")


def _left(until: float | None) -> float | None:
    if until is None:
        return None
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time is over")
    return left
