"""Units on a `MarketChain`: raced, declined, disputed, checked, and all accounts' money afterwards."""

from collections.abc import Iterable, Iterator

from gpu_tasks.market.claims.claims import Check, ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_storage import owed
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.disputes import Dispute, seeds_of
from gpu_tasks.market.claims.findings import (
    CANNOT_FETCH,
    FINGERPRINT_BYTES,
    Finding,
    ItemSample,
    ItemVote,
    Samples,
    Verdict,
    finding_commitment,
)
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.ids import aged
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, unit_id_of
from runtime.cryptography.hashing import blake2_256
from simulation.chains.dispute_chain import VoteOf, voter_steps
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    Step,
    attach,
    attestation,
    commit,
    named_keys,
    root_of,
    salt_of,
    signed,
    terms,
    tolerant,
)

RIGHT, WRONG = root_of(b"R" * 32), root_of(b"W" * 32)


def matched(chain: MarketChain, racers: int = 2, price: int = OGPU) -> tuple[bytes, Unit, list[Keys]]:
    """Return a unit in its race, and its racers in draw order."""
    chain.blocks(3)
    (unit_id,) = chain.post(terms(price, racers))
    return unit_id, *wait_for_race(chain, unit_id)


def post_unit(chain: MarketChain, customer: Keys = CUSTOMER, *, service: int, price: int, racers: int) -> bytes | None:
    """Make a block with a post of one unit, its input sealed to all. Return None if it was refused."""
    number = chain.now()[InferenceMarket].post_counts[customer.stash]
    wanted = terms(price=price, racers=racers, sealed_at=chain.height - chain.final_lag)
    chain.block(tolerant(signed(customer.stash, InferenceMarket.post(service=service, units=(wanted,)))))
    unit_id = unit_id_of(GENESIS_HASH, customer.stash, number)
    return None if chain.now()[InferenceMarket].units[unit_id] is None else unit_id


def wait_for_race(chain: MarketChain, unit_id: bytes, after: int = 0) -> tuple[Unit, list[Keys]]:
    """Return the unit in its next race, and its racers in draw order."""
    while chain.unit(unit_id).state is not UnitState.RACING or chain.unit(unit_id).attempt == after:
        assert chain.unit(unit_id).state not in (UnitState.SETTLED, UnitState.REFUNDED), "it is drawn no more"
        chain.block()
    unit = chain.unit(unit_id)
    return unit, [chain.keys_of(racer.owner) for racer in unit.racers]


def raced(chain: MarketChain, roots: dict[int, bytes | None], racers: int = 2) -> tuple[bytes, Unit, list[Keys]]:
    """Return a unit whose racers, by place, commit to these roots; None stays silent. It ends at the reveals."""
    unit_id, unit, keys = matched(chain, racers)
    given = {place: root for place, root in roots.items() if root}
    chain.block(*(commit(keys[place], unit_id, unit, root) for place, root in given.items()))
    if len(given) < racers:
        chain.blocks(11)
    chain.block(attach(*(attestation(keys[place], unit_id, unit, root) for place, root in given.items())))
    return unit_id, unit, keys


def committed(chain: MarketChain, unit_id: bytes, racers: Iterable[Keys], root: bytes = RIGHT) -> None:
    """Make a block in which these commit to a root."""
    unit = chain.unit(unit_id)
    chain.block(*(commit(keys, unit_id, unit, root) for keys in racers))


def revealed(chain: MarketChain, unit_id: bytes, racers: Iterable[Keys], root: bytes = RIGHT) -> None:
    """Make a block whose author attaches the reveals of these racers."""
    unit = chain.unit(unit_id)
    chain.block(attach(*(attestation(keys, unit_id, unit, root) for keys in racers)))


def vote_for(verdict: Verdict, answer: bytes = RIGHT, *, weight: int = 1) -> VoteOf:
    """Return the votes of voters that agree on this verdict and answer, about an item of this weight."""

    def vote(dispute: Dispute) -> ItemVote:
        if verdict is Verdict.UNAVAILABLE:
            return CANNOT_FETCH
        return ItemVote(verdict, answer, tuple(_sample(0, weight, seed, b"") for seed in seeds_of(dispute)))

    return vote


def decided(chain: MarketChain, unit_id: bytes, vote: VoteOf) -> Unit:
    """Let voters decide the disputes of a unit. Return its record after the last one."""
    while chain.unit(unit_id).state is UnitState.DISPUTED:
        chain.block(*voter_steps(chain, vote))
    return chain.unit(unit_id)


def checker_steps(chain: MarketChain, verdict: Verdict = Verdict.RIGHT, label: bytes = b"") -> Iterator[Step]:
    """Yield the steps of checkers with this verdict, and of providers with right samples. A label makes other ones."""
    for claim_id, claim in chain.now()[ResultClaims].claims.items():
        for stash in owed(claim) if claim is not None and claim.stage is not ClaimStage.DISPUTED else ():
            yield from claim_steps(chain, chain.keys_of(stash), claim_id, verdict, label)


def claim_steps(
    chain: MarketChain, keys: Keys, claim_id: bytes, verdict: Verdict = Verdict.RIGHT, label: bytes = b""
) -> Iterator[Step]:
    """Yield the step of a claim's checker or provider in the next block, if there is one."""
    claim = chain.now()[ResultClaims].open_claim(claim_id)
    check = open_check(claim)
    if check is None or (claim.deadline and chain.height >= claim.deadline):
        return
    finding = Finding(verdict, 0, _samples(claim, check, label) if verdict is Verdict.RIGHT else ())
    salt, number = salt_of(keys, claim_id), len(claim.checks) - 1
    if claim.stage is ClaimStage.COMMITTING:
        commitment = finding_commitment(GENESIS_HASH, claim_id, number, keys.stash, finding, salt)
        yield signed(keys.provider, ResultClaims.commit_finding(claim=claim_id, commitment=commitment))
    elif claim.stage is ClaimStage.SHOWING:
        shown = _samples(claim, check, b"")
        yield signed(keys.provider, ResultClaims.show_samples(claim=claim_id, samples=shown))
    elif claim.stage is ClaimStage.OPENING and check.finding is None:
        yield signed(keys.provider, ResultClaims.open_finding(claim=claim_id, finding=finding, salt=salt))


def _samples(claim: ResultClaim, check: Check, label: bytes) -> Samples:
    each = claim.terms.weight // claim.terms.items
    return tuple(_sample(point // each, each, check.seed, label) for point in claim.points)


def _sample(index: int, weight: int, seed: bytes, label: bytes) -> ItemSample:
    return ItemSample(index, weight, blake2_256(seed + label)[:FINGERPRINT_BYTES])


def concluded(
    chain: MarketChain, unit_id: bytes, verdict: Verdict = Verdict.RIGHT, vote: VoteOf = lambda _: None
) -> Unit:
    """Let checkers with this verdict check a claimed unit, and voters vote. Return its record after that."""
    while chain.unit(unit_id).state is UnitState.CLAIMED:
        chain.block(*checker_steps(chain, verdict), *voter_steps(chain, vote))
    return chain.unit(unit_id)


def is_claim_open(chain: MarketChain, unit_id: bytes) -> bool:
    return chain.now()[ResultClaims].is_open(unit_id)


def passes(who: Keys, unit_id: bytes, attempt: int = 1) -> Step:
    return signed(who.provider, InferenceMarket.pass_unit(unit=unit_id, attempt=attempt))


def all_owned(chain: MarketChain) -> dict[bytes, int]:
    return {one.stash: chain.owned(one.stash) for one in (*chain.validators, CUSTOMER)}


def declined_twice(chain: MarketChain) -> tuple[bytes, list[Keys]]:
    """Let both racers of a unit decline."""
    unit_id, _, racers = matched(chain)
    decline = InferenceMarket.decline(unit=unit_id, attempt=1)
    chain.block(*(signed(racer.provider, decline) for racer in racers))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    return unit_id, racers


# Races with a declined or passed place, on a `MarketChain`: the racers, the decliner, and the newly drawn one.
LEASE = 30
"""The race deadline of the service on these chains."""
TO_THE_DRAW = BEACON_DELAY + 1
"""Blocks from a decline to the draw of its place, if finality is one block behind."""


def racing(chain: MarketChain, racers: int = 2, price: int = OGPU) -> tuple[bytes, list[Keys]]:
    """Return a unit in its race, and its racers in draw order."""
    unit_id, _, drawn = matched(chain, racers, price)
    return unit_id, drawn


def racers_of(chain: MarketChain, unit_id: bytes) -> list[Keys]:
    return [chain.keys_of(racer.owner) for racer in chain.unit(unit_id).racers]


def declines(who: Keys, unit_id: bytes, attempt: int = 1) -> Step:
    return signed(who.provider, InferenceMarket.decline(unit=unit_id, attempt=attempt))


def commits(chain: MarketChain, who: Keys, unit_id: bytes, root: bytes = RIGHT) -> Step:
    return commit(who, unit_id, chain.unit(unit_id), root)


def refilled(chain: MarketChain, racers: int = 2, place: int = 0) -> tuple[bytes, Keys, Keys, list[Keys]]:
    """Return a race with a declined and refilled place: the unit, the old and the new racer, and all racers."""
    unit_id, before = racing(chain, racers)
    chain.block(declines(before[place], unit_id))
    chain.blocks(TO_THE_DRAW)
    after = racers_of(chain, unit_id)
    assert chain.happened(ev.PlaceRefilled) == [ev.PlaceRefilled(unit_id, 1, after[place].stash, before[place].stash)]
    return unit_id, before[place], after[place], after


def is_awaited(chain: MarketChain, unit_id: bytes) -> bool:
    """Return True if the unit waits for a draw of its race or of a place."""
    return bool(chain.now()[InferenceMarket].draws.places[aged(chain.unit(unit_id).posted_at, unit_id)])


def closes_at(chain: MarketChain, unit_id: bytes) -> int:
    """Return the last block in which the next racer to time out may commit, or 0 without a running clock."""
    unit = chain.unit(unit_id)
    assert unit.round is not None
    windows = chain.now()[InferenceMarket].windows_of(unit)
    return race_clocks.next_change(unit.racers, unit.round, windows)[0] or 0


# Devices that have units ahead, on a `MarketChain`.
DRAW_BLOCKS = 4


def one_device(queue: int = 2) -> tuple[MarketChain, Keys]:
    """Return a chain on which all but one device are paused."""
    chain = MarketChain(named_keys(4), queue=queue)
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[1:]))
    chain.blocks(3)
    return chain, chain.validators[0]


def ahead(chain: MarketChain, units: int = 3) -> list[bytes]:
    """Return units of one racer in the order of its device."""
    posted = chain.post(*(terms(OGPU, 1) for _ in range(units)))
    chain.blocks(DRAW_BLOCKS)
    assert all(chain.unit(unit_id).state is UnitState.RACING for unit_id in posted)
    only = chain.device(chain.validators[0])
    assert only.assignment is not None
    assert {only.assignment, *only.behind} == set(posted)
    return [only.assignment, *only.behind]


def began(chain: MarketChain, unit_id: bytes) -> int:
    """Return the block in which the only racer of a unit began it, or 0 while it waits."""
    (racer,) = chain.unit(unit_id).racers
    return racer.started_at
