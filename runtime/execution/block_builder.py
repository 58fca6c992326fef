"""Building a block: the same execution, with extrinsics offered one by one.

    authoring = Authoring(runtime, reader, trie, parent_id, digest)
    authoring.inherent(Timestamp.set(now=...))
    authoring.offer(raw, verify)            # InvalidTransaction: not in this block; any other exception: quarantine it
    built = authoring.finish()              # a header to be sealed

An extrinsic that is refused, or that raises any exception, changes nothing, so the block can always be finished.
"""

from dataclasses import dataclass

from runtime.blocks.block import Header, extrinsics_root
from runtime.blocks.digest import Digest
from runtime.blocks.extrinsic import Extrinsic, decode_extrinsic, encode_bare
from runtime.cryptography.signatures import VerifySignature
from runtime.execution.executive import BlockExecution, ExecutionOutcome
from runtime.frame.call import Call
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.system import System
from runtime.state.overlay import StateReader
from runtime.state.trie import Trie


@dataclass(frozen=True, slots=True)
class BuiltBlock:
    """A block without its seal, and the result of its execution."""

    header: Header
    extrinsics: tuple[bytes, ...]
    executed: ExecutionOutcome


class Authoring:
    """A block under construction on one parent."""

    def __init__(self, runtime: Runtime, reader: StateReader, trie: Trie, parent_hash: bytes, digest: Digest) -> None:
        """Start on a state and its tree after the block `parent_hash`. `digest` has no seal."""
        self.runtime = runtime
        self._trie = trie
        self._parent_hash = parent_hash
        self._digest = digest
        self.number = runtime.at(reader)[System].number.get() + 1
        self._execution = BlockExecution(runtime, reader, self.number, parent_hash, digest)
        self._extrinsics: list[bytes] = []

    @property
    def bound(self) -> Bound:
        """The state under construction, for reading: an author checks there that an inherent is valid."""
        return self._execution.bound

    def inherent(self, call: Call) -> None:
        """Add an inherent. Raise InvalidBlock if it fails, which is a bug of the author."""
        inherent_bytes = encode_bare(self.runtime, call)
        self._execution.apply_inherent(decode_extrinsic(self.runtime, inherent_bytes))
        self._extrinsics.append(inherent_bytes)

    def offer(self, extrinsic: bytes | Extrinsic, verify_signature: VerifySignature) -> bool:
        """Add a signed extrinsic. Return True if its call succeeded.

        Raise InvalidTransaction or DecodeError if the extrinsic was left out.
        """
        if isinstance(extrinsic, bytes):
            extrinsic = decode_extrinsic(self.runtime, extrinsic)
        succeeded = self._execution.apply_signed(extrinsic, verify_signature)
        # Only after it was applied, because a refused one must not be in the block.
        self._extrinsics.append(extrinsic.raw)
        return succeeded

    def finish(self) -> BuiltBlock:
        """Close the block and compute its roots."""
        changes = self._execution.finalize()
        self.bound.overlay.release()
        next_trie = self._trie.updated(changes)
        extrinsics = tuple(self._extrinsics)
        header = Header(self._parent_hash, self.number, next_trie.root, extrinsics_root(extrinsics), self._digest)
        return BuiltBlock(header, extrinsics, ExecutionOutcome(changes, next_trie))
