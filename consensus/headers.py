"""Header rules: the conditions for a block to enter the tree, before its execution.

Invariant: a header that passes has

* the slot's one proposer as author, and its seal
* a slot after its parent's, and not in the future
* the checkpoint's hash at the checkpoint's height
* a final reference only to an ancestor, with a certificate that verifies
* a valid proof of its randomness
* a hash of the next validators in the last block of an epoch only. Execution checks its value.

The simulator shares `check_facts`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from consensus.certificates import CERTIFICATE, verify_certificate
from consensus.events import BlockFacts, CertifiedRef
from consensus.parameters import Parameters
from consensus.validators import Epoch, Epochs, Validator, ValidatorSet
from runtime.blocks import digest
from runtime.blocks.block import Header, block_id, seal_payload
from runtime.blocks.votes import BallotKind, VerifyEd25519
from runtime.cryptography import vrf
from runtime.cryptography.draw import roulette
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import DecodeError
from runtime.frame.errors import InvalidBlock

# Returns the id of the checked block's ancestor at a height below its own, final blocks included. None if
# there is no such height.
AncestorAt = Callable[[int], bytes | None]


def slot_at(now_ms: int, slot_ms: int) -> int:
    """Return the global slot of a moment, counted from the Unix epoch."""
    return now_ms // slot_ms


def proposer(epoch: Epoch, slot: int) -> bytes:
    """Return the session key of the slot's only proposer."""
    validators = epoch.validators
    return validators.members[_draw(epoch.seed, slot, _weights(validators))].session


def _weights(validators: ValidatorSet) -> tuple[int, ...]:
    return tuple(member.weight for member in validators.members)


@lru_cache(maxsize=1024)
def _draw(seed: bytes, slot: int, member_weights: tuple[int, ...]) -> int:
    draw_seed = blake2_256(b"ogpu/slot" + seed + slot.to_bytes(8, "little"))
    return roulette(draw_seed, b"slot", member_weights, 1)[0]


class InvalidHeaderError(InvalidBlock):
    """The header breaks a rule: the block is invalid on every node, for ever."""


class OtherCheckpointError(InvalidHeaderError):
    """The header differs from the checkpoint at the checkpoint's height."""


class NotYetError(Exception):
    """The header cannot be checked yet: its slot is in the future, or this node does not know its epoch."""


@dataclass(frozen=True, slots=True)
class HeaderParts:
    """The items of a header's digest."""

    author: bytes  # the stash
    pre_digest: digest.PreDigest
    final_ref: CertifiedRef | None
    next_validators: bytes | None
    signature: bytes


@dataclass(frozen=True, slots=True)
class TrustedBlock:
    """A final block that the node's operator trusts. No other block is valid at its height."""

    height: int
    id: bytes


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """The rules of one chain. Each check takes the parent's facts and this node's clock."""

    parameters: Parameters
    epochs: Epochs
    genesis: bytes
    verify: VerifyEd25519
    checkpoint: TrustedBlock | None = None

    def check_header(
        self, header: Header, parent_facts: BlockFacts, ancestor_at: AncestorAt, now_ms: int
    ) -> BlockFacts:
        """Check a whole header and return its facts.

        Raise InvalidHeaderError if it breaks a rule, NotYetError if it cannot be checked yet. Execution checks the
        rest.
        """
        self._check_trusted(header)
        header_parts = read_header(header)
        epoch_number = self.parameters.epoch_of(header.number)
        # Each statement is judged by the set of its own epoch (ADR 23).
        _require(header_parts.pre_digest.epoch == epoch_number, "epoch does not match the height")
        says_next = header_parts.next_validators is not None
        _require(says_next == self.parameters.is_boundary(header.number), "next validators at the wrong height")
        epoch = self._epoch(epoch_number)
        member = next((member for member in epoch.validators.members if member.stash == header_parts.author), None)
        if member is None:
            raise InvalidHeaderError("author is not in the epoch's set")
        reference = header_parts.final_ref
        referenced = parent_facts.referenced_height if reference is None else reference.height
        facts = BlockFacts(
            block_id(header),
            header.parent_hash,
            header.number,
            header_parts.pre_digest.slot,
            member.session,
            referenced,
            reference,
        )
        # First the seal, which a stranger cannot forge: the certificate below costs a hundred times as much to check.
        payload = seal_payload(self.genesis, header)
        _require(self.verify(member.session, payload, header_parts.signature), "invalid seal")
        self.check_facts(facts, parent_facts, ancestor_at, now_ms)
        self._check_randomness(header_parts, member, epoch.seed)
        return facts

    def check_facts(self, facts: BlockFacts, parent_facts: BlockFacts, ancestor_at: AncestorAt, now_ms: int) -> None:
        """Check the facts that consensus uses.

        Raise InvalidHeaderError if they break a rule, NotYetError if they cannot be checked yet.
        """
        parameters = self.parameters
        _require(facts.parent == parent_facts.id and facts.height == parent_facts.height + 1, "wrong parent or height")
        _require(facts.slot > parent_facts.slot, "slot not after the parent's")
        # Not invalid: this clock may be slow, and the slot will come (ADR 7).
        if facts.slot * parameters.slot_ms > now_ms + parameters.skew_ms:
            raise NotYetError("slot in the future")
        self._check_final_ref(facts, parent_facts, ancestor_at)
        epoch_number = parameters.epoch_of(facts.height)
        referenced_min = parameters.referenced_min(facts.height)
        _require(
            facts.referenced_height >= referenced_min, f"too far ahead of finality: {referenced_min} must be final"
        )
        _require(proposer(self._epoch(epoch_number), facts.slot) == facts.author, "author is not the slot's proposer")

    def _check_trusted(self, header: Header) -> None:
        """Refuse any other block than the checkpoint at its height."""
        checkpoint = self.checkpoint
        if checkpoint is not None and header.number == checkpoint.height and block_id(header) != checkpoint.id:
            raise OtherCheckpointError("another block than the checkpoint")

    def _check_final_ref(self, facts: BlockFacts, parent_facts: BlockFacts, ancestor_at: AncestorAt) -> None:
        """Check that a final reference advances, names an ancestor, and is certified."""
        reference = facts.final_ref
        if reference is None:
            _require(facts.referenced_height == parent_facts.referenced_height, "wrong referenced height")
            return
        ballot = reference.certificate.ballot
        _require(facts.referenced_height == reference.height, "wrong referenced height")
        _require(
            parent_facts.referenced_height < reference.height < facts.height,
            "final reference not between the last one and the block",
        )
        reference_max = self.parameters.reference_max(parent_facts.referenced_height)
        _require(reference.height <= reference_max, "final reference skips the end of an epoch")
        _require(ancestor_at(reference.height) == reference.block, "final reference to a block that is not an ancestor")
        certified_block = (ballot.kind, ballot.height, ballot.block)
        _require(
            certified_block == (BallotKind.FINALISE, reference.height, reference.block),
            "certificate for another block or kind",
        )
        members = self._epoch(self.parameters.epoch_of(reference.height)).validators
        is_certified = verify_certificate(reference.certificate, members, self.genesis, self.verify)
        _require(is_certified, "invalid certificate")

    def _check_randomness(self, header_parts: HeaderParts, member: Validator, seed: bytes) -> None:
        """Check the VRF output of the author for this slot."""
        pre_digest = header_parts.pre_digest
        vrf_output = vrf.verify(member.vrf, vrf_input(self.genesis, seed, pre_digest.slot), pre_digest.vrf_proof)
        _require(vrf_output == pre_digest.vrf_output, "invalid VRF proof")

    def _epoch(self, epoch_number: int) -> Epoch:
        epoch = self.epochs(epoch_number)
        if epoch is None:
            raise NotYetError("epoch not determined here yet")
        return epoch


def vrf_input(genesis_hash: bytes, seed: bytes, slot: int) -> bytes:
    """Return the input of a proposer's VRF in a slot."""
    return domain(b"vrf", genesis_hash, seed + slot.to_bytes(8, "little"))


def read_header(header: Header) -> HeaderParts:
    """Return the items of a header's digest.

    Raise InvalidHeaderError unless the digest holds exactly author, slot and the consensus items, in order.
    """
    try:
        unsealed, signature = digest.split_seal(header.digest)
        pre_digest = digest.find_pre_digest(unsealed)
        consensus_items = digest.consensus_logs(unsealed[2:])
    except DecodeError as error:
        raise InvalidHeaderError(str(error)) from error
    author = digest.find_author(unsealed)
    if author is None or pre_digest is None or len(consensus_items) != len(unsealed) - 2:
        raise InvalidHeaderError("digest with a missing or foreign item")
    item_types = [type(digest_item) for digest_item in consensus_items]
    in_order = [item_type for item_type in (digest.FinalRef, digest.NextValidators) if item_type in item_types]
    _require(item_types == in_order, "consensus items repeated or out of order")
    references = [digest_item for digest_item in consensus_items if isinstance(digest_item, digest.FinalRef)]
    following = [digest_item.hash for digest_item in consensus_items if isinstance(digest_item, digest.NextValidators)]
    return HeaderParts(
        author,
        pre_digest,
        _read_final_ref(references[0]) if references else None,
        following[0] if following else None,
        signature,
    )


def _read_final_ref(digest_item: digest.FinalRef) -> CertifiedRef:
    try:
        return CertifiedRef(digest_item.height, digest_item.hash, CERTIFICATE.decode(digest_item.certificate))
    except DecodeError as error:
        raise InvalidHeaderError(f"malformed certificate: {error}") from error


def final_ref_log(reference: CertifiedRef) -> digest.FinalRef:
    """Return the digest item that names a final block."""
    return digest.FinalRef(reference.height, reference.block, CERTIFICATE.encode(reference.certificate))


def _require(is_valid: bool, reason: str) -> None:
    if not is_valid:
        raise InvalidHeaderError(reason)
