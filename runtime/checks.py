"""Whether a signed extrinsic may be applied now: the transaction extensions, cheapest first, then the signature.

CheckNonZeroSender, CheckSpecVersion, CheckTxVersion, CheckGenesis, CheckMortality, CheckNonce, CheckWeight,
ChargeTransactionPayment, CheckMetadataHash. Versions, genesis and birth block are part of the signed message, which
is how they are checked. The pool asks for a nonce that may lie ahead; a block asks for the next one exactly.
"""

from collections.abc import Callable

from runtime.crypto import Scheme
from runtime.errors import InvalidTransaction, Reason
from runtime.extrinsic import Additional, Authorization, Extrinsic
from runtime.fees import InclusionFee
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.resources import BlockResources
from runtime.runtime import Bound
from runtime.types import Weight

Verify = Callable[[Scheme, bytes, bytes, bytes], bool]
"""(scheme, public key, message, signature): `runtime.crypto.verify`, or a cache in front of it."""
ZERO_SENDER = bytes(32)


def check_signed(
    bound: Bound, extrinsic: Extrinsic, who: Authorization, resources: BlockResources, verify: Verify, *, ahead: bool
) -> InclusionFee:
    """The fee of a valid extrinsic, tip apart; InvalidTransaction if it is not valid. Nothing is written."""
    if extrinsic.call.method.is_inherent:
        raise InvalidTransaction(Reason.CALL, "an inherent is not signed")
    if who.signer == ZERO_SENDER:
        raise InvalidTransaction(Reason.BAD_SIGNER)
    additional = get_additional(bound, who)
    check_nonce(bound, who, ahead=ahead)
    weight = extrinsic.call.weight
    resources.check(extrinsic.call.method.dispatch_class, weight, len(extrinsic.raw))
    fee = check_payment(bound, who, len(extrinsic.raw), weight)
    signature = who.signature
    if not verify(signature.scheme, who.signer, who.payload(additional), signature.signature):
        raise InvalidTransaction(Reason.BAD_PROOF)
    return fee


def get_additional(bound: Bound, who: Authorization) -> Additional:
    """What the signer must have signed besides what travels; InvalidTransaction if its birth block is not known."""
    system = bound[System]
    birth = who.extra.era.birth(system.number.get())
    if birth not in system.block_hash:
        raise InvalidTransaction(Reason.ANCIENT_BIRTH_BLOCK)
    version = bound.runtime.version
    return Additional(version.spec_version, version.transaction_version, system.block_hash[0], system.block_hash[birth])


def check_nonce(bound: Bound, who: Authorization, *, ahead: bool) -> None:
    """Whether the nonce is the account's next, or (`ahead`) that or a later one."""
    expected = bound[System].account[who.signer].nonce
    if who.extra.nonce < expected:
        raise InvalidTransaction(Reason.STALE)
    if who.extra.nonce > expected and not ahead:
        raise InvalidTransaction(Reason.FUTURE)


def check_payment(bound: Bound, who: Authorization, length: int, weight: Weight) -> InclusionFee:
    """The fee that the signer can pay; a duty that will be free must be payable too."""
    fee = bound[TransactionPayment].fee(length, weight)
    if fee.total + who.extra.tip > bound[Balances].spendable_balance(who.signer):
        raise InvalidTransaction(Reason.PAYMENT)
    return fee
