"""The keys that this node holds, and the record of each key's signatures.

Invariant: a key signs only with a complete sign-state. Either its file exists, or the key cannot have made a signature
that still counts. That is so on a chain that has not begun, and at the tip while no active set names the key. In any
other case the operator has to ask for a new file, which begins after an epoch of listening (`seat_watch`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from genesis import dev_accounts
from node.config import Config, Paths
from node.durable import move_durably
from node.duty.key_proofs import KEYS_MAX
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.errors import BadInputError
from node.ledger.chain import Chain
from runtime.pallets.staking.trust_stake import TrustStake

LAUNCH_MS = 3_600_000
"""The time after a chain's beginning in which its first validators may start for the first time without the option."""
_LOG = logging.getLogger(__name__)


def hold_keys(config: Config, paths: Paths, chain: Chain, age_ms: int = 0) -> ValidatorKeys | None:
    """Return the keys of this validator; None for a node that only follows.

    Raise `BadInputError` if a key, its VRF key or its sign-state is missing or unusable. `age_ms` is the time since the
    chain's beginning, if its specification gives one. An empty database does not show it.
    """
    if not config.is_validator:
        return None
    if chain.epochs(chain.parameters.epoch_of(chain.final.facts.height + 1)) is None:
        raise BadInputError(
            "the database is damaged: it lacks the validators after the last final block. Run `ogpu-node "
            "purge-chain` and sync again"
        )
    keystore = Keystore(paths.keystore)
    if config.dev_account is not None:
        seeds = (dev_accounts.key_seed(config.dev_account, kind) for kind in (dev_accounts.SESSION, dev_accounts.VRF))
        session, vrf = (KeyPair.from_seed(seed) for seed in seeds)
        sessions, vrf_keys = [session, *stored(keystore, SESSION)], [vrf, *stored(keystore, VRF)]
    else:
        sessions, vrf_keys = stored(keystore, SESSION), stored(keystore, VRF)
        if not sessions:
            raise BadInputError(
                f"--validator needs a session key, and {keystore.folder} has none. Insert one with `ogpu-node key "
                "insert --key-type ogpu --suri ...`, and its VRF key with --key-type ogvr"
            )
    _take_over(paths, chain)
    pairs_by_key = {pair.public: pair for pair in sessions}
    # Keys in use come first, because a hello has room for a few proofs.
    sessions = [pairs_by_key[public] for public in by_use(chain, pairs_by_key)]
    has_begun = chain.final.facts.height > 0 or age_ms > LAUNCH_MS
    signing_keys = [
        SigningKey(
            pair,
            _sign_state(config, paths, chain, pair.public, has_begun=has_begun),
            is_listening=config.init_sign_state,
        )
        for pair in sessions
    ]
    validator_keys = ValidatorKeys(chain.genesis, chain.epochs, signing_keys, vrf_keys)
    validator_keys.final_height = chain.final.facts.height
    _check_vrf(chain, sessions, vrf_keys, paths)
    return validator_keys


def named(chain: Chain, sessions: Iterable[bytes]) -> set[bytes]:
    """Return the keys of `sessions` with a seat in the current or next active set of the final chain."""
    stake = chain.runtime.at(chain.final.state)[TrustStake]
    current_epoch = chain.parameters.epoch_of(chain.final.facts.height + 1)
    seats = [seat for epoch in (current_epoch, current_epoch + 1) for seat in stake.validators(epoch)]
    return {seat.session_key for seat in seats} & set(sessions)


def by_use(chain: Chain, sessions: Iterable[bytes]) -> list[bytes]:
    """Return the keys in order: seated or elected, then registered, then the others. Peers see the first few."""
    stake, sessions = chain.runtime.at(chain.final.state)[TrustStake], list(sessions)
    seated_keys = named(chain, sessions)

    def is_registered(session: bytes) -> bool:
        owner_stash = stake.key_owner[session]
        candidate = None if owner_stash is None else stake.candidates[owner_stash]
        return candidate is not None and candidate.session_key == session

    return sorted(sessions, key=lambda session: (session not in seated_keys, not is_registered(session)))


def stored(keystore: Keystore, key_type: bytes) -> list[KeyPair]:
    """Return all keys of one type in a keystore.

    Raise `BadInputError` if there are more than `KEYS_MAX`, or if one is damaged.
    """
    public_keys = keystore.public_keys(key_type)
    if len(public_keys) > KEYS_MAX:
        raise BadInputError(
            f"{keystore.folder} holds {len(public_keys)} keys of one type, more than {KEYS_MAX}. Move away the keys "
            "that are in no set"
        )
    pairs = (keystore.pair(key_type, public) for public in public_keys)
    return [pair for pair in pairs if pair is not None]


def _take_over(paths: Paths, chain: Chain) -> None:
    """Move the sign-state file of an earlier layout, which had one key for a node, to the key that it names."""
    session = SignStateFile.session_of(paths.only_sign_state, chain.genesis)
    if session is None:
        return
    if paths.sign_state(session).exists():
        raise BadInputError(
            f"{paths.only_sign_state} and {paths.sign_state(session)} both record the signatures of one key. Keep "
            "the newer file, and remove the other"
        )
    move_durably(paths.only_sign_state, paths.sign_state(session))


def _sign_state(config: Config, paths: Paths, chain: Chain, session: bytes, *, has_begun: bool) -> SignStateFile | None:
    """Return the sign-state of a key; None if it may not begin yet."""
    path = paths.sign_state(session)
    file = SignStateFile.load(path, chain.genesis, session)
    if file is not None:
        return file
    is_named = bool(named(chain, [session]))
    if config.init_sign_state:
        # Operators use this option mostly with copied keys. Without listening, two machines would seal in one slot
        # within seconds.
        _LOG.info(
            "this node signs nothing with the key 0x%s for one epoch: it first listens for another machine with "
            "the same key",
            session.hex(),
        )
        return None
    if is_named and not has_begun:
        return SignStateFile.create(path, chain.genesis, session)
    # A new file on a chain that has begun may lack votes of the open round. Only the operator knows about such votes.
    if is_named:
        raise BadInputError(
            f"{path} is missing, and this chain has begun (block {chain.final.facts.height} is final here). The "
            "key has a seat: signing twice without that record is slashed. Restore the file; or start once with "
            "--init-sign-state if this key has never signed on this chain; or run without --validator",
            code="sign_state_missing",
        )
    _LOG.info("the key 0x%s has no seat yet: this node follows the chain", session.hex())
    return None


def _check_vrf(chain: Chain, sessions: list[KeyPair], vrf_keys: list[KeyPair], paths: Paths) -> None:
    """Raise `BadInputError` if a seated key lacks its VRF key: it could vote and never propose a block."""
    epoch = chain.epochs(chain.parameters.epoch_of(chain.final.facts.height + 1))
    assert epoch is not None, "the epoch of the next block is determined"
    held_sessions, vrf_publics = {pair.public for pair in sessions}, {pair.public for pair in vrf_keys}
    for member in epoch.validators.members:
        if member.session in held_sessions and member.vrf not in vrf_publics:
            raise BadInputError(
                f"{paths.keystore} has the session key 0x{member.session.hex()} but not its VRF key "
                f"0x{member.vrf.hex()}. Insert it with `ogpu-node key insert --key-type ogvr --suri ...`"
            )
