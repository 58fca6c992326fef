"""`python -m devnet.stage.measuring.observer FOLDER REPORT`: a peer that only listens, and remembers signatures.

It connects to every member of the devnet in FOLDER, verifies each signature itself, and writes REPORT on SIGTERM.
Invariant: a conflict in the report consists of two different valid signatures of one key for one subject. It proves
that a sign-state failed, even if all nodes report none.
"""

from __future__ import annotations

import json
import random
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from consensus.wire import MESSAGE, Propose, Vote
from devnet.launcher import layout, processes
from devnet.launcher.layout import Devnet, NodeLayout, genesis_hash
from devnet.launcher.processes import Process
from genesis import dev_accounts
from node.duty.signstate_file import SignStateFile
from node.p2p.frames import FrameKind
from node.p2p.identity import identity_from_seed
from node.p2p.libp2p_transport import Libp2pTransport, TransportConfig
from runtime.blocks.block import BLOCK, Header, block_id, seal_payload
from runtime.blocks.digest import find_author, find_pre_digest, split_seal
from runtime.blocks.evidence import are_exclusive
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot, SignedProposal, ballot_payload, proposal_payload
from runtime.cryptography.signatures import verify_ed25519
from runtime.encoding.codec import DecodeError

REPORT_NAME = "seen.json"


@dataclass(slots=True)
class SignatureObservation:
    """Every signed statement, by signer and by subject."""

    genesis: bytes
    sessions: dict[bytes, bytes]  # stash -> session key
    ballots: dict[tuple[bytes, int, int], set[SignedBallot]] = field(default_factory=dict)
    proposals: dict[tuple[int, int], set[SignedProposal]] = field(default_factory=dict)
    headers: dict[tuple[bytes, int], set[bytes]] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)

    def take(self, frame_kind: FrameKind, frame_payload: bytes) -> None:
        """Take one message of a peer."""
        self.messages[frame_kind.name] += 1
        try:
            if frame_kind is FrameKind.BLOCK:
                self._header(BLOCK.decode(frame_payload).header)
            elif frame_kind is FrameKind.VOTE:
                match MESSAGE.decode(frame_payload):
                    case Propose(proposal):
                        self._proposal(proposal)
                    case Vote(ballot, proposal):
                        self._ballot(ballot)
                        if proposal is not None:
                            self._proposal(proposal)
                    case _:
                        pass
        except DecodeError:
            # A peer can send any bytes. They must not end the observer, whose report is the proof's evidence.
            self.messages["undecodable"] += 1

    def _ballot(self, ballot: SignedBallot) -> None:
        observation = self.ballots.setdefault((ballot.voter, ballot.ballot.epoch, ballot.ballot.round), set())
        # Any peer can relay a forged vote, so only valid signatures count.
        if (
            ballot not in observation
            and ballot.voter in self.sessions.values()
            and self._is_signed(ballot.voter, ballot)
        ):
            observation.add(ballot)

    def _proposal(self, proposal: SignedProposal) -> None:
        observation = self.proposals.setdefault((proposal.proposal.epoch, proposal.proposal.round), set())
        # A proposal does not name its author, so the key of each validator is tried.
        if proposal not in observation and any(self._is_signed(key, proposal) for key in self.sessions.values()):
            observation.add(proposal)

    def _is_signed(self, key: bytes, statement: SignedBallot | SignedProposal) -> bool:
        match statement:
            case SignedBallot(ballot, _, signature):
                return verify_ed25519(key, ballot_payload(self.genesis, ballot), signature)
            case SignedProposal(proposal, signature):
                return verify_ed25519(key, proposal_payload(self.genesis, proposal), signature)

    def _header(self, header: Header) -> None:
        author = find_author(header.digest)
        pre_digest = find_pre_digest(header.digest)
        if author not in self.sessions or pre_digest is None:
            return
        _, signature = split_seal(header.digest)
        observation = self.headers.setdefault((author, pre_digest.slot), set())
        own_identity = block_id(header)
        # Any peer can send a header with a forged seal, so only valid seals count.
        if own_identity not in observation and verify_ed25519(
            self.sessions[author], seal_payload(self.genesis, header), signature
        ):
            observation.add(own_identity)

    def conflicts(self) -> Iterator[str]:
        """Yield each pair of statements that an honest key never signs both of."""
        for (author, author_slot), header_ids in self.headers.items():
            if len(header_ids) > 1:
                yield f"{len(header_ids)} headers by 0x{author.hex()} in slot {author_slot}"
        for (vote_epoch, vote_round), proposals in self.proposals.items():
            # Two signatures of one proposal are no offence, so only the contents are compared.
            if len({proposal.proposal for proposal in proposals}) > 1:
                yield f"{len(proposals)} proposals in epoch {vote_epoch}, round {vote_round}"
        for (voter, vote_epoch, vote_round), signed_ballots in self.ballots.items():
            distinct_ballots = sorted(
                {signed_ballot.ballot for signed_ballot in signed_ballots},
                key=lambda ballot: (ballot.kind, ballot.block),
            )
            for ballot_index, first_ballot in enumerate(distinct_ballots):
                for second_ballot in distinct_ballots[ballot_index + 1 :]:
                    # An honest voter casts several ballots in a round: after a notarise, a finalise or a skip.
                    if are_exclusive(first_ballot, second_ballot):
                        ballot_kinds = f"{first_ballot.kind.name} and {second_ballot.kind.name}"
                        yield f"{ballot_kinds} by 0x{voter.hex()} in epoch {vote_epoch}, round {vote_round}"

    def report(self) -> dict[str, Any]:
        """Return a report for JSON. It lists the ballots, to be compared with each voter's own record."""
        ballots = [signed_ballot for ballots_of_round in self.ballots.values() for signed_ballot in ballots_of_round]
        return {
            "conflicts": sorted(self.conflicts()),
            "headers": sum(map(len, self.headers.values())),
            "proposals": sum(map(len, self.proposals.values())),
            "ballots": len(ballots),
            "messages": dict(sorted(self.messages.items())),
            "votes": [
                [voter.hex(), int(ballot.kind), ballot.epoch, ballot.round, ballot.height, ballot.block.hex()]
                for voter, ballot in ((signed_ballot.voter, signed_ballot.ballot) for signed_ballot in ballots)
            ],
        }


async def observe(devnet: Devnet) -> SignatureObservation:
    """Listen until SIGTERM."""
    genesis = genesis_hash(devnet)
    validators = [member.name for member in devnet.members if member.is_validator]
    session_keys = {dev_accounts.stash(name): dev_accounts.key(name, dev_accounts.SESSION) for name in validators}
    observation = SignatureObservation(genesis, session_keys)
    bootnodes = [member.address for member in devnet.members]
    transport_config = TransportConfig(genesis=genesis, bootnodes=bootnodes, devnet=True)
    own_identity = identity_from_seed(secrets.token_bytes(32))
    # A stranger's identity: nodes relay votes to every peer, so it hears what they sign.
    transport = Libp2pTransport(transport_config, own_identity, lambda *_: True, random.Random(secrets.randbits(64)))
    async with trio.open_nursery() as nursery:
        await transport.start(nursery)
        nursery.start_soon(_take_messages, transport, observation)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as stop_signals:
            await anext(aiter(stop_signals))
        nursery.cancel_scope.cancel()
    return observation


async def _take_messages(transport: Libp2pTransport, observation: SignatureObservation) -> None:
    async for inbound_message in transport.inbound:
        observation.take(inbound_message.kind, inbound_message.payload)


def main(folder: Path, path: Path) -> None:
    """Observe, then write the report."""
    observation = trio.run(observe, layout.load(folder))
    path.write_text(json.dumps(observation.report()) + "\n", encoding="utf-8")


def observer_of(devnet: Devnet) -> Process:
    """Return the process of an observer of all members, not started."""
    observer_arguments = (str(devnet.folder), str(devnet.folder / REPORT_NAME))
    return Process("observer", "devnet.stage.measuring.observer", observer_arguments, devnet.folder / "observer")


@contextmanager
def observed_devnet(devnet: Devnet) -> Iterator[Callable[[], dict[str, Any]]]:
    """Observe a devnet during the block. Yield a function that stops the observer and returns its report."""
    observer = observer_of(devnet)

    def seen() -> dict[str, Any]:
        processes.stop(observer)
        report: dict[str, Any] = json.loads((devnet.folder / REPORT_NAME).read_text(encoding="utf-8"))
        return report

    processes.start(observer)
    try:
        yield seen
    finally:
        processes.stop(observer)


def missing_records(devnet: Devnet, votes: list[list[int | str]]) -> list[str]:
    """Return the votes that the observer received and the voter's sign-state lacks.

    Such a vote was sent before the sign-state was on disk. `votes` are [voter, kind, epoch, round, height, block], as
    the observer reports them. Call this function after all nodes have ended.
    """
    genesis = genesis_hash(devnet)
    problems = []
    for member in devnet.members:
        session_key = dev_accounts.key(member.name, dev_accounts.SESSION)
        sign_state = SignStateFile.load(devnet.paths(member).sign_state(session_key), genesis, session_key)
        if sign_state is None:
            problems.append(f"{member.name} has no sign-state")
            continue
        floor_position = (sign_state.state.floor_epoch, sign_state.state.floor_round)
        recorded = set(sign_state.state.ballots)
        for voter, ballot_kind, vote_epoch, vote_round, vote_height, block in votes:
            ballot = Ballot(
                BallotKind(int(ballot_kind)),
                int(vote_epoch),
                int(vote_round),
                int(vote_height),
                bytes.fromhex(str(block)),
            )
            # Finality prunes the sign-state: only votes above the floor must still be recorded.
            if voter == session_key.hex() and (ballot.epoch, ballot.round) > floor_position and ballot not in recorded:
                problems.append(f"{member.name}: {ballot.kind.name} in epoch {vote_epoch}, round {vote_round}")
    return problems


def has_open_vote(devnet: Devnet, genesis_hash: bytes, member: NodeLayout) -> bool:
    """Return whether a node's sign-state holds a vote to notarise in a round after the last final one."""
    session_key = dev_accounts.key(member.name, dev_accounts.SESSION)
    sign_state = SignStateFile.load(devnet.paths(member).sign_state(session_key), genesis_hash, session_key)
    if sign_state is None:
        return False
    floor_position = (sign_state.state.floor_epoch, sign_state.state.floor_round)
    return any(
        ballot.kind is BallotKind.NOTARISE and (ballot.epoch, ballot.round) > floor_position
        for ballot in sign_state.state.ballots
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
