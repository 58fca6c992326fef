"""The checks of a signed extrinsic: the transaction extensions, cheapest first, then the signature.

CheckNonZeroSender, CheckSpecVersion, CheckTxVersion, CheckGenesis, CheckMortality, CheckNonce, CheckWeight,
ChargeTransactionPayment, CheckMetadataHash. Versions, genesis and birth block are part of the signed message, so the
signature check covers them. The pool accepts a nonce that lies ahead, a block only the next one.
"""

from runtime.blocks.extrinsic import Additional, Authorization, Extrinsic, additional_tail
from runtime.cryptography.signatures import VerifySignature
from runtime.execution.block_fullness import BlockFullness
from runtime.frame.errors import InvalidReason, InvalidTransaction
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System
from runtime.pallets.transaction_payment import TransactionPayment

ZERO_SENDER = bytes(32)
NONCE_MAX = (1 << 32) - 2
"""The last usable nonce: the one after it must still fit its type."""


class TransactionChecks:
    """The checks of one block under execution, which is initialised. Nothing here writes."""

    def __init__(self, bound: Bound, fullness: BlockFullness) -> None:
        """Prepare the checks. `fullness` is that of the block, or an empty one for any block."""
        self._fullness = fullness
        self._account = bound[System].account
        self._block_hash = bound[System].block_hash
        self._height = bound[System].number.get()
        self._balances = bound[Balances]
        self._payment = bound[TransactionPayment]
        self._version = bound.runtime.version
        self._tails: dict[int, bytes] = {}  # the signed bytes that are not sent, by birth block

    def check(
        self,
        extrinsic: Extrinsic,
        authorization: Authorization,
        verify_signature: VerifySignature,
        *,
        ahead: bool = False,
    ) -> int:
        """Return the fee to withdraw for a valid extrinsic, tip included. Raise InvalidTransaction if it is invalid."""
        _refuse_inherent(extrinsic)
        info, payload = self.check_signer(authorization, ahead=ahead)
        # Before the signature, which costs more than all other checks.
        fee_grains = self._fee(extrinsic, authorization, self._balances.spendable_of(info.data))
        signature = authorization.signature
        if not verify_signature(signature.scheme, authorization.signer, payload, signature.signature):
            raise InvalidTransaction(InvalidReason.BAD_PROOF)
        return fee_grains

    def check_signer(self, authorization: Authorization, *, ahead: bool) -> tuple[AccountInfo, bytes]:
        """Return the signer's account and the message that it must have signed. The call may still be encoded."""
        if authorization.signer == ZERO_SENDER:  # a key of small order: anyone can sign for it (ADR 6)
            raise InvalidTransaction(InvalidReason.BAD_SIGNER)
        payload = self.payload(authorization)
        info = self._account[authorization.signer]
        check_nonce(authorization.extra.nonce, info, ahead=ahead)
        return info, payload

    def payload(self, who: Authorization) -> bytes:
        """Return the signed message. Raise InvalidTransaction if the birth block is unknown."""
        era = who.extra.era
        birth_height = era.birth(self._height) if era.period else 0
        # Cached by birth block, which most transactions of a block share.
        return who.payload_with(self._tails.get(birth_height) or self._tail(birth_height))

    def check_call(self, extrinsic: Extrinsic, authorization: Authorization, spendable: int) -> int:
        """Return the fee of an extrinsic whose signer was checked and can spend `spendable` grains."""
        _refuse_inherent(extrinsic)
        return self._fee(extrinsic, authorization, spendable)

    def spendable(self, info: AccountInfo) -> int:
        """Return the grains with which an account can pay fees."""
        return self._balances.spendable_of(info.data)

    def additional(self, birth_height: int) -> Additional:
        """Return the signed values that are not sent. Raise InvalidTransaction if the birth block is unknown."""
        if birth_height not in self._block_hash:
            raise InvalidTransaction(InvalidReason.ANCIENT_BIRTH_BLOCK)
        genesis_hash, birth_hash = self._block_hash[0], self._block_hash[birth_height]
        return Additional(self._version.spec_version, self._version.transaction_version, genesis_hash, birth_hash)

    def _tail(self, birth_height: int) -> bytes:
        additional_bytes = self._tails[birth_height] = additional_tail(self.additional(birth_height))
        return additional_bytes

    def _fee(self, extrinsic: Extrinsic, authorization: Authorization, spendable: int) -> int:
        weight = extrinsic.weight
        self._fullness.check(extrinsic.call.method.dispatch_class, weight, len(extrinsic.raw))
        fee_grains = self._payment.total_fee(len(extrinsic.raw), weight) + authorization.extra.tip
        if fee_grains > spendable:  # a duty that turns out free must be payable too
            raise InvalidTransaction(InvalidReason.PAYMENT)
        return fee_grains


def _refuse_inherent(extrinsic: Extrinsic) -> None:
    if extrinsic.call.method.is_inherent:
        raise InvalidTransaction(InvalidReason.CALL, "signed inherent")


def check_nonce(nonce: int, info: AccountInfo, *, ahead: bool) -> None:
    """Raise InvalidTransaction unless the nonce is the account's next, or (`ahead`) a later one."""
    if nonce < info.nonce:
        raise InvalidTransaction(InvalidReason.STALE)
    if (nonce > info.nonce and not ahead) or nonce > NONCE_MAX:
        raise InvalidTransaction(InvalidReason.FUTURE)
