"""Which seat this node takes in consensus: its keys, and the record of what they have signed.

What always holds: a validator starts only with a sign-state that is known to hold everything its key has signed: one
that is there, or a new one on a chain that has not begun.  Anything else has to be asked for.
"""

from __future__ import annotations

import logging

from consensus.validators import Validator as Member
from consensus.validators import ValidatorSet
from genesis import dev_accounts
from node.config import Config, Paths
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.errors import BadInputError
from node.ledger.chain import Chain

_LOG = logging.getLogger(__name__)


def take_seat(config: Config, paths: Paths, chain: Chain) -> ValidatorKeys | None:
    """The validator that this node is; None for a node that only follows.  Raises `BadInputError`."""
    if not config.is_validator:
        return None
    epoch = chain.epochs(chain.parameters.epoch_of(chain.final.facts.height + 1))
    if epoch is None:
        raise BadInputError(
            "the validators after the last final block are not known: the database is damaged, purge-chain"
        )
    if config.dev_account is not None:
        seat = _dev_seat(config.dev_account, epoch.validators)
    else:
        seat = _stored_seat(Keystore(paths.keystore), epoch.validators)
    if seat is None:
        _LOG.warning("none of this node's keys is in the validator set: it only follows the chain")
        return None
    member, session, vrf = seat
    file = _sign_state(config, paths, chain, session.public)
    keys = ValidatorKeys(chain.genesis, member.stash, session, vrf, file)
    keys.final_height = chain.final.facts.height
    return keys


def _dev_seat(name: str, validators: ValidatorSet) -> tuple[Member, KeyPair, KeyPair] | None:
    session = KeyPair.from_seed(dev_accounts.key_seed(name, dev_accounts.SESSION))
    vrf = KeyPair.from_seed(dev_accounts.key_seed(name, dev_accounts.VRF))
    for member in validators.members:
        if (member.session, member.vrf) == (session.public, vrf.public):
            return member, session, vrf
    return None


def _stored_seat(keystore: Keystore, validators: ValidatorSet) -> tuple[Member, KeyPair, KeyPair] | None:
    held = keystore.public_keys(SESSION)
    if not held:
        raise BadInputError(
            f"--validator needs a session key, and {keystore.folder} has none: "
            "insert one with `ogpu-node key insert --key-type ogpu --suri ...`, and its VRF key with --key-type ogvr"
        )
    for member in validators.members:
        if member.session in held:
            session, vrf = keystore.pair(SESSION, member.session), keystore.pair(VRF, member.vrf)
            if session is None or vrf is None:
                raise BadInputError(
                    f"{keystore.folder} has the session key 0x{member.session.hex()} but not its VRF key "
                    f"0x{member.vrf.hex()}: insert it with `ogpu-node key insert --key-type ogvr --suri ...`"
                )
            return member, session, vrf
    return None


def _sign_state(config: Config, paths: Paths, chain: Chain, session: bytes) -> SignStateFile:
    file = SignStateFile.load(paths.sign_state, chain.genesis, session)
    if file is not None:
        return file
    # A new file on a chain that has begun may forget votes of the open round; only a person knows if there are any.
    if chain.final.facts.height > 0 and not config.init_sign_state:
        raise BadInputError(
            f"{paths.sign_state} is missing, but this chain is at block {chain.final.facts.height}: "
            "what this key has signed is not known, and signing twice is slashed. "
            "Restore the file; or, if this key has never signed on this chain, "
            "start once with --init-sign-state; or run without --validator"
        )
    return SignStateFile.create(paths.sign_state, chain.genesis, session)
