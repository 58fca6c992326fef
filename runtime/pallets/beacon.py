"""Epochs, randomness and the newest final block, as far as the chain itself needs them.

The value of block h is `H(value of h-1 || VRF output of h)`. To draw for a record of height b, a pallet takes
`value_at(b + 2)`, in the first block with `final_height()` of at least b + 2. At b nobody knew the value, and once b +
2 is final nobody can change it. Header rules (consensus) have checked the VRF proof and the certificate. This pallet
checks the facts that need the state. `final_height` includes this block's own reference, since hooks run before
extrinsics.

The seed of an epoch is a chain of hashes over the previous seed and the VRF outputs in the first two thirds of the
previous epoch, in the order of blocks. The first block of an epoch must refer to a final block that covers them.
"""

from typing import Any

from runtime.blocks.digest import FinalRef, PreDigest, consensus_logs, find_pre_digest
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.scale import DecodeError
from runtime.encoding.types import BlockNumber, Hash
from runtime.frame.errors import InvalidBlock
from runtime.frame.pallet import Constant, Hasher, Pallet, StorageMap, StorageValue
from runtime.pallets.system import BLOCK_HASH_COUNT, NO_HASH, System

WINDOW_BLOCKS = BLOCK_HASH_COUNT
"""The number of blocks for which values are kept."""


@struct
class FinalBlock:
    """A block that will never be reverted."""

    height: BlockNumber
    hash: Hash


class Beacon(Pallet, index=6):
    """Randomness and finality inside a block."""

    system: System

    values: StorageMap[BlockNumber, Hash | None] = StorageMap(
        hasher=Hasher.TWOX_64_CONCAT, doc="The beacon's values at recent heights."
    )
    current: StorageValue[Hash] = StorageValue(default=NO_HASH, doc="The beacon's value of this block.")
    final: StorageValue[FinalBlock] = StorageValue(
        default=FinalBlock(0, NO_HASH), doc="The newest final block of this ancestry. For block 0, the hash is zero."
    )
    last_slot: StorageValue[U64] = StorageValue(default=0, doc="The slot of this block.")
    epoch_seed: StorageValue[Hash] = StorageValue(default=NO_HASH, doc="The seed of this epoch.")
    next_seed: StorageValue[Hash] = StorageValue(
        default=NO_HASH, doc="The seed of the next epoch, from the outputs so far."
    )

    epoch_blocks: Constant[U32] = Constant(60, doc="Blocks in an epoch.")

    def on_initialize(self) -> None:
        """Read the header's digest: slot, randomness, newest final block."""
        pre_digest, references = self._read_digest()
        if pre_digest.slot <= self.last_slot.get():
            raise InvalidBlock("slot not after the parent's")
        if pre_digest.epoch != self.epoch():
            raise InvalidBlock("wrong epoch in the pre-digest")
        self.last_slot.set(pre_digest.slot)
        for reference in references:
            self._note_final(reference)
        if self.is_epoch_start(self.system.number.get()):
            self._turn_epoch()
        self._extend(pre_digest.vrf_output)

    def value_at(self, height: int) -> bytes | None:
        """Return the beacon's value at a height, None if it lies ahead or was dropped."""
        return self.values[height]

    def final_height(self) -> int:
        """Return the height of the newest final block that the chain knows."""
        return self.final.get().height

    def epoch(self) -> int:
        """Return the epoch of this block. Block 1 is the first of epoch 0."""
        return self.epoch_of(self.system.number.get())

    def epoch_of(self, height: int) -> int:
        """Return the epoch of a height."""
        return max(height - 1, 0) // self.epoch_blocks

    def seed(self) -> bytes:
        """Return the seed of this block's epoch."""
        return self.epoch_seed.get()

    def seed_of(self, epoch: int) -> bytes | None:
        """Return the seed of this epoch, or of the next one once all its outputs are in. None otherwise."""
        current_height = self.system.number.get()
        if epoch == self.epoch():
            return self.epoch_seed.get()
        is_complete = current_height - self.epoch() * self.epoch_blocks >= self._seeding_blocks()
        return self.next_seed.get() if epoch == self.epoch() + 1 and is_complete else None

    def is_epoch_end(self, height: int) -> bool:
        """Return True if the block at a height is the last of its epoch."""
        return height > 0 and height % self.epoch_blocks == 0

    def is_epoch_start(self, height: int) -> bool:
        """Return True if the block at a height is the first of its epoch."""
        return height > 0 and (height - 1) % self.epoch_blocks == 0

    def genesis(self, config: dict[str, Any]) -> None:
        """Start with the seed of epoch 0, `{"seed": hex}`, from which all others follow."""
        genesis_seed = bytes.fromhex(str(config.get("seed", NO_HASH.hex())).removeprefix("0x"))
        for seed_item in (self.current, self.epoch_seed, self.next_seed):
            seed_item.set(genesis_seed)
        self.values[0] = genesis_seed

    def _read_digest(self) -> tuple[PreDigest, list[FinalRef]]:
        digest = self.system.digest.get()
        try:
            pre_digest = find_pre_digest(digest)
            references = [log for log in consensus_logs(digest) if isinstance(log, FinalRef)]
        except DecodeError as error:
            raise InvalidBlock(f"malformed digest: {error}") from error
        if pre_digest is None:
            raise InvalidBlock("missing pre-digest")
        if len(references) > 1:
            raise InvalidBlock("two references to final blocks")
        return pre_digest, references

    def _note_final(self, reference: FinalRef) -> None:
        if reference.height <= self.final_height():
            raise InvalidBlock("final reference not above the last one")
        known_hashes = self.system.block_hash
        # Hashes of `BLOCK_HASH_COUNT` blocks are kept: an older reference cannot be checked.
        if reference.height not in known_hashes or known_hashes[reference.height] != reference.hash:
            raise InvalidBlock("final reference to a block that is not an ancestor")
        self.final.set(FinalBlock(reference.height, reference.hash))

    def _seeding_blocks(self) -> int:
        return self.epoch_blocks * 2 // 3

    def _turn_epoch(self) -> None:
        epoch = self.epoch()
        # Epoch 0 uses the seed of the specification.
        if epoch == 0:
            return
        # The seed draws the proposers of this epoch, so it must not depend on outputs that can still be reverted.
        if self.final_height() < (epoch - 1) * self.epoch_blocks + self._seeding_blocks():
            raise InvalidBlock("epoch started before the outputs of its seed are final")
        self.epoch_seed.set(self.next_seed.get())

    def _extend(self, vrf_output: bytes) -> None:
        current_height = self.system.number.get()
        assert current_height not in self.values, "the beacon has one value per height"
        assert self.final_height() < current_height, "the final height is below the block's own"
        next_value = blake2_256(self.current.get() + vrf_output)
        self.current.set(next_value)
        self.values[current_height] = next_value
        if current_height > WINDOW_BLOCKS:
            del self.values[current_height - WINDOW_BLOCKS - 1]
        # Not the last third: its outputs may not be final when the next epoch needs the seed.
        if current_height - self.epoch() * self.epoch_blocks <= self._seeding_blocks():
            self.next_seed.set(blake2_256(self.next_seed.get() + vrf_output))
