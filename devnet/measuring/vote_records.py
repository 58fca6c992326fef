"""The sign-states of a devnet's nodes beside the votes that an observer received from them."""

from __future__ import annotations

from devnet.launcher.layout import Devnet, NodeLayout, genesis_hash
from genesis import dev_accounts
from node.duty.signstate_file import SignStateFile
from runtime.blocks.votes import Ballot, BallotKind


def missing_records(net: Devnet, votes: list[list[int | str]]) -> list[str]:
    """Votes that the observer received and that their voter's sign-state lacks: they were sent before it was synced.

    `votes` are [voter, kind, epoch, round, height, block], as the observer reports them. Call it when all nodes ended.
    """
    genesis = genesis_hash(net)
    problems = []
    for member in net.members:
        session = dev_accounts.key(member.name, dev_accounts.SESSION)
        file = SignStateFile.load(net.paths(member).sign_state(session), genesis, session)
        if file is None:
            problems.append(f"{member.name} has no sign-state")
            continue
        floor = (file.state.floor_epoch, file.state.floor_round)
        recorded = set(file.state.ballots)
        for voter, kind, epoch, round_, height, block in votes:
            ballot = Ballot(BallotKind(int(kind)), int(epoch), int(round_), int(height), bytes.fromhex(str(block)))
            # Finality drops what it covers from the sign-state: only above the floor must a vote still be there.
            if voter == session.hex() and (ballot.epoch, ballot.round) > floor and ballot not in recorded:
                problems.append(f"{member.name}: {ballot.kind.name} in epoch {epoch}, round {round_}")
    return problems


def has_open_vote(net: Devnet, genesis: bytes, member: NodeLayout) -> bool:
    """Whether a node's sign-state holds a vote to notarise in a round after the last final one."""
    session = dev_accounts.key(member.name, dev_accounts.SESSION)
    file = SignStateFile.load(net.paths(member).sign_state(session), genesis, session)
    if file is None:
        return False
    floor = (file.state.floor_epoch, file.state.floor_round)
    return any(vote.kind is BallotKind.NOTARISE and (vote.epoch, vote.round) > floor for vote in file.state.ballots)
