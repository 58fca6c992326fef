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
    """The known sets of one chain, stored in a file from program to program."""

    def __init__(
        self,
        url: str,
        ask_node: AskNode,
        trust_root: TrustRoot,
        sets_file: SetsFile | None = None,
        report_progress: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Create it; `report_progress` receives a message before a long walk."""
        self._url = url
        self._ask = ask_node
        self._root = trust_root
        self._file = sets_file
        self._tell = report_progress
        self._table = (sets_file.load() if sets_file is not None else None) or SetTable(trust_root.first_set)
        self._older: SetTable | None = None
        self._walking = asyncio.Lock()

    async def of(self, epoch: int) -> ValidatorSet:
        """Return the set of an epoch. Raise NodeRefutedError if the node does not prove it."""
        validator_set = self._table.of(epoch)
        if validator_set is not None:
            return validator_set
        # One walk at a time: concurrent readers would fetch and check the same handoffs.
        async with self._walking:
            set_table = self._table if epoch >= self._table.first else self._from_genesis()
            await self._reach(set_table, epoch)
        validator_set = set_table.of(epoch)
        assert validator_set is not None, "it was reached"
        return validator_set

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

    async def _reach(self, set_table: SetTable, target_epoch: int) -> None:
        epoch_distance = target_epoch - set_table.newest.epoch
        if epoch_distance >= TOLD_FROM:
            self._tell(
                f"following the validators of {epoch_distance:,} epochs, from {set_table.newest.epoch:,} to "
                f"{target_epoch:,}"
            )
        while set_table.newest.epoch < target_epoch:
            next_epoch = set_table.newest.epoch
            answer = await self._ask("ogpu_handoffs", next_epoch, min(PAGE, target_epoch - next_epoch))
            with about(self._url, f"who sits in epoch {target_epoch}"):
                handoffs_page = bytes_list(answer)
                # An empty page would make the walk endless.
                require(
                    0 < len(handoffs_page) <= PAGE, f"it shows {len(handoffs_page)} handoffs from epoch {next_epoch} on"
                )
                for encoded_handoff in handoffs_page:
                    self._step(set_table, encoded_handoff)
        if epoch_distance > 0 and set_table is self._table and self._file is not None:
            self._file.keep(set_table)

    def _step(self, set_table: SetTable, encoded_handoff: bytes) -> None:
        try:
            root, handoff = self._root, HANDOFF.decode(encoded_handoff)
            set_table.write(follow(set_table.newest, handoff, root.parameters, root.genesis, verify_ed25519))
        except InvalidHandoffError as error:
            raise RefutedError(f"the handoff of epoch {set_table.newest.epoch}: {error}") from error
