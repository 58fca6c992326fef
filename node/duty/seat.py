"""Which keys this node holds, and the record of what each has signed.

Invariant: a key signs only with a sign-state that is known to hold everything it has signed: one that is there,
or a new one where the key can have signed nothing that still counts. That is so on a chain that has not begun, and at
the tip while no set names the key. Anything else has to be asked for, and begins after an epoch of listening
(`seat_watch`).
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
"""So long after a chain's beginning its first validators may start for the first time without being asked."""
_LOG = logging.getLogger(__name__)


def hold_keys(config: Config, paths: Paths, chain: Chain, age_ms: int = 0) -> ValidatorKeys | None:
    """Return the keys of this validator; None for a node that only follows. Raise `BadInputError`.

    `age_ms` is how long ago the chain began, where its specification says so: an empty database does not know.
    """
    if not config.is_validator:
        return None
    if chain.epochs(chain.parameters.epoch_of(chain.final.facts.height + 1)) is None:
        raise BadInputError(
            "the validators after the last final block are not known: the database is damaged, purge-chain"
        )
    store = Keystore(paths.keystore)
    if config.dev_account is not None:
        seeds = (dev_accounts.key_seed(config.dev_account, kind) for kind in (dev_accounts.SESSION, dev_accounts.VRF))
        session, vrf = (KeyPair.from_seed(seed) for seed in seeds)
        sessions, vrf_keys = [session, *stored(store, SESSION)], [vrf, *stored(store, VRF)]
    else:
        sessions, vrf_keys = stored(store, SESSION), stored(store, VRF)
        if not sessions:
            raise BadInputError(
                f"--validator needs a session key, and {store.folder} has none: insert one with "
                "`ogpu-node key insert --key-type ogpu --suri ...`, and its VRF key with --key-type ogvr"
            )
    _take_over(paths, chain)
    pairs = {pair.public: pair for pair in sessions}
    sessions = [pairs[public] for public in by_use(chain, pairs)]
    has_begun = chain.final.facts.height > 0 or age_ms > LAUNCH_MS
    held = [
        SigningKey(
            pair,
            _sign_state(config, paths, chain, pair.public, has_begun=has_begun),
            is_listening=config.init_sign_state,
        )
        for pair in sessions
    ]
    keys = ValidatorKeys(chain.genesis, chain.epochs, held, vrf_keys)
    keys.final_height = chain.final.facts.height
    _check_vrf(chain, sessions, vrf_keys, paths)
    return keys


def named(chain: Chain, sessions: Iterable[bytes]) -> set[bytes]:
    """Which of these keys a set names that is in office or elected, as far as the final chain knows."""
    stake = chain.runtime.at(chain.final.state)[TrustStake]
    epoch = chain.parameters.epoch_of(chain.final.facts.height + 1)
    seats = [seat for number in (epoch, epoch + 1) for seat in stake.validators(number)]
    return {seat.session_key for seat in seats} & set(sessions)


def by_use(chain: Chain, sessions: Iterable[bytes]) -> list[bytes]:
    """Those that sit or are elected first, then those that are registered: peers are shown the first few."""
    stake, sessions = chain.runtime.at(chain.final.state)[TrustStake], list(sessions)
    seated = named(chain, sessions)

    def is_registered(session: bytes) -> bool:
        owner = stake.key_owner[session]
        candidate = None if owner is None else stake.candidates[owner]
        return candidate is not None and candidate.session_key == session

    return sorted(sessions, key=lambda session: (session not in seated, not is_registered(session)))


def stored(store: Keystore, key_type: bytes) -> list[KeyPair]:
    """Return all keys of a type in a keystore. Raise `BadInputError`."""
    found = store.public_keys(key_type)
    if len(found) > KEYS_MAX:
        raise BadInputError(
            f"{store.folder} holds {len(found)} keys of one type, more than {KEYS_MAX}: move those away that are in no "
            "set any more"
        )
    pairs = (store.pair(key_type, public) for public in found)
    return [pair for pair in pairs if pair is not None]


def _take_over(paths: Paths, chain: Chain) -> None:
    """The one file of nodes that knew one key becomes that of the key which it names."""
    session = SignStateFile.session_of(paths.only_sign_state, chain.genesis)
    if session is None:
        return
    if paths.sign_state(session).exists():
        raise BadInputError(
            f"{paths.only_sign_state} and {paths.sign_state(session)} both say what one key has signed: keep the one "
            "that was written last, and remove the other"
        )
    move_durably(paths.only_sign_state, paths.sign_state(session))


def _sign_state(config: Config, paths: Paths, chain: Chain, session: bytes, *, has_begun: bool) -> SignStateFile | None:
    """Return the record of a key; None where it may not be begun yet."""
    path = paths.sign_state(session)
    file = SignStateFile.load(path, chain.genesis, session)
    if file is not None:
        return file
    is_named = bool(named(chain, [session]))
    if config.init_sign_state:
        # Copied keys are what this option is most often used with: two machines then seal in one slot within seconds.
        _LOG.info(
            "this node signs nothing with the key 0x%s for an epoch: it listens for another machine with the key",
            session.hex(),
        )
        return None
    if is_named and not has_begun:
        return SignStateFile.create(path, chain.genesis, session)
    # A new file on a chain that has begun may forget votes of the open round; only a person knows if there are any.
    if is_named:
        raise BadInputError(
            f"{path} is missing, but this chain has begun (it is at block {chain.final.facts.height} here) and the "
            "key sits: what it has signed is not known, and signing twice is slashed. "
            "Restore the file; or, if this key has never signed on this chain, "
            "start once with --init-sign-state; or run without --validator"
        )
    _LOG.info("the key 0x%s sits in no set yet: this node follows the chain", session.hex())
    return None


def _check_vrf(chain: Chain, sessions: list[KeyPair], vrf_keys: list[KeyPair], paths: Paths) -> None:
    """Who sits without its VRF key could vote and never make a block: `BadInputError`."""
    epoch = chain.epochs(chain.parameters.epoch_of(chain.final.facts.height + 1))
    assert epoch is not None, "it was looked at before"
    held, vrf = {pair.public for pair in sessions}, {pair.public for pair in vrf_keys}
    for member in epoch.validators.members:
        if member.session in held and member.vrf not in vrf:
            raise BadInputError(
                f"{paths.keystore} has the session key 0x{member.session.hex()} but not its VRF key "
                f"0x{member.vrf.hex()}: insert it with `ogpu-node key insert --key-type ogvr --suri ...`"
            )
