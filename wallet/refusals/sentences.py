"""The sentence of each error. Pure: a sentence is a function of a state and of the refused call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.encoding.types import Signed
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.session import NoAssociatedValidator
from runtime.pallets.staking import staking_events as errors
from runtime.pallets.utility import Utility
from wallet.refusals import bonds, delegations, offers
from wallet.refusals.refused_call import RefusedCall

Sentence = Callable[[RefusedCall], str]
BATCH = Utility.batch_all(calls=()).method


def too_small(refused_call: RefusedCall) -> str:
    """Return the sentence for a bond or a delegation that is too small."""
    is_about_bond = refused_call.name in ("bond", "bond_extra", "validate")
    return (bonds.bond_too_small if is_about_bond else delegations.delegation_too_small)(refused_call)


SENTENCES: Mapping[type[DispatchError], Sentence] = {
    errors.AlreadyBonded: bonds.already_bonded,
    errors.NotBonded: bonds.not_bonded,
    errors.BondTooSmall: too_small,
    errors.NotCandidate: offers.not_candidate,
    errors.StillCandidate: bonds.still_candidate,
    errors.TooManyCandidates: offers.too_many_candidates,
    errors.TooManyChunks: bonds.too_many_chunks,
    errors.NotEnoughStake: bonds.not_enough_stake,
    errors.NothingToWithdraw: bonds.nothing_to_withdraw,
    errors.UnsafeKey: offers.unsafe_key,
    errors.KeyTaken: offers.key_taken,
    errors.InvalidKeysProof: offers.invalid_keys_proof,
    NoAssociatedValidator: offers.not_candidate,
    errors.CommissionTooHigh: offers.commission_too_high,
    errors.IsTombstoned: offers.is_tombstoned,
    errors.NothingToClaim: delegations.nothing_to_claim,
    errors.PoolSpent: delegations.pool_spent,
    errors.SlashPending: bonds.slash_pending,
    errors.StillAnswering: delegations.still_answering,
    errors.TooManyMoves: delegations.too_many_moves,
    errors.SameValidator: delegations.same_validator,
    errors.CommissionTooLow: offers.commission_too_low,
    errors.CommissionFixed: offers.commission_fixed,
    errors.CommissionStep: offers.commission_step,
    errors.NoProfile: offers.no_profile,
    errors.NotTombstoned: offers.not_tombstoned,
    errors.NotJailed: offers.not_jailed,
}


def sentence_of(bound: Bound, call: Call, signer: bytes, error: DispatchError) -> str | None:
    """Return the sentence for a refused call on this state, which stays unchanged; None without one."""
    if call.method is BATCH:
        return _of_batch(bound, call, signer)
    sentence = SENTENCES.get(type(error))
    return None if sentence is None else sentence(RefusedCall(bound, call, signer))


def _of_batch(bound: Bound, batch: Call, signer: bytes) -> str | None:
    """Return the sentence for the refused call of a batch, after the calls before it."""
    refusal_text = None
    overlay = bound.overlay
    try:
        with overlay.transaction():
            # The calls before the refused one run too, because they change the state on which it fails.
            for inner_call in batch.named_arguments["calls"]:
                try:
                    with overlay.transaction():
                        bound.dispatch(inner_call, Signed(signer))
                except DispatchError as error:
                    # The raise below undoes the calls before this one, through the outer transaction.
                    refusal_text = sentence_of(bound, inner_call, signer, error)
                    raise
    except DispatchError:
        return refusal_text
    return None
