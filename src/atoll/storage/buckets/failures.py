"""What an object store's refusal means, and what may be said of it.

Texts of requests may hold addresses with signatures in them, so none of them is passed on: only
the store's own word for what is wrong (``SlowDown``, ``ExpiredToken``), or the HTTP status.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import ClassVar

from atoll.errors import StorageError


class CredentialsError(StorageError):
    """The object store does not accept who asks: expired, unknown or without the right."""

    code: ClassVar[str] = "E-STORE-CREDENTIALS"


class UnsafeStoreError(StorageError):
    """The object store cannot hold a root: two writers may both believe that they were first."""

    code: ClassVar[str] = "E-STORE-UNSAFE"


class UnknownOutcomeError(StorageError):
    """Whether an object was made is not known: the store did not answer in time.

    It may be there, or come to be there a while later. What was to be in it is in it, or it is
    not there; never a part of it.
    """

    code: ClassVar[str] = "E-STORE-UNKNOWN"


class Meaning(Enum):
    """What to do after a request that failed."""

    MISSING = "missing"
    TAKEN = "taken"
    REFUSED = "refused"
    CREDENTIALS = "credentials"
    PASSING = "passing"


_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_STATUS = re.compile(r"\b(?:status(?: code)?:?|error:?)\s*\(?([1-5]\d\d)\b", re.IGNORECASE)
_EXPIRED = frozenset(
    {
        "AccessDenied",
        "AuthenticationFailed",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
_PASSING_STATUS = frozenset({408, 409, 425, 429})
_CLIENT_ERRORS = range(400, 500)


def meaning_of(error: Exception) -> tuple[Meaning, str]:
    """What a failed request means, and in a word why; the word holds nothing secret."""
    kind, text = type(error).__name__, str(error)
    word = _word(kind, text)
    if isinstance(error, FileNotFoundError):
        return Meaning.MISSING, word
    if kind in {"AlreadyExistsError", "PreconditionError"}:
        return Meaning.TAKEN, word
    if kind in {"PermissionDeniedError", "UnauthenticatedError"} or word in _EXPIRED:
        return Meaning.CREDENTIALS, word
    if "redential" in text and "status" not in text.lower():  # none were found at all
        return Meaning.CREDENTIALS, "no credentials were found"
    status = _STATUS.search(text)
    code = int(status.group(1)) if status else 0
    if code in _CLIENT_ERRORS and code not in _PASSING_STATUS:
        return Meaning.REFUSED, word
    if kind in {"NotSupportedError", "InvalidPathError", "UnknownConfigurationKeyError"}:
        return Meaning.REFUSED, word
    return Meaning.PASSING, word


def _word(kind: str, text: str) -> str:
    code = _CODE.search(text)
    if code:
        return code.group(1)
    status = _STATUS.search(text)
    if status:
        return f"status {status.group(1)}"
    lower = text.lower()
    for sign, word in (
        ("timed out", "no answer in time"),
        ("timeout", "no answer in time"),
        ("connection refused", "connection refused"),
        ("dns", "its name is not known"),
        ("connect", "no connection"),
    ):
        if sign in lower:
            return word
    return kind.removesuffix("Error") or "failed"
