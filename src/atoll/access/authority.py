"""Says who calls, from what a request presents; the same for every door of the service."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from atoll.access.files import access_folder
from atoll.access.oidc import Oidc, OidcSettings
from atoll.access.roles import Caller, Role, local_caller
from atoll.access.sessions import Session, Sessions
from atoll.access.throttle import Throttle
from atoll.access.token_file import LiveTokens, TokenFile
from atoll.access.tokens import PREFIX, Token, known_id, proved
from atoll.errors import ThrottledError, UnauthenticatedError, UsageError
from atoll.storage.places import Place

__all__ = ["Authority", "Presented"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Presented:
    """What a request shows of who sends it.

    Attributes:
        address: Where it comes from.
        bearer: The token of its ``Authorization`` header.
        session: The session of its cookie.
        user: The user at the other end of a Unix socket.
        problem: Why what it presents can be no credential at all.
    """

    address: str
    bearer: str | None = None
    session: str | None = None
    user: int | None = None
    problem: str | None = None


class Authority:
    """Who may call a service.

    Args:
        tokens: The tokens. As long as there have never been any, nobody is asked.
        sessions: Those of browsers.
        oidc: Says who tokens are that somebody else signs; they are not taken without.
        now_ms: The time, in milliseconds since 1970.
        clock: Seconds, for counting failed tries.
    """

    def __init__(
        self,
        tokens: LiveTokens,
        sessions: Sessions,
        oidc: Oidc | None = None,
        *,
        now_ms: Callable[[], int] = _now_ms,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sessions = sessions
        self.now_ms = now_ms
        self._tokens = tokens
        self._oidc = oidc
        self._throttle = Throttle(clock)

    @classmethod
    def of(
        cls, root: Place, tokens: Path | None = None, oidc: OidcSettings | None = None
    ) -> Authority:
        """That of a root; with its tokens in the root, or in a file that must be there.

        Raises:
            UsageError: When a file of it cannot be used.
        """
        file = TokenFile.of(root) if tokens is None else TokenFile(tokens)
        live = LiveTokens(file, required=tokens is not None)
        signed = None if oidc is None else Oidc(oidc)
        return cls(live, Sessions(access_folder(root)), signed)

    @property
    def required(self) -> bool:
        """Whether callers must say who they are.

        Raises:
            StorageError: When the tokens cannot be read any more.
        """
        return self._oidc is not None or self._tokens.present() is not None

    def is_slow(self, presented: Presented) -> bool:
        """Whether saying who calls may take a while, since others are asked."""
        return self._oidc is not None and self._is_signed(presented.bearer)

    def _is_signed(self, bearer: str | None) -> bool:
        return bearer is not None and not bearer.startswith(PREFIX)

    def caller(self, presented: Presented) -> Caller | None:
        """Who calls; None when nothing is presented where something must be.

        Raises:
            UnauthenticatedError: When what is presented is worth nothing.
            ThrottledError: After too many such tries.
            StorageError: When the tokens cannot be read any more.
        """
        tokens = self._all()
        if tokens is None:
            return local_caller()
        if presented.problem is None and presented.bearer is None:
            if presented.user is not None and presented.user in {os.geteuid(), 0}:
                # Who runs the service, or the machine, can read and change all of it anyway.
                return Caller(f"user {presented.user} of this machine", Role.ADMIN, "socket")
            if presented.session is None:
                return None
            # It is signed: no number of tries finds one, so one that has ended holds up nobody.
            return self.session(presented.session).caller
        key = (presented.address, known_id(tokens, presented.bearer or "") or "")
        wait_seconds = self._throttle.wait_seconds(key)
        if wait_seconds:
            raise ThrottledError(
                "too many tries with what is not known here",
                hint=f"try again in {wait_seconds} s, with a token that is",
                retry_after_seconds=wait_seconds,
            )
        try:
            return self._bearer(tokens, presented)[0]
        except UnauthenticatedError:
            self._throttle.failed(key)
            raise

    def _all(self) -> tuple[Token, ...] | None:
        """The tokens; None where nobody is asked."""
        tokens = self._tokens.present()
        return () if tokens is None and self._oidc is not None else tokens

    def _bearer(self, tokens: tuple[Token, ...], presented: Presented) -> tuple[Caller, int | None]:
        """Who a token is, and when it ends."""
        if presented.problem is not None or presented.bearer is None:
            raise UnauthenticatedError(
                presented.problem or "no token was sent",
                hint="send one header: Authorization: Bearer TOKEN",
            )
        if self._oidc is not None and self._is_signed(presented.bearer):
            return self._oidc.known(presented.bearer)
        token = proved(tokens, presented.bearer, self.now_ms())
        return token.caller(), token.expires_ms

    def session(self, text: str) -> Session:
        """The session that a text is, while the token that it was made of is taken.

        Raises:
            UnauthenticatedError: When it has ended, or never was.
        """
        session = self.sessions.read(text, self.now_ms())
        of = session.caller.token
        token = next((each for each in self._tokens.present() or () if each.id == of), None)
        if of is not None and (token is None or token.ended(self.now_ms()) is not None):
            raise UnauthenticatedError("the session has ended", hint="log in again")
        return session

    def log_in(self, presented: Presented) -> Session:
        """A session in exchange for a token.

        Raises:
            UnauthenticatedError: When the token is worth nothing.
            ThrottledError: After too many such tries.
            UsageError: Where nobody is asked who calls.
        """
        tokens = self._all()
        if tokens is None:
            raise UsageError("this service asks nobody who calls", hint="go on without logging in")
        if self.caller(presented) is None:  # which counts failed tries
            raise UnauthenticatedError("no token was sent", hint='send {"token": "atoll_..."}')
        caller, ends = self._bearer(tokens, presented)
        return self.sessions.open(caller, self.now_ms(), ends)
