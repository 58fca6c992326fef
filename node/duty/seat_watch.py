"""What a validator's node does as sets come and go: it begins sign-states, and says which seats it takes and lays down.

What always holds: a sign-state is begun at the tip, for a key that no set names which is in office or elected; so the
key is in use nowhere, and what it signs later is recorded from its first signature on.
"""

from __future__ import annotations

import logging

from node.clock import Clock
from node.config import Paths
from node.duty.seat import named
from node.duty.signstate_file import SignStateFile
from node.duty.tip import is_at_tip
from node.duty.validator_keys import ValidatorKeys
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from runtime.pallets.staking.trust_stake import TrustStake

_LOG = logging.getLogger(__name__)


class SeatWatch(Listener):
    """Looks at the sets for the keys of one node, at each final block."""

    def __init__(self, keys: ValidatorKeys, chain: Chain, paths: Paths, clock: Clock) -> None:
        self._keys = keys
        self._chain = chain
        self._paths = paths
        self._clock = clock
        self._seat = keys.seat(self._epoch())
        self._refused: set[bytes] = set()
        self._jailed: set[bytes] = set()

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Begin what may be begun; tell of a seat that was taken or laid down."""
        is_waiting = any(key.file is None for key in self._keys.sessions.values())
        if is_waiting and is_at_tip(self._chain, blocks[-1].facts, self._clock.now_ms()):
            self._begin_sign_states()
        self._tell_of_jail(blocks[-1])
        epoch = self._epoch()
        seat = self._keys.seat(epoch)
        if seat is not None and (self._seat is None or seat.session != self._seat.session):
            _LOG.info("takes its seat in epoch %d, with the key 0x%s", epoch, seat.session.hex())
        elif seat is None and self._seat is not None:
            _LOG.info("has no seat in epoch %d: it follows the chain", epoch)
        self._seat = seat

    def _tell_of_jail(self, final: ExecutedBlock) -> None:
        stake = self._chain.runtime.at(final.state)[TrustStake]
        jailed = {stash for stash in stake.owners(self._keys.sessions) if stake.jailed[stash] is not None}
        for stash in jailed - self._jailed:
            _LOG.warning(
                "the candidate 0x%s is in jail: it gave no sign of life for too long, and no election seats it until "
                "`ogpu-wallet unjail`", stash.hex(),
            )  # fmt: skip
        self._jailed = jailed

    def _begin_sign_states(self) -> None:
        waiting = [session for session, key in self._keys.sessions.items() if key.file is None]
        in_use = named(self._chain, waiting)
        for session in waiting:
            if session not in in_use:
                path = self._paths.sign_state(session)
                self._keys.sessions[session].file = SignStateFile.create(path, self._chain.genesis, session)
                _LOG.info("may sign with the key 0x%s when it is elected", session.hex())
            elif session not in self._refused:
                self._refused.add(session)
                _LOG.error(
                    "the key 0x%s sits, and what it has signed is not known here: this node does not sign with it. "
                    "If it has never signed on this chain, start once with --init-sign-state", session.hex(),
                )  # fmt: skip

    def _epoch(self) -> int:
        return self._chain.parameters.epoch_of(self._chain.final.facts.height + 1)
