"""One claim on the real pallets, from the draw of its first checker to its end.

Invariant: the pallets decide all outcomes. The accounts only act. At the end the books balance to the grain, and no
account holds anything for the claim.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.claims.claims import Check, ClaimOutcome, ClaimStage, ResultClaim
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.dispute_events import DisputeAppealed, VotersDrawn
from gpu_tasks.market.claims.disputes import Dispute, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.disputes_storage import windows_of
from gpu_tasks.market.claims.findings import CANNOT_FETCH, ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.catalogue import check_books
from simulation.chains import dispute_chain
from simulation.chains.claim_chain import (
    PRICE,
    WEIGHT,
    Checks,
    Step,
    ToyMarket,
    commit_call,
    open_call,
    sample_at,
    show_call,
)
from simulation.chains.market_chain import CUSTOMER, MarketChain, signed, tolerant
from simulation.claims.habits import FALSE, Habit, Party, Voting
from simulation.claims.network import DrawnPoints, Setting, copied, drawn, is_open

WORK, CHECK = PRICE * 9 // 10, PRICE // 20
"""The cost of computing the claim, and that of computing its item again. A liar and a guesser save them."""
BLOCKS_MAX = 1_000
ANSWER, FALSE_ANSWER = blake2_256(b"right answer"), blake2_256(b"false answer")


class Play:
    """A claim with its parties."""

    def __init__(self, setting: Setting, habit: Habit, number: int) -> None:
        """Copy the claim."""
        self.setting, self.habit, self.number = setting, habit, number
        self.start: DrawnPoints = drawn(replace(setting, has_appeals=True), habit.party, number, habit.items)
        self.chain: MarketChain = copied(self.start.chain, f"{setting.seed}/{number}/play")
        self.claim_id, self.provider = self.start.claim_id, self.start.provider.stash
        self.keys = {keys.stash: keys for keys in (*self.chain.validators, self.start.stranger, CUSTOMER)}
        members = self.chain.validators[: setting.members]
        self.coalition = frozenset(
            (*(keys.stash for keys in members), *([self.start.stranger.stash] if habit.disputes else ()))
        )
        self.costs: Counter[bytes] = Counter()
        """The grains that each account spends on computing."""
        self.costs[self.provider] += WORK - saved(habit)
        self.roles: dict[bytes, str] = {}
        """Checkers that acted."""
        self.has_disputed = False

    # ------------------------------------------------------------------------------------------------------- the end

    def run(self) -> None:
        """Play to the end of the claim, and check the books."""
        for _ in range(BLOCKS_MAX):
            if not is_open(self.chain, self.claim_id):
                break
            self.chain.block(*self._steps(self.chain.now()))
        else:
            raise AssertionError("a claim without end")
        check_books(self.chain.now(), self.chain.issued)
        assert _held(self.chain, self.keys) == _held(self.start.before, self.keys), "a hold is left"

    @property
    def outcome(self) -> ClaimOutcome:
        """The end of the claim."""
        found = self.chain.now()[ToyMarket].outcomes[self.claim_id]
        assert found is not None, "the claim is over"
        return ClaimOutcome(found)

    @property
    def moved(self) -> dict[bytes, int]:
        """The grains that each account has more than before the claim."""
        before, after = _owned(self.start.before, self.keys), _owned(self.chain, self.keys)
        return {who: after[who] - before[who] for who in self.keys}

    @property
    def gained(self) -> float:
        """The coalition's gain in prices, without its costs of computing."""
        moved = self.moved
        return sum(moved[who] - self.costs[who] for who in self.coalition) / PRICE

    @property
    def ballots(self) -> int:
        """The number of the coalition's duties to vote."""
        return sum(voter in self.coalition for event in self.chain.happened(VotersDrawn) for voter in event.voters)

    @property
    def is_appealed(self) -> bool:
        """Whether a party appealed."""
        return bool(self.chain.happened(DisputeAppealed))

    def losses(self) -> dict[str, float]:
        """Return the losses of honest parties in prices, beside their costs, by role.

        A customer pays the checks, and the price of a result that stands. A provider has a right to its price.
        """
        moved = self.moved
        found: dict[str, float] = {}
        terms = self.chain.now()[ToyMarket].terms[self.claim_id]
        assert terms is not None, "the toy market opened the claim"
        for who, change in moved.items():
            if who in self.coalition or (who == self.provider and self.habit.is_false):
                continue
            role, due = self._role(who), 0
            if role == "customer":
                due = -terms.fees_held - (terms.price if self.outcome is ClaimOutcome.PASSED else 0)
            elif role == "provider":
                due = terms.price
            if change < due:
                found[role] = max(found.get(role, 0.0), (due - change) / PRICE)
        return found

    def _role(self, who: bytes) -> str:
        if who == CUSTOMER.stash:
            return "customer"
        if who == self.provider:
            return "provider"
        return self.roles.get(who, "voter")

    # ------------------------------------------------------------------------------------------------ steps of a claim

    def _steps(self, bound: Bound) -> Iterator[Step]:
        claim = bound[ResultClaims].claims[self.claim_id]
        assert claim is not None, "the claim is open"
        check = open_check(claim)
        if self.habit.disputes and not self.has_disputed and self._is_time_to_dispute(claim):
            self.has_disputed = True
            yield signed(self.start.stranger.stash, ResultClaims.dispute(claim=self.claim_id, index=0))
        elif claim.stage is ClaimStage.DISPUTED:
            for dispute_id, dispute in bound[Disputes].disputes.items():
                assert dispute is not None, "an open dispute has a record"
                yield from self._dispute_steps(bound, dispute_id, dispute)
        elif claim.stage is ClaimStage.SHOWING and check is not None:
            label = self._shown_to(check.checker)
            if label is not None:
                yield signed(self.provider, show_call(self.claim_id, claim, label))
        elif check is not None:
            yield from self._check_steps(claim, check)

    def _is_time_to_dispute(self, claim: ResultClaim) -> bool:
        """Return whether a checker is drawn: a stranger, if the provider's friend disputes."""
        check = open_check(claim)
        is_threat = check is not None and not self._is_friend(check.checker)
        return claim.stage is ClaimStage.COMMITTING and is_threat

    def _check_steps(self, claim: ResultClaim, check: Check) -> Iterator[Step]:
        keys, number = self.keys[check.checker], len(claim.checks) - 1
        does = self._finding(claim, check.checker, number)
        if claim.stage is ClaimStage.COMMITTING and does.verdict is not None:
            self.roles.setdefault(check.checker, "checker")
            if self._computes_check(check.checker, number):
                self.costs[check.checker] += CHECK
            yield signed(keys.provider, commit_call(self.claim_id, claim, keys, does))
        elif claim.stage is ClaimStage.OPENING and does.is_opened and check.finding is None:
            yield signed(keys.provider, open_call(self.claim_id, claim, keys, does))
        elif claim.stage is ClaimStage.CONCEDING and does.is_conceded:
            yield signed(keys.provider, ResultClaims.concede(claim=self.claim_id))

    def _is_friend(self, checker: bytes) -> bool:
        """Return whether a checker belongs to a provider that deviates."""
        return self.habit.party is Party.PROVIDER and checker in self.coalition

    def _is_deviating(self, checker: bytes, number: int) -> bool:
        is_first = self.habit.check is not None and not number
        return is_first or (self._is_friend(checker) and self.habit.voting is Voting.FRIENDLY)

    def _shown_to(self, checker: bytes) -> bytes | None:
        """Return the label of the samples that the provider shows. It frames no friend."""
        if self._is_friend(checker) and not self.habit.is_false:
            return b""
        return self.habit.shown

    def _finding(self, claim: ResultClaim, checker: bytes, number: int) -> Checks:
        if self.habit.check is not None and not number:
            return self.habit.check
        if self._is_friend(checker):
            return Checks(label=self._shown_to(checker) or b"")
        if not self.habit.serves_checkers:
            return Checks(Verdict.UNAVAILABLE)
        false = [place for place, point in enumerate(claim.points) if self._is_false(point)]
        return Checks(Verdict.WRONG, false[0]) if false else Checks()

    def _is_false(self, point: int) -> bool:
        return self.habit.is_false and point // WEIGHT % self.habit.false_every == 0

    def _computes_check(self, checker: bytes, number: int) -> bool:
        if self._is_deviating(checker, number):
            return False
        return self.habit.serves_checkers

    # --------------------------------------------------------------------------------------------- steps of a dispute

    def _dispute_steps(self, bound: Bound, dispute_id: bytes, dispute: Dispute) -> Iterator[Step]:
        if dispute.stage is DisputeStage.APPEALABLE:
            yield from self._appeals(dispute_id, dispute)
        elif dispute.round is not None:
            for voter in dispute_chain.voters_of(dispute):
                yield from self._vote_steps(bound, dispute_id, dispute, voter)

    def _vote_steps(self, bound: Bound, dispute_id: bytes, dispute: Dispute, voter: bytes) -> Iterator[Step]:
        keys, height = self.keys[voter], self.chain.height + 1
        vote, windows, ballot = (
            self._vote(voter, dispute),
            windows_of(dispute),
            bound[Disputes].ballots[voter, dispute_id],
        )
        assert dispute.round is not None, "voters in session have a round"
        assert ballot is not None, "a voter has a ballot"
        if vote is None:
            return
        now = rounds.advanced(dispute.round, windows, height, height - self.chain.final_lag)
        if ballot.commitment is None and rounds.can_commit(now, windows, height):
            if vote == self._true_vote(dispute):
                self.costs[voter] += CHECK
            yield dispute_chain.commits(keys, dispute_id, ballot.round, vote)
        elif ballot.commitment and not ballot.vote and rounds.can_reveal(now, windows, height):
            yield dispute_chain.opens(keys, dispute_id, vote)

    def _appeals(self, dispute_id: bytes, dispute: Dispute) -> Iterator[Step]:
        """Yield appeals of all parties and voters that would decide otherwise. The first one that may appeal does."""
        for party in dispute.terms.parties if self.setting.has_appeals else ():
            if dispute.vote != self._wished(party, dispute):
                yield tolerant(signed(party, Disputes.appeal(dispute=dispute_id)))
        for voter in dispute.voters if self.setting.has_appeals else ():
            if voter not in self.coalition and dispute.vote != self._vote(voter, dispute):
                yield tolerant(signed(voter, Disputes.appeal(dispute=dispute_id)))

    def _wished(self, party: bytes, dispute: Dispute) -> ItemVote:
        """Return the decision that a party to a dispute wants."""
        is_liar = party == self.provider and self.habit.is_false
        if is_liar or (party in self.coalition and self.habit.voting is Voting.FRIENDLY):
            return self._friendly_vote(dispute)
        if not self.habit.serves_checkers and dispute.vote is not None:
            # A checker without the item cannot tell that a decision is wrong.
            return dispute.vote
        return self._true_vote(dispute)

    def _vote(self, voter: bytes, dispute: Dispute) -> ItemVote | None:
        voting = self.habit.voting if voter in self.coalition else Voting.HONEST
        if voting is Voting.AWAY:
            return None
        if voting is Voting.FRIENDLY:
            return self._friendly_vote(dispute)
        if voting is Voting.UNSEEN or not self._is_served(voter, dispute):
            return CANNOT_FETCH
        if voting is Voting.HONEST:
            return self._true_vote(dispute)
        answer = FALSE_ANSWER if voting is Voting.OTHER_ANSWER else blake2_256(voter)
        return self._vote_for(dispute, Verdict.WRONG, answer, answer)

    def _is_served(self, voter: bytes, dispute: Dispute) -> bool:
        is_friend = self._is_friend(voter)
        return is_friend or blake2_256(voter + seeds_of(dispute)[-1])[0] * 100 < self.habit.served_voters * 256

    def _true_vote(self, dispute: Dispute) -> ItemVote:
        is_wrong = self._is_false(_point_of(dispute))
        return self._vote_for(dispute, Verdict.WRONG if is_wrong else Verdict.RIGHT, ANSWER, b"")

    def _friendly_vote(self, dispute: Dispute) -> ItemVote:
        """Return the vote that the coalition's party needs."""
        habit = self.habit
        if habit.party is Party.DISPUTER:
            return self._vote_for(dispute, Verdict.WRONG, FALSE_ANSWER, FALSE)
        if habit.check is not None and not habit.is_false:
            if habit.check.verdict is Verdict.UNAVAILABLE:
                return CANNOT_FETCH
            if habit.check.verdict is Verdict.WRONG:
                return self._vote_for(dispute, Verdict.WRONG, FALSE_ANSWER, FALSE)
            # Its samples are right in the eyes of its friends, and the provider's are false.
            return self._vote_for(dispute, Verdict.RIGHT, ANSWER, habit.check.label)
        return self._vote_for(dispute, Verdict.RIGHT, FALSE_ANSWER if habit.is_false else ANSWER, habit.shown or b"")

    def _vote_for(self, dispute: Dispute, verdict: Verdict, answer: bytes, label: bytes) -> ItemVote:
        point = _point_of(dispute)
        return ItemVote(verdict, answer, tuple(sample_at(point, seed, label) for seed in seeds_of(dispute)))


def saved(habit: Habit) -> int:
    """Return the cost of computing that the provider saves by its lie."""
    return WORK // habit.false_every if habit.is_false else 0


def _point_of(dispute: Dispute) -> int:
    return dispute.terms.index * WEIGHT if dispute.terms.point is None else dispute.terms.point


def _owned(chain: MarketChain, accounts: Iterable[bytes]) -> dict[bytes, int]:
    balances = chain.now()[Balances]
    return {who: balances.free_balance(who) + balances.reserved_balance(who) for who in accounts}


def _held(chain: MarketChain, accounts: Iterable[bytes]) -> dict[bytes, int]:
    balances = chain.now()[Balances]
    return {who: balances.reserved_balance(who) for who in accounts}
