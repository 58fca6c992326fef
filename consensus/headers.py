"""Header rules: which blocks may enter the tree at all, before they are executed.

Always: a header that passes has one valid proposer, a slot after its parent's and not in the
future, and a final reference that is an ancestor with a certificate that verifies. `check_facts`
is the part that the simulator shares; `check_header` adds seal, VRF and digest.
"""

from collections.abc import Callable

from consensus.certificates import verify_certificate
from consensus.events import BlockFacts, FinalRef
from consensus.parameters import Parameters
from consensus.proposer import proposer
from consensus.validators import Epoch, Epochs
from consensus.votes import Kind, Verify

# Id of the ancestor of the checked block at a height, None if the height is not above genesis
# or below the parent's: final blocks included.
AncestorAt = Callable[[int], bytes | None]


class InvalidHeaderError(Exception):
    """The header breaks a rule; the block is invalid for everybody, for ever."""


class NotYetError(Exception):
    """The header cannot be judged yet: its slot is in the future, or its epoch undetermined here."""


def check_facts(
    facts: BlockFacts,
    parent: BlockFacts,
    referenced_height: int,
    ancestor_at: AncestorAt,
    parameters: Parameters,
    epochs: Epochs,
    genesis: bytes,
    verify: Verify,
    now_ms: int,
) -> Epoch:
    """Check what consensus reads of a block against its parent, whose ancestry names
    `referenced_height` as final. Returns the block's epoch; InvalidHeaderError, NotYetError.
    """
    _require(facts.parent == parent.id and facts.height == parent.height + 1, "wrong parent or height")
    _require(facts.slot > parent.slot, "the slot is not after the parent's")
    if facts.slot * parameters.slot_ms > now_ms + parameters.skew_ms:
        raise NotYetError("the slot is in the future")
    if facts.final_ref is not None:
        referenced_height = _check_final_ref(
            facts.final_ref, referenced_height, ancestor_at, parameters, epochs, genesis, verify
        )
    number = parameters.epoch_of(facts.height)
    _require(facts.height - referenced_height <= parameters.final_lag_max, "too far ahead of finality")
    _require(referenced_height >= parameters.settled_height(number), "the epoch's seed is not final")
    epoch = epochs(number)
    if epoch is None:
        raise NotYetError("the epoch is not determined here")
    _require(proposer(epoch, facts.slot) == facts.author, "not the slot's proposer")
    return epoch


def _check_final_ref(
    reference: FinalRef,
    referenced_height: int,
    ancestor_at: AncestorAt,
    parameters: Parameters,
    epochs: Epochs,
    genesis: bytes,
    verify: Verify,
) -> int:
    """Height of a final reference that advances, is an ancestor, and is certified."""
    ballot = reference.certificate.ballot
    _require(reference.height > referenced_height, "the final reference does not advance")
    _require(ancestor_at(reference.height) == reference.block, "the final reference is no ancestor")
    _require(
        (ballot.kind, ballot.height, ballot.block) == (Kind.FINALISE, reference.height, reference.block),
        "the certificate is for something else",
    )
    epoch = epochs(parameters.epoch_of(reference.height))
    if epoch is None:
        raise NotYetError("the certificate's epoch is not determined here")
    _require(
        verify_certificate(reference.certificate, epoch.validators, genesis, verify),
        "the certificate does not verify",
    )
    return reference.height


def _require(holds: bool, reason: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise InvalidHeaderError(reason)
