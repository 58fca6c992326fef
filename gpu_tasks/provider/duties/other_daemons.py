"""Another daemon with the same provider key: one of the two must stop.

Two daemons would both compute each race, and customers fetch results only from the endpoint on the chain. Invariant:
only a signature of the provider key over a fresh nonce counts. An unreachable endpoint stops no daemon.
"""

from __future__ import annotations

import secrets

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.market_reads import endpoint_of
from gpu_tasks.data.presence import NONCE_BYTES, prove_presence, proven_instance
from gpu_tasks.provider.chain.port import ChainError, NetworkPort, View
from gpu_tasks.provider.duties.devices import StandingError
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.keyed_tasks import KeyedTasks
from gpu_tasks.provider.duties.parts import Parts

CHECK_EVERY_BLOCKS = 64
"""Two daemons that start at once, or while the endpoint is unreachable, are noticed later."""
_CHECK = b"check"


class OtherDaemonError(StandingError):
    """Another daemon with this provider key answers at the registered endpoint."""


class OtherDaemons(Duty):
    """The proof of this daemon's presence, and the check of the registered endpoint for another daemon."""

    def __init__(self, parts: Parts[NetworkPort]) -> None:
        """Choose this process's instance."""
        self._parts = parts
        self._instance = secrets.token_bytes(32)
        self._found: OtherDaemonError | None = None
        self.tasks = KeyedTasks()
        self.running = (self.tasks,)

    def prove(self, presence_nonce: bytes) -> bytes:
        """Return the proof that this daemon runs."""
        identity = self._parts.identity
        return prove_presence(presence_nonce, self._instance, identity.genesis, identity.key.sign)

    async def check(self) -> None:
        """Raise OtherDaemonError if another live daemon of this key answers at the endpoint, or ChainError."""
        identity = self._parts.identity
        provider = await self._parts.chain.provider(identity.stash)
        endpoint = None if provider is None else endpoint_of(provider)
        if endpoint is None:
            return
        presence_nonce = secrets.token_bytes(NONCE_BYTES)
        try:
            answer = await self._parts.blobs.presence_of(endpoint, presence_nonce)
        # An unreachable endpoint is normal at the start: it may be this daemon's own, which does not listen yet.
        except BlobError:
            return
        instance = proven_instance(answer, presence_nonce, identity.genesis, identity.key.public_key)
        if instance is not None and instance != self._instance:
            raise OtherDaemonError(
                f"another daemon with this provider key runs at {endpoint}. Two daemons compute the same races, and "
                "customers find only one's results. Stop it first, or use another stash and key here"
            )

    async def step(self, view: View) -> None:
        """Check again in the background every `CHECK_EVERY_BLOCKS`. Raise OtherDaemonError if a check found one."""
        if self._found is not None:
            raise self._found
        if view.height % CHECK_EVERY_BLOCKS == 0:
            self.tasks.start(_CHECK, self._check_again())

    async def _check_again(self) -> None:
        try:
            await self.check()
        except OtherDaemonError as error:
            self._found = error
        except ChainError:
            return  # the next check tries again
