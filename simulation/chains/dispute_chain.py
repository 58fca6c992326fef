"""A chain with disputes and a toy handler, voters that follow a policy, and books of every bond."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from gpu_tasks.market import rounds
from gpu_tasks.market.claims.disputes import Dispute, DisputeQuestion, DisputeStage, DisputeTerms, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.disputes_storage import windows_of
from gpu_tasks.market.claims.findings import (
    CANNOT_FETCH,
    FINGERPRINT_BYTES,
    ItemSample,
    ItemVote,
    Verdict,
    vote_commitment,
)
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.devices.devices import Devices
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Hash
from runtime.frame.pallet import Pallet, StorageMap
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import Session
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, MarketChain, named_keys, salt_of, signed

FEE = OGPU // 10
Step = Callable[[Bound], None]
VoteOf = Callable[[Dispute], ItemVote | None]
"""The vote of all voters of a dispute, or None for their silence."""
Voters = Annotated[tuple[AccountId, ...], Bounded(VALIDATORS_MAX)]


@struct
class ToyRuling:
    """A ruling as the toy handler stores it."""

    vote: ItemVote | None
    is_appealed: bool
    voters: Voters
    appeal_voters: Voters


class ToyClaims(Pallet, index=203):
    """Opens disputes, and records their rulings."""

    disputes: Disputes

    rulings: StorageMap[Hash, ToyRuling | None] = StorageMap()

    def rule(self, dispute: bytes, ruling: Ruling) -> None:
        """Record a ruling."""
        assert dispute not in self.rulings, "a dispute ends once"
        self.rulings[dispute] = ToyRuling(ruling.vote, ruling.is_appealed, ruling.voters, ruling.appeal_voters)


PALLETS = (System, Balances, Beacon, TrustStake, Session, TrustLock, Devices, Disputes, ToyClaims)


def vote_of(verdict: Verdict, seeds: tuple[bytes, ...], label: bytes = b"") -> ItemVote:
    """Return an invented vote. Votes with the same label, verdict and seeds are equal."""
    if verdict is Verdict.UNAVAILABLE:
        return CANNOT_FETCH
    answer = blake2_256(b"answer" + label + bytes((verdict,)))
    prints = (blake2_256(answer + seed)[:FINGERPRINT_BYTES] for seed in seeds)
    return ItemVote(verdict, answer, tuple(ItemSample(0, 1_000, each) for each in prints))


@dataclass(frozen=True)
class Behaviour:
    """A voter's behaviour: its verdict or None, whether it opens its vote, and a label for other answers."""

    verdict: Verdict | None
    is_opened: bool = True
    label: bytes = b""
    is_copied: bool = False
    """True if it invents its sample at the new seed."""


Policy = Callable[[Keys, Dispute], Behaviour]
RIGHT, WRONG, UNAVAILABLE = (Behaviour(verdict) for verdict in Verdict)
SILENT = Behaviour(None)


def honest(_keys: Keys, _dispute: Dispute) -> Behaviour:
    """Return the behaviour of a voter that computes a right item."""
    return RIGHT


@dataclass
class DisputeChain:
    """Disputes one after another on a chain of `size` validators, between a provider and a checker outside of them."""

    size: int = 12
    policy: Policy = honest
    constants: dict[str, Any] = field(default_factory=dict)
    bonds: tuple[int, ...] = (1_000 * OGPU, 2_000 * OGPU, 1_500 * OGPU)
    seed: int = 1
    number: int = 0

    def __post_init__(self) -> None:
        """Make block 0."""
        self.parties = [Keys("provider"), Keys("checker")]
        self.chain = MarketChain(
            named_keys(self.size),
            [*self.parties, Keys("stranger")],
            {"TrustStake.validator_count": 128, **self.constants},
            pallets=PALLETS,
            bonds=self.bonds,
        )
        self.chain.chance.seed(self.seed)

    def terms(self, **changed: Any) -> DisputeTerms:
        """Return terms of a dispute between the parties."""
        terms: dict[str, Any] = {
            "handler": ToyClaims.index,
            "question": DisputeQuestion.ITEM,
            "work": b"w" * 32,
            "index": 0,
            "point": None,
            "seeds": (b"s" * 32,),
            "parties": tuple(each.stash for each in self.parties),
            "excluded": (CUSTOMER.stash,),
            "fee": FEE,
            "sealed_at": 0,
            "run_blocks": 0,
        }
        return DisputeTerms(**{**terms, **changed})

    def open(self, **changed: Any) -> bytes:
        """Make a block that opens a dispute, and return its id."""
        self.number += 1
        dispute_id = blake2_256(b"dispute" + bytes((self.number, self.size)) + self.seed.to_bytes(4, "little"))
        terms = self.terms(**changed)
        self.chain.block(lambda bound: bound[Disputes].open(dispute_id, terms))
        return dispute_id

    def dispute(self, dispute_id: bytes) -> Dispute:
        """Return an open dispute."""
        found = self.chain.now()[Disputes].disputes[dispute_id]
        assert found is not None
        return found

    def run(self, dispute_id: bytes, *, until: DisputeStage | None = None, blocks: int = 400) -> ToyRuling | None:
        """Make blocks in which the voters act, until the dispute ends or reaches a stage. Return its ruling."""
        for _ in range(blocks):
            found = self.chain.now()[Disputes].disputes[dispute_id]
            if found is None:
                return self.chain.now()[ToyClaims].rulings[dispute_id]
            if found.stage is until:
                return None
            self.chain.block(*self.steps())
        raise AssertionError("a dispute without end")

    def drawn(self, stage: DisputeStage = DisputeStage.VOTING, **changed: Any) -> tuple[bytes, list[Keys]]:
        """Return a dispute whose voters of a stage may commit, and these voters."""
        dispute_id = self.open(**changed)
        self.run(dispute_id, until=stage)
        while (found := self.dispute(dispute_id)).round is None or not found.round.commits_from:
            self.chain.block()
        return dispute_id, [self.chain.keys_of(voter) for voter in voters_of(found)]

    def steps(self) -> Iterator[Step]:
        """Yield the steps of all voters in the next block."""
        for dispute_id, dispute in self.chain.now()[Disputes].disputes.items():
            if dispute is not None and dispute.round is not None:
                for voter in voters_of(dispute):
                    yield from self._act(dispute_id, dispute, self.chain.keys_of(voter))

    def free(self, who: bytes) -> int:
        """Return the free grains of an account."""
        return self.chain.now()[Balances].free_balance(who)

    def _act(self, dispute_id: bytes, dispute: Dispute, keys: Keys) -> Iterator[Step]:
        behaviour, height = self.policy(keys, dispute), self.chain.height + 1
        if behaviour.verdict is None or dispute.round is None:
            return
        vote = given(keys, dispute, behaviour)
        windows = windows_of(dispute)
        now = rounds.advanced(dispute.round, windows, height, height - self.chain.final_lag)
        ballot = self.chain.now()[Disputes].ballots[keys.stash, dispute_id]
        assert ballot is not None
        if ballot.commitment is None and rounds.can_commit(now, windows, height):
            yield commits(keys, dispute_id, ballot.round, vote)
        elif ballot.commitment and not ballot.vote and behaviour.is_opened and rounds.can_reveal(now, windows, height):
            yield opens(keys, dispute_id, vote)


def voters_of(dispute: Dispute) -> tuple[bytes, ...]:
    """Return the voters of the present round."""
    return dispute.electorate if dispute.stage is DisputeStage.APPEAL else dispute.voters


def given(keys: Keys, dispute: Dispute, behaviour: Behaviour) -> ItemVote:
    """Return the vote of a voter with this behaviour."""
    assert behaviour.verdict is not None
    seeds = seeds_of(dispute)
    if behaviour.is_copied:
        seeds = (*seeds[:-1], blake2_256(keys.stash + seeds[-1]))
    return vote_of(behaviour.verdict, seeds, behaviour.label)


def commits(keys: Keys, dispute_id: bytes, number: int, vote: ItemVote, *, by: str = "provider") -> Step:
    """Return a step: a voter commits to a vote in a round, signed with its provider key or its stash."""
    commitment = vote_commitment(GENESIS_HASH, dispute_id, number, keys.stash, vote, salt_of(keys, dispute_id))
    return signed(keys.public(by), Disputes.commit_vote(dispute=dispute_id, commitment=commitment))


def opens(keys: Keys, dispute_id: bytes, vote: ItemVote, *, by: str = "provider") -> Step:
    """Return a step: a voter opens its committed vote."""
    return signed(keys.public(by), Disputes.open_vote(dispute=dispute_id, vote=vote, salt=salt_of(keys, dispute_id)))


def voter_steps(chain: MarketChain, vote: VoteOf) -> Iterator[Step]:
    """Yield the steps of all voters in the next block. `vote` returns their vote, or None for silence."""
    for dispute_id, dispute in chain.now()[Disputes].disputes.items():
        for voter in voters_of(dispute) if dispute is not None else ():
            yield from vote_steps(chain, chain.keys_of(voter), dispute_id, vote)


def vote_steps(chain: MarketChain, keys: Keys, dispute_id: bytes, vote: VoteOf) -> Iterator[Step]:
    """Yield the step of one voter in the next block, if there is one."""
    room, height = chain.now()[Disputes], chain.height + 1
    dispute, ballot = room.disputes[dispute_id], room.ballots[keys.stash, dispute_id]
    given = None if dispute is None else vote(dispute)
    if dispute is None or dispute.round is None or ballot is None or given is None:
        return
    windows = windows_of(dispute)
    current = rounds.advanced(dispute.round, windows, height, height - chain.final_lag)
    if ballot.commitment is None and rounds.can_commit(current, windows, height):
        yield commits(keys, dispute_id, ballot.round, given)
    elif ballot.commitment and not ballot.vote and rounds.can_reveal(current, windows, height):
        yield opens(keys, dispute_id, given)
