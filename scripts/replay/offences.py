"""Evidence of double proposals for a recorded chain: real, repeated, too old, and worthless."""

from runtime.blocks.block import HEADER, Header, seal_payload
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.blocks.evidence import DoubleHeader
from runtime.frame.call import Call
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from scripts.replay.cast import ACTORS, VALIDATORS, Actor
from scripts.replay.world import World

OFFENDERS = ("Dave", "Bob")
FIRST_OFFENCE_HEIGHT = 130


def report(world: World, _: Actor) -> Call:
    """A report that may be right, late, repeated or nonsense."""
    kind = world.chance.randrange(6)
    offenders = OFFENDERS if world.height > 3 * FIRST_OFFENCE_HEIGHT else OFFENDERS[:1]
    name = world.chance.choice(offenders) if world.height > FIRST_OFFENCE_HEIGHT else "Ferdie"
    offender = next(actor for actor in ACTORS if actor.name == name)
    epoch = world.bound[Beacon].epoch()
    if kind == 0:
        return _called(world.chance.randbytes(40), b"")
    if kind == 1:  # the same header twice
        header = _sealed(world, offender, 1, epoch)
        return _called(header, header)
    if kind == 2:
        validator = next(actor for actor in ACTORS if actor.name == VALIDATORS[0])
        old = (_sealed(world, validator, root, 0) for root in (1, 2))
        first, second = old
        if epoch > 4:
            return _called(first, second)
    return _called(_sealed(world, offender, 1, epoch), _sealed(world, offender, 2, epoch))


def _called(first: bytes, second: bytes) -> Call:
    return TrustLock.report_offence(evidence=DoubleHeader(first, second))


def _sealed(world: World, author: Actor, root: int, epoch: int) -> bytes:
    pre_digest = PreDigest(77, epoch, bytes(32), bytes(80))
    digest = (author_item(author.stash.account), pre_digest_item(pre_digest))
    header = Header(bytes(32), 9, bytes([root]) * 32, bytes(32), digest)
    seal = seal_item(author.session.sign(seal_payload(world.genesis_hash, header)))
    return HEADER.encode(Header(bytes(32), 9, header.state_root, bytes(32), (*digest, seal)))
