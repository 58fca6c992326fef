"""The calls and the hook of Disputes at their worst: eight results that all differ, and a claim with ten checkers.

Nine voters decide the first dispute. Then a party appeals, and all eligible validators vote.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from benchmarks.weights.actors import DEVICE_BOND, RACED, Actor
from benchmarks.weights.claim_cases import POINTS, checked, claim_of, claimed, until
from benchmarks.weights.races import BLOCKS_BEFORE, RIGHT, ROUNDS, MarketCases, answer, attach
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.claims.claim_closing import dispute_id_of as claim_dispute
from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.disputes import APPEAL, DRAWN, SEATS, Dispute, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import (
    FINGERPRINT_BYTES,
    SEEDS_MAX,
    ItemSample,
    ItemVote,
    Verdict,
    vote_commitment,
)
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.units import RACERS_MAX, UnitState, dispute_id_of
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import signed

HOOK = "Disputes.on_initialize"
STAGE_BLOCKS_MAX = 200
LIARS = RACERS_MAX - 1
SAMPLE = ItemSample(POINTS[-1], 1, b"s" * FINGERPRINT_BYTES)
Votes = Sequence[tuple[Actor, ItemVote]]


class VoterCalls(MarketCases):
    """Disputes between racers, with and without an appeal, and one of a claim."""

    def measure(self) -> None:
        """Measure all cases, after the work left by earlier cases has ended."""
        self.world.blocks(BLOCKS_BEFORE)
        self._looks()
        drawn, nine = self._unappealed()
        called, everybody, voters = self._appealed()
        rows = self.found.rows
        each = max(called - drawn, everybody - nine) / (voters - SEATS)
        rows[f"{HOOK} voter"] = max(100.0, each - rows[f"{HOOK} look"])
        rows[f"{HOOK} draw"] = max(100.0, drawn - SEATS * each - rows[f"{HOOK} step"])
        ruling = max(nine, self._of_claim()) - SEATS * each - rows[f"{HOOK} step"]
        rows[f"{HOOK} ruling"] = max(100.0, ruling)

    def _looks(self) -> None:
        """Measure looks at validators that may vote, each of which reads all its entries."""
        unit, dispute_id = self._differing()
        room = self.world.now()[Disputes]
        may_vote = room.may_vote(dispute_id, room.open_dispute(dispute_id).terms)
        stashes = [actor.stash for actor in self.world.validators]
        real = self.least(lambda: [may_vote(stash) for stash in stashes])
        self.found.rows[f"{HOOK} look"] = real / len(stashes)
        self._vote(dispute_id, right_vote())
        self._until(dispute_id, None)
        self._make_good(unit)

    def _unappealed(self) -> tuple[float, float]:
        """Return the costs of drawing nine voters, and of a ruling against seven racers that pays these voters."""
        world = self.world
        unit, dispute_id = self._differing()
        drawn = self._drawn("nine voters drawn", dispute_id)
        self._vote(dispute_id, right_vote())
        self._step("nine votes decide")
        nine = self._ended("a dispute ends, nine voters and seven liars", dispute_id)
        world.block()
        self._make_good(unit)
        return drawn, nine

    def _appealed(self) -> tuple[float, float, int]:
        """Return the costs of calling all validators and of a ruling that pays them, and the number of the called."""
        world, found = self.world, self.found
        unit, dispute_id = self._differing()
        self._drawn("nine voters drawn again", dispute_id)
        self._vote(dispute_id, right_vote(), is_measured=True)
        self._until(dispute_id, DisputeStage.APPEALABLE)
        party = self.races.racers(unit)[-1]
        found.call(party.provider, Disputes.appeal(dispute=dispute_id))
        world.block(signed(party.provider, Disputes.appeal(dispute=dispute_id)))
        called = self._drawn("all validators called", dispute_id)
        voters = len(self._now(dispute_id).electorate)
        self._vote(dispute_id, right_vote(), is_measured=True)
        everybody = self._real("a dispute ends, all validators and seven liars")
        world.block()
        if dispute_id in world.now()[Disputes].disputes:
            raise RuntimeError("the dispute has not ended")
        self._make_good(unit)
        return called, everybody, voters

    def _of_claim(self) -> float:
        """Return the cost of a ruling that convicts a claim's provider after ten checks."""
        world = self.world
        unit = claimed(self)
        until(world, unit, ClaimStage.COMMITTING)
        world.block(checked(self, unit, Verdict.WRONG))
        while not (claim := claim_of(world, unit)).disputes:
            world.block()
        dispute_id = claim_dispute(unit, claim.disputes - 1)
        self._drawn("nine voters drawn for a claim", dispute_id)
        self._vote(dispute_id, replace(right_vote(), verdict=Verdict.WRONG))
        real = self._ended("a dispute ends, a claim with ten checkers", dispute_id)
        world.block()
        self._make_good(unit)
        return real

    def _differing(self) -> tuple[bytes, bytes]:
        """Return a unit of eight racers with as many results, and its dispute."""
        races, world = self.races, self.world
        (unit,) = races.drawn(RACED, 1)
        world.block(*races.commits([unit], liars=LIARS))
        world.blocks(2)
        dispute_id = dispute_id_of(unit, world.unit(unit).attempt)
        world.block(attach(races.reveals([unit], 0, RACERS_MAX, liars=LIARS)), partial(_with_seeds, dispute_id))
        if world.unit(unit).state is not UnitState.DISPUTED:
            raise RuntimeError("the results do not differ")
        return unit, dispute_id

    def _drawn(self, name: str, dispute_id: bytes) -> float:
        """Measure the draw of a dispute's voters, and make it."""
        dispute = self._now(dispute_id)
        self.world.blocks(dispute.recorded_at + 2 - self.world.height)
        real = self._real(name)
        self.world.block()
        if self._now(dispute_id).round is None:
            raise RuntimeError(f"{name}: no voters")
        return real

    def _ended(self, name: str, dispute_id: bytes) -> float:
        """Wait until nobody may appeal any longer, and measure the end of a dispute. The next block ends it."""
        decided = self._until(dispute_id, DisputeStage.APPEALABLE)
        self.world.blocks(decided.appealable_until - self.world.height)
        return self._real(name)

    def _real(self, name: str) -> float:
        """Return the cost of the next block's hook above its cost in a block where nothing is due."""
        real, _ = self.found.hooks(name, rounds=ROUNDS)["Disputes"]
        return max(100.0, real - self.found.rows.get(HOOK, 0.0))

    def _vote(self, dispute_id: bytes, vote: ItemVote, *, is_measured: bool = False) -> None:
        """Have all voters of the present round commit to a vote and open it. The last calls can be measured."""
        world, genesis = self.world, self.world.genesis
        dispute = self._await(dispute_id, lambda each: each.round is not None and bool(each.round.commits_from))
        number, stashes = DRAWN, dispute.voters
        if dispute.stage is DisputeStage.APPEAL:
            number, stashes = APPEAL, dispute.electorate
        vote = replace(vote, samples=vote.samples[: len(seeds_of(dispute))])
        voters = [world.by_stash[stash] for stash in stashes]
        commits = [
            (who, Disputes.commit_vote(
                dispute=dispute_id,
                commitment=vote_commitment(genesis, dispute_id, number, who.stash, vote, who.stash),
            ))
            for who in voters
        ]  # fmt: skip
        opens = [(who, Disputes.open_vote(dispute=dispute_id, vote=vote, salt=who.stash)) for who in voters]
        for calls in (commits, opens):
            if calls is opens:
                self._step("reveals opened")
                self._await(dispute_id, lambda each: each.round is not None and bool(each.round.reveals_from))
            *others, (who, last) = calls
            world.block(*(signed(other.provider, call) for other, call in others))
            if is_measured:
                self.found.call(who.provider, last)
            world.block(signed(who.provider, last))

    def _step(self, name: str) -> None:
        """Measure a step of the next block that goes on."""
        row = f"{HOOK} step"
        self.found.rows[row] = max(self._real(name), self.found.rows.get(row, 0.0))

    def _await(self, dispute_id: bytes, holds: Callable[[Dispute], bool]) -> Dispute:
        for _ in range(STAGE_BLOCKS_MAX):
            dispute = self._now(dispute_id)
            if holds(dispute):
                return dispute
            self.world.block()
        raise RuntimeError("the dispute does not go on")

    def _until(self, dispute_id: bytes, stage: DisputeStage | None) -> Dispute:
        """Make blocks until a dispute is in a stage, or with None until it is over. Return it as it was last."""
        dispute = self._now(dispute_id)
        for _ in range(STAGE_BLOCKS_MAX):
            now = self.world.now()[Disputes].disputes[dispute_id]
            if now is None:
                break
            dispute = now
            if dispute.stage is stage:
                return dispute
            self.world.block()
        if stage is not None:
            raise RuntimeError(f"the dispute does not reach {stage!r}")
        return dispute

    def _now(self, dispute_id: bytes) -> Dispute:
        return self.world.now()[Disputes].open_dispute(dispute_id)

    def _make_good(self, unit: bytes) -> None:
        """Restore the bonds of a unit's racers, and resume their devices."""
        racers = self.races.racers(unit)
        bring = (Devices.bond_device_extra(device=actor.device(), value=DEVICE_BOND) for actor in racers)
        self.world.block(*(signed(actor.stash, call) for actor, call in zip(racers, bring, strict=True)))
        self.races.wake_devices()


def right_vote() -> ItemVote:
    """Return the vote for the right result, with the most samples."""
    return ItemVote(Verdict.RIGHT, batch_root(answer(RIGHT)), (SAMPLE,) * SEEDS_MAX)


def _with_seeds(dispute_id: bytes, bound: Bound) -> None:
    """Give a dispute the most seeds, as if two checkers had shown samples."""
    room = bound[Disputes]
    dispute = room.open_dispute(dispute_id)
    seeds = tuple(bytes([place]) * 32 for place in range(SEEDS_MAX - 1))
    room.disputes[dispute_id] = replace(dispute, terms=replace(dispute.terms, seeds=seeds))
