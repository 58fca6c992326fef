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
        nonce = self.who.extra.nonce
        return (nonce_tag(self.who.signer, nonce - 1),) if nonce > self.account_nonce else ()

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

    def validate(self, raw: bytes | Extrinsic, verify: VerifySignature) -> Validity:
        """Check a whole transaction. A nonce that lies ahead is valid.

        Raise InvalidTransaction or DecodeError if no block may hold it now.
        """
        extrinsic = decode_extrinsic(self._runtime, raw) if isinstance(raw, bytes) else raw
        who = extrinsic.authorization
        if who is None:
            raise InvalidTransaction(InvalidReason.CALL, "inherent outside a block")
        fee = self._checks.check(extrinsic, who, verify, ahead=True)
        return self._validity(extrinsic, who, self._bound[System].account[who.signer].nonce, fee)

    def payload(self, who: Authorization) -> bytes:
        """Return the message that the signer must have signed. Raise InvalidTransaction for an unknown birth block."""
        return self._checks.payload(who)

    def check_outside(self, envelope: Envelope) -> Vouched:
        """Check everything that needs neither the signature nor the call.

        Raise InvalidTransaction if no block may hold the transaction now.
        """
        who = envelope.authorization
        info, payload = self._checks.check_signer(who, ahead=True)
        spendable = self._checks.spendable(info)
        # The exact fee needs the call. The least one already refuses senders without money.
        if self._payment.least_fee(len(envelope.raw)) + who.extra.tip > spendable:
            raise InvalidTransaction(InvalidReason.PAYMENT)
        return Vouched(envelope, payload, info.nonce, spendable)

    def check_call(self, vouched: Vouched) -> Validity:
        """Check the rest of a transaction with a valid signature.

        Raise DecodeError or InvalidTransaction if no block may hold it now.
        """
        extrinsic = vouched.envelope.decode(self._runtime)
        who = vouched.envelope.authorization
        fee = self._checks.check_call(extrinsic, who, vouched.spendable)
        return self._validity(extrinsic, who, vouched.account_nonce, fee)

    def _validity(self, extrinsic: Extrinsic, who: Authorization, account_nonce: int, fee: int) -> Validity:
        era = who.extra.era
        death = era.death(self._height) if era.period else None
        return Validity(
            extrinsic,
            who,
            account_nonce,
            priority(who.extra.tip, len(extrinsic.raw), extrinsic.weight),
            U64_MAX if death is None else death - self._height,
            fee,
        )


def nonce_tag(who: bytes, nonce: int) -> bytes:
    """Return the tag of an account's transaction: SCALE of (account, nonce)."""
    return who + nonce.to_bytes(4, "little")
