"""Evidence about votes, judged by the set of the epoch that they name, whoever holds office since."""

from consensus.validators import ValidatorSet
from runtime.blocks.evidence import DoubleBallot, DoubleProposal, are_signed
from runtime.blocks.votes import VerifyEd25519


def verify_votes(
    evidence: DoubleProposal | DoubleBallot, members: ValidatorSet, genesis: bytes, verify: VerifyEd25519
) -> bool:
    """Whether E2, E3 or E4 proves its accused at fault, a member of the set of the epoch that the statements name."""
    if evidence.first.epoch != members.epoch or evidence.accused not in members.index:
        return False
    return are_signed(evidence, genesis, verify)
