"""What is said when a version could not be started, and of what runs then."""

from __future__ import annotations

from atoll.errors import DeployError
from atoll.microbatch.outcome import failure_of

_AGAIN = "it is tried again every few seconds; or mend the cause and deploy again"


def not_started(module: str, error: BaseException) -> DeployError:
    """The new version could not be started, and the one before runs again."""
    failure = failure_of(error)
    return DeployError(
        f"the new version of module {module!r} could not be started: {failure.message}; the "
        "version before runs again",
        hint=failure.hint or "mend the cause and deploy again",
        **{**failure.context, "because": failure.code},
    )


def nothing_runs(
    module: str, error: BaseException, first: BaseException | None = None
) -> DeployError:
    """The version before could not be started either.

    Args:
        module: The module.
        error: Why not.
        first: Why the new version could not; None when that was told before.
    """
    failure = failure_of(error)
    began = ""
    if first is not None:
        began = f"the new version could not be started: {failure_of(first).message}; "
    return DeployError(
        f"{began}the version before could not be started again: {failure.message}; module "
        f"{module!r} does not run",
        hint=_AGAIN if failure.hint is None else f"{failure.hint}; {_AGAIN}",
        **{**failure.context, "because": failure.code},
    )
