"""Secrets to the program that waits for them, through the tunnel and no other way.

Always: they are handed to who has the task by the final chain, and who proved it; they lie on no disk of ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_tasks.tunnel.frames import HANDED, SECRETS_BYTES_MAX, HandedSecret, TakeSecrets
from gpu_tasks.tunnel.multiplexer import Multiplexer, TunnelError


async def hand_secrets(tunnel: Multiplexer, secrets: Mapping[str, bytes]) -> None:
    """Hand over all that a task names; TunnelError where they are not taken."""
    if sum(map(len, secrets.values())) > SECRETS_BYTES_MAX:
        raise TunnelError(f"secrets have at most {SECRETS_BYTES_MAX:,} bytes: seal data as inputs")
    stream = await tunnel.open(TakeSecrets())
    await stream.write(HANDED.encode(tuple(HandedSecret(name, secrets[name]) for name in sorted(secrets))))
    await stream.end_input()
    end = await stream.end
    if end.problem:
        raise TunnelError(end.problem)
