"""Whether workers run within walls: what the operator asks for, and what this machine has.

Always: who asks for walls gets them or no work; who leaves it open is told what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.provider.commands.options import ProviderError
from gpu_tasks.provider.execution.sandbox import NoSandboxError, Sandbox, find_sandbox

WHERE_POSSIBLE, ALWAYS, NEVER = "auto", "bubblewrap", "none"
LEFT_OUT = "workers run under their limits alone, because --sandbox none asks for it"


@dataclass(frozen=True, slots=True)
class Walls:
    """The sandbox that workers get; or None, and why."""

    sandbox: Sandbox | None
    problem: str | None = None


def walls_for(wish: str) -> Walls:
    """What comes of a wish on this machine; ProviderError where walls are asked for that it does not have."""
    if wish == NEVER:
        return Walls(None, LEFT_OUT)
    try:
        return Walls(find_sandbox())
    except NoSandboxError as error:
        if wish == ALWAYS:
            raise ProviderError(str(error)) from None
        return Walls(None, str(error))
