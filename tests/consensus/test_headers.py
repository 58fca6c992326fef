"""Header rules on real headers: one good header, and a table of errors."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from consensus.certificates import make_certificate
from consensus.events import BlockFacts, CertifiedRef
from consensus.headers import HeaderRules, InvalidHeaderError, NotYetError, final_ref_log, proposer, vrf_input
from consensus.parameters import DEVNET
from consensus.validators import Epoch, Validator, ValidatorSet
from consensus_parts import GENESIS, GENESIS_BLOCK
from devnet.simulation.keys import real_signer, verify_real
from runtime.blocks.block import Header, block_id, seal_payload
from runtime.blocks.digest import (
    Digest,
    NextValidators,
    Other,
    PreDigest,
    author_item,
    consensus_item,
    pre_digest_item,
    seal_item,
)
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography import vrf

SIGNERS = [real_signer(number) for number in range(4)]
VRF_SEEDS = [bytes([number]) * 32 for number in range(4)]
PARENT = BlockFacts(b"p" * 32, b"q" * 32, 10, 100, SIGNERS[0].public, 5)
NOW_MS = 150_000


def validators(number: int) -> ValidatorSet:
    return ValidatorSet(
        number,
        tuple(
            Validator(bytes([place]) * 32, SIGNERS[place].public, vrf.public_key(VRF_SEEDS[place]), 1)
            for place in range(4)
        ),
    )


def epochs(number: int) -> Epoch | None:
    return Epoch(validators(number), bytes(32)) if number < 2 else None


RULES = HeaderRules(DEVNET, epochs, GENESIS, verify_real)
EPOCH = Epoch(validators(0), bytes(32))


def author_of(slot: int) -> int:
    return [signer.public for signer in SIGNERS].index(proposer(EPOCH, slot))


def ancestor_at(height: int) -> bytes | None:
    return bytes([height]) * 32 if height < 10 else PARENT.id


def final_ref(
    height: int, voters: int = 3, block: bytes | None = None, kind: BallotKind = BallotKind.FINALISE
) -> CertifiedRef:
    name = block or ancestor_at(height) or b""
    content = Ballot(kind, 0, 3, height, name)
    payload = ballot_payload(GENESIS, content)
    signatures = {signer.public: signer.sign(payload) for signer in SIGNERS[:voters]}
    return CertifiedRef(height, name, make_certificate(content, validators(0), signatures))


def header(
    slot: int = 120,
    author: int | None = None,
    number: int = 11,
    parent: bytes = PARENT.id,
    reference: CertifiedRef | None = None,
    epoch: int = 0,
    vrf_slot: int | None = None,
    extra: Digest = (),
    sealer: int | None = None,
) -> Header:
    author = author_of(slot) if author is None else author
    output, proof = vrf.prove(VRF_SEEDS[author], vrf_input(GENESIS, bytes(32), slot if vrf_slot is None else vrf_slot))
    digest: Digest = (author_item(bytes([author]) * 32), pre_digest_item(PreDigest(slot, epoch, output, proof)))
    if reference is not None:
        digest = (*digest, consensus_item(final_ref_log(reference)))
    digest = (*digest, *extra)
    unsealed = Header(parent, number, bytes(32), bytes(32), digest)
    signature = SIGNERS[author if sealer is None else sealer].sign(seal_payload(GENESIS, unsealed))
    return replace(unsealed, digest=(*digest, seal_item(signature)))


def check(checked: Header, now_ms: int = NOW_MS, parent: BlockFacts = PARENT) -> BlockFacts:
    return RULES.check_header(checked, parent, ancestor_at, now_ms)


def test_good_header() -> None:
    good = header()
    session = SIGNERS[author_of(120)].public
    assert check(good) == BlockFacts(block_id(good), PARENT.id, 11, 120, session, 5, None)


def test_good_header_with_final_reference() -> None:
    reference = final_ref(8)
    facts = check(header(reference=reference))
    assert facts.final_ref == reference
    assert facts.referenced_height == 8


NEXT = consensus_item(NextValidators(bytes(32)))
INVALID: dict[str, tuple[Callable[[], Header], str]] = {
    "parent": (lambda: header(parent=bytes(32)), "wrong parent"),
    "height": (lambda: header(number=12), "wrong parent"),
    "slot of the parent": (lambda: header(slot=100), "not after the parent"),
    "not the proposer": (lambda: header(author=(author_of(120) + 1) % 4), "slot's proposer"),
    "seal of another": (lambda: header(sealer=(author_of(120) + 1) % 4), "invalid seal"),
    "randomness of another slot": (lambda: header(vrf_slot=121), "invalid VRF proof"),
    "epoch": (lambda: header(epoch=1), "epoch does not match"),
    "reference back": (lambda: header(reference=final_ref(5)), "not between"),
    "reference to itself": (lambda: header(reference=final_ref(11)), "not between"),
    "reference to no ancestor": (lambda: header(reference=final_ref(8, block=b"x" * 32)), "not an ancestor"),
    "reference without quorum": (lambda: header(reference=final_ref(8, voters=2)), "invalid certificate"),
    "notarised is not final": (
        lambda: header(reference=final_ref(8, kind=BallotKind.NOTARISE)),
        "another block or kind",
    ),
    "reference twice": (
        lambda: header(reference=final_ref(8), extra=(consensus_item(final_ref_log(final_ref(9))),)),
        "repeated or out",
    ),
    "out of order": (
        lambda: header(extra=(NEXT, consensus_item(final_ref_log(final_ref(9))))),
        "repeated or out",
    ),
    "next validators within an epoch": (lambda: header(extra=(NEXT,)), "wrong height"),
    "foreign item": (lambda: header(extra=(Other(b"x"),)), "missing or foreign"),
    "no digest": (lambda: replace(header(), digest=()), "no seal"),
    "no author": (lambda: replace(header(), digest=header().digest[1:]), "missing or foreign"),
    "no pre-digest": (
        lambda: replace(header(), digest=(header().digest[0], *header().digest[2:])),
        "missing or foreign",
    ),
    "stranger": (
        lambda: replace(header(), digest=(author_item(b"s" * 32), *header().digest[1:])),
        "not in the epoch's set",
    ),
    "another state root": (lambda: replace(header(), state_root=b"r" * 32), "invalid seal"),
}


@pytest.mark.parametrize(("make", "reason"), INVALID.values(), ids=INVALID)
def test_invalid_header(make: Callable[[], Header], reason: str) -> None:
    with pytest.raises(InvalidHeaderError, match=reason):
        check(make())


def test_slots_of_the_future_are_not_judged_yet() -> None:
    early = header(slot=120)
    assert check(early, now_ms=120_000 - DEVNET.skew_ms).slot == 120
    with pytest.raises(NotYetError):
        check(early, now_ms=120_000 - DEVNET.skew_ms - 1)


def test_epochs_that_this_node_does_not_know_are_not_judged_yet() -> None:
    parent = replace(PARENT, height=120, referenced_height=119)
    with pytest.raises(NotYetError):
        check(header(number=121, epoch=2), parent=parent)


def test_first_block_of_an_epoch_needs_its_seed_settled() -> None:
    for referenced, works in ((39, False), (40, True)):
        parent = replace(PARENT, height=60, referenced_height=referenced)
        opening = header(number=61, epoch=1)
        if works:
            assert check(opening, parent=parent).height == 61
        else:
            with pytest.raises(InvalidHeaderError, match="40 must be final"):
                check(opening, parent=parent)


def test_the_last_block_of_an_epoch_names_the_next_validators_after_its_final_reference() -> None:
    parent = replace(PARENT, height=59)
    reference = final_ref(8)
    for extra, reason in (((), "wrong height"), ((NEXT, NEXT), "repeated or out")):
        with pytest.raises(InvalidHeaderError, match=reason):
            check(header(number=60, reference=reference, extra=extra), parent=parent)
    assert check(header(number=60, reference=reference, extra=(NEXT,)), parent=parent).height == 60


def test_finality_may_lag_only_so_far() -> None:
    parent = replace(PARENT, height=10 + DEVNET.final_lag_max, referenced_height=10)
    facts = BlockFacts(b"i" * 32, parent.id, parent.height + 1, 120, bytes(32), 10)
    with pytest.raises(InvalidHeaderError, match="too far ahead"):
        RULES.check_facts(facts, parent, ancestor_at, NOW_MS)


def test_a_claimed_reference_needs_a_certificate() -> None:
    facts = BlockFacts(b"i" * 32, PARENT.id, 11, 120, SIGNERS[author_of(120)].public, 9)
    with pytest.raises(InvalidHeaderError, match="referenced height"):
        RULES.check_facts(facts, PARENT, ancestor_at, NOW_MS)


def test_genesis_can_be_built_on() -> None:
    opening = header(number=1, parent=GENESIS)
    assert check(opening, parent=GENESIS_BLOCK).height == 1


def test_the_first_block_of_an_epoch_names_the_last_one_which_the_set_before_certified() -> None:
    last = replace(PARENT, height=60, referenced_height=59)
    assert check(header(number=61, epoch=1, reference=final_ref(60)), parent=last).referenced_height == 60


def test_the_output_is_the_one_that_the_proof_proves() -> None:
    author = author_of(120)
    output, proof = vrf.prove(VRF_SEEDS[author], vrf_input(GENESIS, bytes(32), 120))
    for claimed, is_valid in ((output, True), (bytes(len(output)), False)):
        digest: Digest = (author_item(bytes([author]) * 32), pre_digest_item(PreDigest(120, 0, claimed, proof)))
        unsealed = Header(PARENT.id, 11, bytes(32), bytes(32), digest)
        seal = seal_item(SIGNERS[author].sign(seal_payload(GENESIS, unsealed)))
        sealed = replace(unsealed, digest=(*digest, seal))
        if is_valid:
            assert check(sealed).author == SIGNERS[author].public
        else:
            with pytest.raises(InvalidHeaderError, match="invalid VRF proof"):
                check(sealed)
