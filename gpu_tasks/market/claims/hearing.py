"""A dispute from its opening to its ruling: draws, commits, openings, decisions and the appeal.

    DRAWING ──nine drawn──> VOTING ──five equal──> APPEALABLE ──nobody appeals──> the ruling
       │                      └──otherwise──> APPEAL <──a party appeals──┘           ^
       └──fewer than nine are eligible──────────┴───────────all eligible vote────────┘

Invariants: no vote is opened before all commits are closed and the close is final. A voter holds its bond from its draw
to the end, also after it leaves office. Each dispute ends once, with nothing held for it.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.claims.dispute_events import (
    ActedAlready,
    DisputeAppealed,
    DisputeDecided,
    DisputeEnded,
    DisputeOpened,
    MalformedVote,
    NoDecisionToAppeal,
    NotAParty,
    NotAVoter,
    NotTheCommittedVote,
    OutsideWindow,
    VoteCommitted,
    VoteOpened,
    VoterCharged,
    VotersDrawn,
)
from gpu_tasks.market.claims.disputes import (
    APPEAL,
    DRAWN,
    SEATS,
    VOTER_BOND,
    VOTERS_MIN,
    Dispute,
    DisputeStage,
    DisputeTerms,
    VotingSeat,
    seeds_of,
)
from gpu_tasks.market.claims.disputes_storage import DisputesStorage, bond_of, windows_of
from gpu_tasks.market.claims.findings import ItemVote, seed_of, vote_commitment
from gpu_tasks.market.claims.handlers import Ruling, dispute_handler_at
from gpu_tasks.market.claims.money import EventMoney, MoneyEvent, Purse, settle
from gpu_tasks.market.claims.voting import (
    agrees,
    charged,
    decision_of_seats,
    decision_of_stake,
    draw_voters,
    is_well_formed,
    standard_of_first,
)
from gpu_tasks.market.devices.checkers import in_office
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.rounds import Round
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.pallet import ensure, known
from runtime.pallets.staking.slashing import Share

STEP_WEIGHT = WEIGHTS["Disputes.on_initialize step"]
"""The weight of a step, without a draw, and without the voters that it reads or releases."""
DRAW_WEIGHT = WEIGHTS["Disputes.on_initialize draw"]
"""The weight of the lottery of all validators."""
LOOK_WEIGHT = WEIGHTS["Disputes.on_initialize look"]
"""The weight of checking that one validator may vote, or of reading the stash of an account that may not."""
VOTER_WEIGHT = WEIGHTS["Disputes.on_initialize voter"]
"""The weight of drawing one voter, or of reading and releasing it and paying its fee."""
RULING_WEIGHT = WEIGHTS["Disputes.on_initialize ruling"]
"""The weight of the handler's ruling, without the fees of voters."""


def begin(room: DisputesStorage, dispute_id: bytes, terms: DisputeTerms) -> None:
    """Open a dispute. Its voters are drawn once the beacon is final."""
    assert dispute_id not in room.disputes, "a dispute has an id of its own"
    # Raises if there is no such handler: no ruling of the dispute could be carried out.
    dispute_handler_at(terms.handler, room.context.members.values())
    dispute = Dispute(terms, room.windows_for(terms.run_blocks), DisputeStage.DRAWING, room.height)
    room.emit(DisputeOpened(dispute_id, terms.handler, terms.question))
    _await_draw(room, dispute_id, dispute)


def step(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> Weight:
    """Take the step that is due in a dispute. Return its weight."""
    looks, voters = room.tally.looks, room.tally.voters
    _step(room, dispute_id, dispute)
    looks, voters = room.tally.looks - looks, room.tally.voters - voters
    weight = STEP_WEIGHT + times(looks, LOOK_WEIGHT) + times(voters, VOTER_WEIGHT)
    if looks:
        weight += DRAW_WEIGHT
    return weight if dispute_id in room.disputes else weight + RULING_WEIGHT


def commit(room: DisputesStorage, dispute_id: bytes, dispute: Dispute, voter: bytes, commitment: bytes) -> None:
    """Record a voter's commitment in the present round."""
    ballot, current = _acting(room, dispute_id, dispute, voter)
    ensure(ballot.commitment is None, ActedAlready)
    ensure(rounds.can_commit(current, windows_of(dispute), room.height), OutsideWindow)
    room.ballots[voter, dispute_id] = replace(ballot, commitment=commitment)
    room.emit(VoteCommitted(dispute_id, voter))
    current = rounds.committed(current, room.height, is_last=dispute.to_commit == 1)
    dispute = replace(dispute, round=current, to_commit=dispute.to_commit - 1, to_open=dispute.to_open + 1)
    _go_on(room, dispute_id, dispute)


def open_vote(
    room: DisputesStorage, dispute_id: bytes, dispute: Dispute, voter: bytes, vote: ItemVote, salt: bytes
) -> None:
    """Record a voter's vote in the present round. The next block's hook decides after the last one."""
    ballot, current = _acting(room, dispute_id, dispute, voter)
    ensure(ballot.vote is None, ActedAlready)
    ensure(ballot.commitment is not None, OutsideWindow)
    ensure(rounds.can_reveal(current, windows_of(dispute), room.height), OutsideWindow)
    genesis = room.system.block_hash[0]
    ensure(
        ballot.commitment == vote_commitment(genesis, dispute_id, ballot.round, voter, vote, salt), NotTheCommittedVote
    )
    ensure(is_well_formed(vote, len(seeds_of(dispute))), MalformedVote)
    room.ballots[voter, dispute_id] = replace(ballot, vote=vote)
    room.emit(VoteOpened(dispute_id, voter, vote))
    room.disputes[dispute_id] = replace(dispute, round=current, to_open=dispute.to_open - 1)
    if dispute.to_open == 1:
        # A call that ends a dispute would weigh many times its charge.
        room.agenda.put(room.height + 1, dispute_id)


def appeal(room: DisputesStorage, dispute_id: bytes, dispute: Dispute, who: bytes) -> None:
    """Have all eligible validators vote instead of the drawn ones."""
    named = (who, room.devices.operator(who))
    appellant = known(next((each for each in named if _may_appeal(room, dispute_id, dispute, each)), None), NotAParty)
    is_open = dispute.stage is DisputeStage.APPEALABLE and room.height <= dispute.appealable_until
    ensure(is_open, NoDecisionToAppeal)
    room.emit(DisputeAppealed(dispute_id, appellant))
    room.agenda.drop(dispute_id)
    _await_draw(room, dispute_id, replace(dispute, stage=DisputeStage.APPEAL, appellant=appellant))


def _may_appeal(room: DisputesStorage, dispute_id: bytes, dispute: Dispute, who: bytes) -> bool:
    """Return True for a party, and for a drawn voter that the decision would charge for its vote."""
    if who in dispute.terms.parties:
        return True
    # Both parties may be friends. Then nobody but an outvoted voter wants the right decision.
    ballot = room.ballots[who, dispute_id]
    return ballot is not None and charged(ballot.vote, dispute.vote) is Purse.OUTVOTED


def _step(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> None:
    if dispute.stage is DisputeStage.APPEALABLE:
        if room.height > dispute.appealable_until:
            _end(room, dispute_id, dispute, dispute.vote)
        return
    final = room.beacon.final_height()
    if dispute.round is None:
        if final >= dispute.recorded_at + BEACON_DELAY:
            _draw(room, dispute_id, dispute)
        return
    windows = windows_of(dispute)
    current = rounds.advanced(dispute.round, windows, room.height, final)
    is_complete = bool(current.closed_at) and not dispute.to_open
    if is_complete or rounds.is_over(current, windows, room.height):
        _decide(room, dispute_id, dispute)
    else:
        _go_on(room, dispute_id, replace(dispute, round=current))


def _acting(room: DisputesStorage, dispute_id: bytes, dispute: Dispute, voter: bytes) -> tuple[VotingSeat, Round]:
    """Return the ballot of a voter of the present round, and the round as this block finds it.

    The clock decides, not the hook, which may reach the dispute some blocks late.
    """
    ballot = known(room.ballots[voter, dispute_id], NotAVoter)
    ensure(ballot.round == (APPEAL if dispute.stage is DisputeStage.APPEAL else DRAWN), NotAVoter)
    current = known(dispute.round, OutsideWindow)
    return ballot, rounds.advanced(current, windows_of(dispute), room.height, room.beacon.final_height())


def _await_draw(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> None:
    """Schedule a draw by a beacon that is still unknown."""
    room.disputes[dispute_id] = replace(dispute, recorded_at=room.height, round=None)
    room.final_agenda.put(room.height + BEACON_DELAY, dispute_id)


def _draw(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> None:
    beacon = room.beacon.value_at(dispute.recorded_at + BEACON_DELAY)
    # Finality halted for longer than the beacon remembers.
    if beacon is None:
        _await_draw(room, dispute_id, dispute)
        return
    dispute = replace(dispute, seed=seed_of(beacon, dispute_id, b""))
    entrants, may_vote = in_office(room.devices), room.may_vote(dispute_id, dispute.terms)
    if dispute.stage is DisputeStage.APPEAL:
        able = [stash for stash, _ in entrants if may_vote(stash)]
    else:
        able = draw_voters(beacon, dispute_id, entrants, may_vote)
        if len(able) == SEATS:
            drawn = replace(dispute, stage=DisputeStage.VOTING, voters=tuple(able))
            _seat(room, dispute_id, drawn, DRAWN, [(voter, 1) for voter in able])
            return
    if len(able) < VOTERS_MIN:
        _end(room, dispute_id, dispute, None)
        return
    stakes = [(stash, stake) for stash, stake in entrants if stash in able]
    called = replace(dispute, stage=DisputeStage.APPEAL, electorate=tuple(stash for stash, _ in stakes))
    _seat(room, dispute_id, called, APPEAL, stakes)


def _seat(
    room: DisputesStorage, dispute_id: bytes, dispute: Dispute, number: int, voters: Sequence[tuple[bytes, int]]
) -> None:
    """Give each voter of a round its ballot, and take its bond unless the voter holds one."""
    bond = bond_of(dispute.terms)
    for voter, weight in voters:
        before = room.ballots[voter, dispute_id]
        if before is None:
            room.lock.lock(voter, Hold(VOTER_BOND, dispute_id), bond)
        first = None if before is None else before.vote
        room.ballots[voter, dispute_id] = VotingSeat(round=number, weight=weight, held=bond, first=first)
    room.tally.voters += len(voters)
    room.emit(VotersDrawn(dispute_id, number, tuple(voter for voter, _ in voters), bond))
    _go_on(room, dispute_id, replace(dispute, round=Round(drawn_at=room.height), to_commit=len(voters), to_open=0))


def _go_on(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> None:
    """Store a dispute whose round continues, and schedule its next change that needs no call."""
    assert dispute.round is not None, "voters in session have a round"
    room.disputes[dispute_id] = dispute
    deadline, awaited = rounds.next_change(dispute.round, windows_of(dispute))
    if deadline is not None:
        room.agenda.put(max(deadline, room.height) + 1, dispute_id)
    if awaited > room.beacon.final_height():
        room.final_agenda.put(awaited, dispute_id)


def _decide(room: DisputesStorage, dispute_id: bytes, dispute: Dispute) -> None:
    """Read the votes of the present round."""
    is_first = dispute.stage is DisputeStage.VOTING
    ballots = [room.ballot(voter, dispute_id) for voter in (dispute.voters if is_first else dispute.electorate)]
    if not is_first:
        votes = ((ballot.vote, ballot.weight) for ballot in ballots)
        _end(room, dispute_id, dispute, decision_of_stake(votes, dispute.terms.question))
        return
    vote = decision_of_seats(ballot.vote for ballot in ballots)
    room.agenda.drop(dispute_id)
    room.final_agenda.drop(dispute_id)
    if vote is None:
        _await_draw(room, dispute_id, replace(dispute, stage=DisputeStage.APPEAL))
        return
    until = room.height + dispute.windows.appeal
    room.emit(DisputeDecided(dispute_id, vote, until))
    room.disputes[dispute_id] = replace(
        dispute, stage=DisputeStage.APPEALABLE, round=None, vote=vote, appealable_until=until
    )
    room.agenda.put(until + 1, dispute_id)


def _end(room: DisputesStorage, dispute_id: bytes, dispute: Dispute, decision: ItemVote | None) -> None:
    """Charge and release all voters, and hand the ruling to the handler."""
    voters = dict.fromkeys((*dispute.voters, *dispute.electorate))
    ballots = {voter: room.ballot(voter, dispute_id) for voter in voters}
    agreed: tuple[list[bytes], list[bytes]] = ([], [])
    payers: dict[Purse, dict[bytes, int]] = {Purse.OUTVOTED: {}, Purse.UNHEARD: {}}
    for voter, ballot in ballots.items():
        for number, vote, standard in _cast(dispute, voter, ballot, decision):
            if vote and standard and agrees(vote, standard, dispute.terms.question):
                agreed[number].append(voter)
            purse = charged(vote, standard)
            if purse:
                payers[purse][voter] = ballot.held
    _release(room, dispute_id, ballots, _losses(dispute, payers))
    room.lock.end(Hold(VOTER_BOND, dispute_id))
    room.agenda.drop(dispute_id)
    room.final_agenda.drop(dispute_id)
    del room.disputes[dispute_id]
    room.emit(DisputeEnded(dispute_id, decision))
    # If fewer than nine are eligible, all of them are in the place of the drawn voters.
    paid, paid_last = agreed if dispute.voters else agreed[::-1]
    others = tuple(voter for voter in paid_last if voter not in paid)
    ruling = Ruling(decision, dispute.appellant is not None, tuple(paid), others)
    dispute_handler_at(dispute.terms.handler, room.context.members.values()).rule(dispute_id, ruling)


def _cast(
    dispute: Dispute, voter: bytes, ballot: VotingSeat, decision: ItemVote | None
) -> list[tuple[int, ItemVote | None, ItemVote | None]]:
    """Return each round of a voter, with its vote and the vote that it should have given there, if it is decided."""
    found = []
    if voter in dispute.voters:
        vote, standard = ballot.vote if ballot.round == DRAWN else ballot.first, decision
        if vote and dispute.electorate:
            standard = standard_of_first(dispute.vote, decision, vote)
        found.append((DRAWN, vote, standard))
    if ballot.round == APPEAL:
        found.append((APPEAL, ballot.vote, decision))
    return found


def _losses(dispute: Dispute, payers: dict[Purse, dict[bytes, int]]) -> dict[bytes, int]:
    """Return the grains that voters lose by the money table. An outvoted one pays nothing for silence besides."""
    outvoted, unheard = payers[Purse.OUTVOTED], payers[Purse.UNHEARD]
    listed = {
        Purse.OUTVOTED: tuple(outvoted.items()),
        Purse.UNHEARD: tuple((voter, held) for voter, held in unheard.items() if voter not in outvoted),
    }
    money = EventMoney(fee=0, vote_fee=dispute.terms.fee, collateral=0, payers=listed)
    return {flow.source: flow.amount for flow in settle(MoneyEvent.VOTES_COUNTED, money)}


def _release(
    room: DisputesStorage, dispute_id: bytes, ballots: dict[bytes, VotingSeat], losses: dict[bytes, int]
) -> None:
    """Burn the losses of voters, return the rest of their bonds, and drop their ballots."""
    for voter, ballot in ballots.items():
        lost = losses.get(voter, 0)
        if lost:
            room.emit(VoterCharged(dispute_id, voter, lost))
        shares = (Share(None, lost), Share(voter, ballot.held - lost))
        room.lock.pay_out(voter, Hold(VOTER_BOND, dispute_id), shares)
        del room.ballots[voter, dispute_id]
    room.tally.voters += len(ballots)
