"""Who certified in which epoch, from the genesis on: a node shows the handoffs, and each is followed.

Invariant: a set is known by the handoffs from the genesis to it, each certified by the set before; a node can
cause no more work than one certificate for each page that proves nothing, for the first bad handoff ends it.
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
"""Epochs to follow at once from which on a person is told: with 128 validators each takes some 25 ms."""


class KnownSets:
    """The sets of one chain, as far as they were asked for; kept in `file` from program to program."""

    def __init__(
        self,
        url: str,
        ask: AskNode,
        root: TrustRoot,
        file: SetsFile | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`tell` hears of a long way."""
        self._url = url
        self._ask = ask
        self._root = root
        self._file = file
        self._tell = tell
        self._table = (file.load() if file is not None else None) or SetTable(root.first_set)
        self._older: SetTable | None = None
        self._walking = asyncio.Lock()

    async def of(self, epoch: int) -> ValidatorSet:
        """Return the set of an epoch; NodeRefutedError if the node does not show who sits in it."""
        found = self._table.of(epoch)
        if found is not None:
            return found
        async with self._walking:
            table = self._table if epoch >= self._table.first else self._from_genesis()
            await self._reach(table, epoch)
        found = table.of(epoch)
        assert found is not None, "it was reached"
        return found

    def forget(self) -> None:
        """They are of another history: ask for all of them again, the next time too."""
        self._table, self._older = SetTable(self._root.first_set), None
        if self._file is not None:
            self._file.remove()

    def _from_genesis(self) -> SetTable:
        """For epochs from before what the file holds."""
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
