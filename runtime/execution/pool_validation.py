"""Validity for the pool: a transaction's validity on a state, and its predecessor.

Tags are as in Substrate: a transaction provides (signer, nonce), and requires the previous nonce if that is unused.
"""

from runtime.blocks.extrinsic import Authorization, Envelope, Extrinsic, decode_extrinsic
from runtime.cryptography.signatures import VerifySignature
from runtime.encoding.marks import record
from runtime.encoding.types import U64_MAX
from runtime.execution.block_fullness import BlockFullness
from runtime.execution.transaction_checks import TransactionChecks
from runtime.frame.errors import InvalidReason, InvalidTransaction
from runtime.frame.fees import priority
from runtime.frame.runtime import Runtime
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.state.overlay import StateReader


@record
class Validity:
    """A valid transaction: its order in the pool, and its lifetime in blocks."""

    extrinsic: Extrinsic
    who: Authorization
    account_nonce: int
    priority: int
    longevity: int
    fee: int
    propagate: bool = True

    @property
    def requires(self) -> tuple[bytes, ...]:
        """The tag of the predecessor, () if the nonce is the account's next."""
        own_nonce = self.who.extra.nonce
        return (nonce_tag(self.who.signer, own_nonce - 1),) if own_nonce > self.account_nonce else ()

    @property
    def provides(self) -> tuple[bytes, ...]:
        """The tag that others may require."""
        return (nonce_tag(self.who.signer, self.who.extra.nonce),)


@record
class Vouched:
    """A transaction whose signer exists and can pay its least fee, provided that the signer signed `payload`."""

    envelope: Envelope
    payload: bytes
    account_nonce: int
    spendable: int


class TransactionValidator:
    """Checks of any number of transactions for the block after one head.

    `validate` checks in one step. For transactions of strangers there are two steps with the same result:
    `check_outside` before the signature check, in a time independent of the call, and `check_call` after it.
    """

    def __init__(self, runtime: Runtime, reader: StateReader, block_hash: bytes) -> None:
        """Prepare the block after `block_hash`, on its state `reader`."""
        self._runtime = runtime
        self._bound = runtime.at(reader)
        system = self._bound[System]
        self._height = system.number.get() + 1
        # The checks read the height and the birth hashes of the block to come.
        system.initialize(self._height, block_hash, ())
        self._checks = TransactionChecks(self._bound, BlockFullness())
        self._payment = self._bound[TransactionPayment]

    def validate(self, given: bytes | Extrinsic, verify_signature: VerifySignature) -> Validity:
        """Check a whole transaction. A nonce that lies ahead is valid.

        Raise InvalidTransaction or DecodeError if no block may hold it now.
        """
        extrinsic = decode_extrinsic(self._runtime, given) if isinstance(given, bytes) else given
        authorization = extrinsic.authorization
        if authorization is None:
            raise InvalidTransaction(InvalidReason.CALL, "inherent outside a block")
        fee_grains = self._checks.check(extrinsic, authorization, verify_signature, ahead=True)
        return self._validity(
            extrinsic, authorization, self._bound[System].account[authorization.signer].nonce, fee_grains
        )

    def payload(self, who: Authorization) -> bytes:
        """Return the message that the signer must have signed. Raise InvalidTransaction for an unknown birth block."""
        return self._checks.payload(who)

    def check_outside(self, envelope: Envelope) -> Vouched:
        """Check everything that needs neither the signature nor the call.

        Raise InvalidTransaction if no block may hold the transaction now.
        """
        authorization = envelope.authorization
        info, payload = self._checks.check_signer(authorization, ahead=True)
        spendable_grains = self._checks.spendable(info)
        # The exact fee needs the call. The least one already refuses senders without money.
        if self._payment.least_fee(len(envelope.raw)) + authorization.extra.tip > spendable_grains:
            raise InvalidTransaction(InvalidReason.PAYMENT)
        return Vouched(envelope, payload, info.nonce, spendable_grains)

    def check_call(self, vouched: Vouched) -> Validity:
        """Check the rest of a transaction with a valid signature.

        Raise DecodeError or InvalidTransaction if no block may hold it now.
        """
        extrinsic = vouched.envelope.decode(self._runtime)
        authorization = vouched.envelope.authorization
        fee_grains = self._checks.check_call(extrinsic, authorization, vouched.spendable)
        return self._validity(extrinsic, authorization, vouched.account_nonce, fee_grains)

    def _validity(
        self, extrinsic: Extrinsic, authorization: Authorization, account_nonce: int, fee_grains: int
    ) -> Validity:
        era = authorization.extra.era
        death_height = era.death(self._height) if era.period else None
        return Validity(
            extrinsic,
            authorization,
            account_nonce,
            priority(authorization.extra.tip, len(extrinsic.raw), extrinsic.weight),
            U64_MAX if death_height is None else death_height - self._height,
            fee_grains,
        )


def nonce_tag(account: bytes, nonce: int) -> bytes:
    """Return the tag of an account's transaction: SCALE of (account, nonce)."""
    return account + nonce.to_bytes(4, "little")
