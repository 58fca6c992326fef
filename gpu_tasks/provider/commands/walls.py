"""The sandbox of workers: the operator's wish, and this machine's means.

Invariant: with `--sandbox bubblewrap` no worker runs without a sandbox. With `auto` the daemon says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.models.model_store import default_folder
from gpu_tasks.provider.commands.options import ProviderError
from gpu_tasks.provider.execution.sandbox import NoSandboxError, Sandbox, find_sandbox

WHERE_POSSIBLE, ALWAYS, NEVER = "auto", "bubblewrap", "none"
LEFT_OUT = "workers run without a sandbox, because of --sandbox none"


@dataclass(frozen=True, slots=True)
class Walls:
    """The sandbox of workers, or the reason for none."""

    sandbox: Sandbox | None
    problem: str | None = None


def walls_for(wish: str) -> Walls:
    """Return the sandbox for a wish. Raise ProviderError if `bubblewrap` is asked for and missing."""
    if wish == NEVER:
        return Walls(None, LEFT_OUT)
    try:
        return Walls(find_sandbox((default_folder(),)))
    except NoSandboxError as error:
        # An operator that asks for the sandbox must not serve strangers' requests without it.
        if wish == ALWAYS:
            raise ProviderError(str(error), code=error.code) from None
        return Walls(None, str(error))
