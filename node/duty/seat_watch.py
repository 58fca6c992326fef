"""The start of sign-states at changes of the active set, and log lines about seats that the node takes or leaves.

Invariant: a sign-state begins at the tip, for a key in neither the current nor the next active set. Such a key is in
use nowhere, and its file holds every later signature. If the operator asks for a sign-state, it begins after the node
has listened at the tip for an epoch without a signature from another machine. A new sign-state refuses every round up
to the newest final one.
"""

from __future__ import annotations

import logging

from node.clock import Clock
from node.config import Paths
from node.duty.heart import is_at_tip
from node.duty.seat import named
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.listener import Listener
from runtime.pallets.staking.elections import why_not
from runtime.pallets.staking.stakers import Why
from runtime.pallets.staking.trust_stake import TrustStake

LISTEN_STEP_MS = 5_000
"""The most listening time that counts between two checks. A machine that slept received nothing."""
SETTLE_MS = 20_000
"""The listening time before votes are evidence. By then the rounds that were open at the node's start are final."""
UNSEATED = {
    Why.NOT_OFFERED: "it is no candidate",
    Why.TOMBSTONED: "it is tombstoned for an offence",
    Why.JAILED: "it is in jail: run `ogpu-wallet unjail`",
    Why.OFF_LINE: "it had no block, vote or heartbeat in epoch {ended}",
    Why.TOO_SMALL: "its own bond is below the minimum",
}
"""The sentences for a stash that did not qualify for an election."""
OUT_RANKED = "other candidates were elected (`ogpu-wallet candidates` shows the ranks)"
_LOG = logging.getLogger(__name__)


class SeatWatch(Listener):
    """A check of the active sets for the keys of one node, at each final block."""

    def __init__(self, validator_keys: ValidatorKeys, chain: Chain, paths: Paths, clock: Clock) -> None:
        self._validator_keys = validator_keys
        self._chain = chain
        self._paths = paths
        self._clock = clock
        self._seat = validator_keys.seat(self._next_epoch())
        self._outcomes: dict[int, str] = {}
        """Reasons for epochs in which this node's stash was not elected, by the state of the election."""
        self._refused: set[bytes] = set()
        self._jailed_stashes: set[bytes] = set()
        self._listened_ms = 0
        self._looked_ms: int | None = None
        self._looked_height = chain.final.facts.height

    def listen(self, *, has_peers: bool) -> None:
        """Count the time in which other machines could be heard; after an epoch of it, begin the sign-states."""
        now_ms, last_look_ms = self._clock.now_ms(), self._looked_ms
        self._looked_ms = now_ms
        new_keys = [key for key in self._validator_keys.sessions.values() if key.file is None and not key.is_copied]
        if not new_keys or last_look_ms is None:
            return
        # A node that syncs old blocks receives old votes, which say nothing about machines that sign at present.
        if self._catches_up(now_ms):
            self._listened_ms = 0
            for key in new_keys:
                key.heard_since = None
        elif self._is_alone() or (has_peers and self._has_tip(now_ms)):
            self._listened_ms += min(now_ms - last_look_ms, LISTEN_STEP_MS)
        if self._listened_ms < SETTLE_MS:
            return
        for key in new_keys:
            key.heard_since = key.heard_since or self._final_round()
        parameters = self._chain.parameters
        if self._listened_ms < SETTLE_MS + parameters.epoch_blocks * parameters.slot_ms:
            return
        for key in new_keys:
            if key.is_listening:
                self._begin_sign_state(key)

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        """Begin the sign-states that may begin, and log a seat that was taken or left."""
        is_waiting = any(key.file is None for key in self._validator_keys.sessions.values())
        if is_waiting and is_at_tip(self._chain, blocks[-1].facts, self._clock.now_ms()):
            self._begin_sign_states()
        self._report_jail(blocks[-1])
        for block in blocks:
            self._note_election(block)
        next_epoch = self._next_epoch()
        own_seat = self._validator_keys.seat(next_epoch)
        if own_seat is not None and (self._seat is None or own_seat.session != self._seat.session):
            _LOG.info("takes its seat in epoch %d, with the key 0x%s", next_epoch, own_seat.session.hex())
        elif own_seat is None and self._seat is not None:
            reason = self._why_unseated(self._seat.stash, next_epoch)
            _LOG.info(
                "has no seat in epoch %d, and follows the chain%s",
                next_epoch,
                reason and f": {reason}",
            )
        self._seat = own_seat

    def _note_election(self, election_block: ExecutedBlock) -> None:
        """Record the election result of the seated stash, in the first block of an epoch, which elects the next set."""
        block_height, parameters = election_block.facts.height, self._chain.parameters
        if self._seat is None or not parameters.is_boundary(block_height - 1):
            return
        # The first block of an epoch elects the next epoch's set, by the activity in the epoch before it.
        first_epoch = parameters.epoch_of(block_height) + 1
        reason = self._why_not_elected(election_block, self._seat.stash, first_epoch - 2)
        self._outcomes = {first_epoch: OUT_RANKED if reason is None else UNSEATED[reason].format(ended=first_epoch - 2)}

    def _why_unseated(self, stash: bytes, epoch: int) -> str:
        """Return the reason for a lost seat in an epoch; empty if neither election nor final state shows one."""
        if epoch in self._outcomes:
            return self._outcomes[epoch]
        reason = self._why_not_elected(self._chain.final, stash, epoch - 2)
        return "" if reason is None else UNSEATED[reason].format(ended=epoch - 2)

    def _why_not_elected(self, election_block: ExecutedBlock, stash: bytes, ended_epoch: int) -> Why | None:
        return why_not(self._chain.runtime.at(election_block.state)[TrustStake], stash, ended_epoch)

    def _report_jail(self, block: ExecutedBlock) -> None:
        stake = self._chain.runtime.at(block.state)[TrustStake]
        jailed_stashes = {
            jailed_stash
            for jailed_stash in stake.owners(self._validator_keys.sessions)
            if stake.jailed[jailed_stash] is not None
        }
        for jailed_stash in jailed_stashes - self._jailed_stashes:
            _LOG.warning(
                "the candidate 0x%s is in jail, because it was off line for too long. No election seats it before "
                "`ogpu-wallet unjail`", jailed_stash.hex(),
            )  # fmt: skip
        self._jailed_stashes = jailed_stashes

    def _begin_sign_states(self) -> None:
        waiting_keys = [waiting_key for waiting_key, key in self._validator_keys.sessions.items() if key.file is None]
        keys_in_use = named(self._chain, waiting_keys)
        for waiting_key in waiting_keys:
            key = self._validator_keys.sessions[waiting_key]
            if waiting_key not in keys_in_use:
                if not key.is_copied:
                    self._begin_sign_state(key)
            elif waiting_key not in self._refused and not key.is_listening:
                # Once for each key: this runs at every final block.
                self._refused.add(waiting_key)
                _LOG.error(
                    "this node has no record of the signatures of the seated key 0x%s, so it does not sign with "
                    "it. If the key has never signed on this chain, start once with --init-sign-state",
                    waiting_key.hex(),
                )

    def _begin_sign_state(self, key: SigningKey) -> None:
        session = key.pair.public
        key.file = SignStateFile.create(
            self._paths.sign_state(session),
            self._chain.genesis,
            session,
            # The file lacks any earlier signature, so it refuses the rounds in which there could be one.
            floor_round=self._final_round(),
            final_height=self._chain.final.facts.height,
        )
        _LOG.info("may sign with the key 0x%s when it is elected", session.hex())

    def _catches_up(self, now_ms: int) -> bool:
        """Return True if an old block became final since the last check."""
        final_height, self._looked_height = self._looked_height, self._chain.final.facts.height
        return self._looked_height != final_height and not self._has_tip(now_ms)

    def _has_tip(self, now_ms: int) -> bool:
        """Return True if the final block is recent, or is the trusted checkpoint of an operator of a halted chain."""
        final, checkpoint = self._chain.final.facts, self._chain.rules.checkpoint
        is_named = checkpoint is not None and checkpoint.id == final.id
        return is_named or is_at_tip(self._chain, final, now_ms)

    def _final_round(self) -> tuple[int, int]:
        """Return the epoch and round of the newest final certificate; (0, 0) before the first one."""
        certificate = self._chain.final_certificate
        return (0, 0) if certificate is None else (certificate.ballot.epoch, certificate.ballot.round)

    def _is_alone(self) -> bool:
        """Return True if the active set has one member: its chain goes on without any peer."""
        epoch = self._chain.epochs(self._next_epoch())
        return epoch is not None and len(epoch.validators.members) == 1

    def _next_epoch(self) -> int:
        return self._chain.parameters.epoch_of(self._chain.final.facts.height + 1)
