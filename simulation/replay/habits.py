"""What those who act on a recorded chain want to do, and how they are: the same for the same unit, case or task."""

import random
from dataclasses import dataclass

from gpu_tasks.market.attestations.kinds import AnyAttestation
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call
from simulation.replay.cast import Actor
from wallet.keypair import Keypair

INPUT_BAD = 0.05
"""Of units and tasks."""


@dataclass(frozen=True)
class Deed:
    """What somebody wants to do in this block: a call by one of its keys, or an attestation for the author."""

    keys: Keypair
    call: Call | None = None
    attestation: AnyAttestation | None = None


def salt_of(actor: Actor, case: bytes) -> bytes:
    """An actor's own chance for what it seals."""
    return blake2_256(actor.name.encode() + case)


def portion(case: bytes, label: bytes) -> float:
    """A number from 0 to 1 that belongs to the unit, case or task."""
    return random.Random(label + case).random()
