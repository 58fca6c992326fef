"""The active set of each epoch from the genesis on: a node shows the handoffs, and each is checked in turn.

Invariant: a set is known by the handoffs from the genesis to it, each certified by the set before. The first bad
handoff ends the walk, so a node causes at most one useless certificate check per page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from consensus.handoffs import HANDOFF, InvalidHandoffError, follow
from consensus.sets import SetTable
from consensus.validators import ValidatorSet
from runtime.cryptography.signatures import verify_ed25519
from wallet.proved.finality import TrustRoot
from wallet.proved.json_forms import bytes_list
from wallet.proved.refutation import RefutedError, about, require
from wallet.proved.sets_file import SetsFile
from wallet.proved.view import AskNode

PAGE = 16
TOLD_FROM = 256
"""The number of epochs to follow at once from which a person is told: with 128 validators each takes about 25 ms."""


class KnownSets:
    """The known sets of one chain, stored in `file` from program to program."""

    def __init__(
        self,
        url: str,
        ask: AskNode,
        root: TrustRoot,
        file: SetsFile | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Create it; `tell` receives a message before a long walk."""
        self._url = url
        self._ask = ask
        self._root = root
        self._file = file
        self._tell = tell
        self._table = (file.load() if file is not None else None) or SetTable(root.first_set)
        self._older: SetTable | None = None
        self._walking = asyncio.Lock()

    async def of(self, epoch: int) -> ValidatorSet:
        """Return the set of an epoch. Raise NodeRefutedError if the node does not prove it."""
        found = self._table.of(epoch)
        if found is not None:
            return found
        # One walk at a time: concurrent readers would fetch and check the same handoffs.
        async with self._walking:
            table = self._table if epoch >= self._table.first else self._from_genesis()
            await self._reach(table, epoch)
        found = table.of(epoch)
        assert found is not None, "it was reached"
        return found

    def forget(self) -> None:
        """Drop all sets, because they belong to another history; later calls ask again."""
        self._table, self._older = SetTable(self._root.first_set), None
        if self._file is not None:
            self._file.remove()

    def _from_genesis(self) -> SetTable:
        """Return the table for epochs before the file's first one."""
        if self._older is None:
            self._older = SetTable(self._root.first_set)
        return self._older

    async def _reach(self, table: SetTable, epoch: int) -> None:
        way = epoch - table.newest.epoch
        if way >= TOLD_FROM:
            self._tell(f"following the validators of {way:,} epochs, from {table.newest.epoch:,} to {epoch:,}")
        while table.newest.epoch < epoch:
            first = table.newest.epoch
            answer = await self._ask("ogpu_handoffs", first, min(PAGE, epoch - first))
            with about(self._url, f"who sits in epoch {epoch}"):
                page = bytes_list(answer)
                # An empty page would make the walk endless.
                require(0 < len(page) <= PAGE, f"it shows {len(page)} handoffs from epoch {first} on")
                for handoff in page:
                    self._step(table, handoff)
        if way > 0 and table is self._table and self._file is not None:
            self._file.keep(table)

    def _step(self, table: SetTable, handoff: bytes) -> None:
        try:
            root = self._root
            table.write(follow(table.newest, HANDOFF.decode(handoff), root.parameters, root.genesis, verify_ed25519))
        except InvalidHandoffError as error:
            raise RefutedError(f"the handoff of epoch {table.newest.epoch}: {error}") from error
