"""The state transition: a block over its parent's state, step by step.

    initialise -> inherents -> signed extrinsics -> finalise -> compare roots

Building a block and executing one are the same steps over a `BlockExecution`. Checking a transaction for the pool and
applying it also share their code. Pure: the state is a `StateReader`, and a function verifies signatures.
"""

from collections.abc import Callable
from dataclasses import dataclass

from runtime.blocks.block import Block, Header, extrinsics_root, without_seal
from runtime.blocks.digest import Digest
from runtime.blocks.extrinsic import Authorization, Extrinsic, decode_extrinsic
from runtime.cryptography.signatures import VerifySignature
from runtime.encoding.scale import DecodeError
from runtime.encoding.types import ApplyExtrinsic, DispatchClass, DispatchInfo, Finalization, Pays, Unsigned, Weight
from runtime.encoding.types import Signed as SignedOrigin
from runtime.execution.block_fullness import BlockFullness
from runtime.execution.supply import check_supply
from runtime.execution.transaction_checks import TransactionChecks
from runtime.frame.call import PostDispatch
from runtime.frame.errors import DispatchError, InvalidBlock, InvalidReason, InvalidTransaction
from runtime.frame.runtime import Runtime
from runtime.frame.storage_version import migrate
from runtime.pallets.balances import Balances
from runtime.pallets.system import ExtrinsicFailed, ExtrinsicSuccess, System
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.state.overlay import Changes, StateReader
from runtime.state.trie import Trie

_MANDATORY_ORIGIN = Unsigned()

DecodeExtrinsic = Callable[[Runtime, bytes], Extrinsic]
"""`runtime.blocks.extrinsic.decode_extrinsic`, or a replacement. Raises DecodeError likewise."""


@dataclass(frozen=True, slots=True)
class ExecutionOutcome:
    """The result of a block: its writes, and the tree after them."""

    changes: Changes
    trie: Trie


def execute_block(
    runtime: Runtime, reader: StateReader, trie: Trie, block: Block, verify_signature: VerifySignature
) -> ExecutionOutcome:
    """Execute a sealed block over its parent's state and tree. Raise InvalidBlock if it breaks a rule.

    The caller must check the seal, and that `reader` is the state of the header's parent.
    """
    outcome = execute_proven(runtime, reader, trie, block, verify_signature)
    if extrinsics_root(block.extrinsics) != block.header.extrinsics_root:
        raise InvalidBlock("wrong extrinsics root")
    return outcome


def execute_proven(
    runtime: Runtime,
    reader: StateReader,
    trie: Trie,
    block: Block,
    verify_signature: VerifySignature,
    decode: DecodeExtrinsic = decode_extrinsic,
) -> ExecutionOutcome:
    """Execute a block whose extrinsics are already known to match its header.

    `decode` is `decode_extrinsic`, or returns the same results from a cache.
    """
    header = _unsealed(block.header)
    execution = BlockExecution(runtime, reader, header.number, header.parent_hash, header.digest)
    try:
        for extrinsic_bytes in block.extrinsics:
            execution.apply_from_block(extrinsic_bytes, verify_signature, decode)
        changes = execution.finalize()
    finally:
        execution.bound.overlay.release()
    next_trie = trie.updated(changes)
    if next_trie.root != header.state_root:
        raise InvalidBlock("wrong state root")
    return ExecutionOutcome(changes, next_trie)


def _unsealed(header: Header) -> Header:
    try:
        return without_seal(header)
    except DecodeError as failure:
        raise InvalidBlock(str(failure)) from failure


class BlockExecution:
    """A block under execution. `apply_*` either applies an extrinsic or changes nothing."""

    def __init__(
        self, runtime: Runtime, reader: StateReader, block_number: int, parent_hash: bytes, digest: Digest
    ) -> None:
        """Initialise block `block_number` on `parent_hash`. Raise InvalidBlock if its header does not fit the state."""
        self.runtime = runtime
        self.bound = runtime.at(reader)
        self.fullness = BlockFullness()
        self._last_inherent = (-1, -1)
        self._inherents_only = True
        self._success = ExtrinsicSuccess(DispatchInfo(Weight(), DispatchClass.Normal, Pays.Yes))
        system = self.bound[System]
        if block_number != system.number.get() + 1:
            raise InvalidBlock("height not the parent's plus one")
        system.initialize(block_number, parent_hash, digest)
        # Before any hook, which reads storage in its current form.
        self._add_hook(migrate(self.bound.pallets))
        for pallet in self.bound.pallets:
            self._add_hook(pallet.on_initialize())
        self._checks = TransactionChecks(self.bound, self.fullness)
        self._balances = self.bound[Balances]
        self._payment = self.bound[TransactionPayment]

    def _add_hook(self, weight: Weight | None) -> None:
        if weight is not None:
            self.fullness.add_hook(weight)
            self.bound.mandatory_left -= weight.ref_time

    def apply_from_block(
        self, extrinsic_bytes: bytes, verify_signature: VerifySignature, decode: DecodeExtrinsic = decode_extrinsic
    ) -> None:
        """Apply an extrinsic of a finished block. Raise InvalidBlock if it is not allowed there."""
        try:
            extrinsic = decode(self.runtime, extrinsic_bytes)
            if extrinsic.authorization is None:
                self.apply_inherent(extrinsic)
            else:
                self.apply_signed(extrinsic, verify_signature)
        except (DecodeError, InvalidTransaction) as failure:
            raise InvalidBlock(f"extrinsic {self.fullness.count}: {failure}") from failure

    def apply_inherent(self, extrinsic: Extrinsic) -> None:
        """Apply a call by the author. Raise InvalidBlock if it fails or is out of order."""
        method = extrinsic.call.method
        place = (method.pallet.index, method.index)
        if extrinsic.authorization is not None or not method.is_inherent:
            raise InvalidBlock("bare extrinsic that is no inherent")
        # First in the block, each once, in the order of their pallets (ADR 11).
        if not self._inherents_only or place <= self._last_inherent:
            raise InvalidBlock("inherent late, repeated or out of pallet order")
        self.bound.phase = ApplyExtrinsic(self.fullness.count)
        with self.bound.overlay.transaction():
            try:
                used_weight = self.bound.dispatch(extrinsic.call, _MANDATORY_ORIGIN).actual_weight or extrinsic.weight
            except DispatchError as failure:
                raise InvalidBlock(f"inherent {extrinsic.call.name}: {type(failure).__name__}") from failure
            info = DispatchInfo(used_weight, method.dispatch_class, Pays.Yes)
            self.bound.emit(ExtrinsicSuccess(info))
        self._last_inherent = place
        self.bound.mandatory_left -= used_weight.ref_time
        self.fullness.add(method.dispatch_class, used_weight, len(extrinsic.raw))

    def apply_signed(self, extrinsic: Extrinsic, verify_signature: VerifySignature) -> bool:
        """Apply a signed call. Return True if it succeeded. Raise InvalidTransaction if it may not be applied."""
        authorization = extrinsic.authorization
        if authorization is None:
            raise InvalidTransaction(InvalidReason.BAD_MANDATORY, "not signed")
        withdrawn = self._checks.check(extrinsic, authorization, verify_signature)
        self.bound.phase = ApplyExtrinsic(self.fullness.count)
        with self.bound.overlay.transaction():
            info, failure = self._pay_and_dispatch(extrinsic, authorization, withdrawn)
            if failure is not None:
                self.bound.emit(ExtrinsicFailed(failure.value, info))
            else:
                if info is not self._success.dispatch_info:
                    self._success = ExtrinsicSuccess(info)
                self.bound.emit(self._success)
        self._inherents_only = False
        self.fullness.add(info.class_, info.weight, len(extrinsic.raw))
        return failure is None

    def _pay_and_dispatch(
        self, extrinsic: Extrinsic, authorization: Authorization, withdrawn_grains: int
    ) -> tuple[DispatchInfo, DispatchError | None]:
        """Use the nonce and take the fee, make the call in a layer of its own, then settle the fee actually due."""
        self._balances.begin_transaction(authorization.signer, withdrawn_grains)
        post_dispatch, failure = self._dispatch(extrinsic, authorization)
        tip_grains = authorization.extra.tip
        used_weight = extrinsic.weight
        # A call may correct its weight only downwards, because no fee for more was withdrawn.
        if post_dispatch.actual_weight is not None and post_dispatch.actual_weight.fits(used_weight):
            used_weight = post_dispatch.actual_weight
        if not post_dispatch.pays_fee:
            due_grains = tip_grains
        # The usual case: the fee for the declared weight is known already.
        elif used_weight is extrinsic.weight:
            due_grains = withdrawn_grains
        else:
            due_grains = self._payment.total_fee(len(extrinsic.raw), used_weight) + tip_grains
        self._payment.settle(authorization.signer, withdrawn_grains, due_grains, tip_grains)
        pays_fee = Pays.Yes if post_dispatch.pays_fee else Pays.No
        dispatch_class, last_info = extrinsic.call.method.dispatch_class, self._success.dispatch_info
        # Consecutive equal calls, such as transfers, share one success event: it is created and encoded once.
        if used_weight is last_info.weight and dispatch_class is last_info.class_ and pays_fee is last_info.pays_fee:
            return last_info, failure
        return DispatchInfo(used_weight, dispatch_class, pays_fee), failure

    def _dispatch(
        self, extrinsic: Extrinsic, authorization: Authorization
    ) -> tuple[PostDispatch, DispatchError | None]:
        try:
            with self.bound.overlay.transaction():
                return self.bound.dispatch(extrinsic.call, SignedOrigin(authorization.signer)), None
        except DispatchError as failure:
            return PostDispatch(), failure

    def finalize(self) -> Changes:
        """End the block: hooks, events, supply check. Return the writes of the whole block, by ascending key."""
        self.bound.phase = Finalization()
        system = self.bound[System]
        fullness = self.fullness
        system.note_extrinsics(fullness.count, fullness.length, fullness.consumed())
        for pallet in self.bound.pallets:
            pallet.on_finalize()
        system.finalize()
        # After the last hook, because fees are burned in one.
        check_supply(self.bound)
        return self.bound.overlay.changes()
