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

REPORT = "seen.json"


@dataclass(slots=True)
class Seen:
    """Every signed statement, by signer and by subject."""

    genesis: bytes
    sessions: dict[bytes, bytes]  # stash -> session key
    ballots: dict[tuple[bytes, int, int], set[SignedBallot]] = field(default_factory=dict)
    proposals: dict[tuple[int, int], set[SignedProposal]] = field(default_factory=dict)
    headers: dict[tuple[bytes, int], set[bytes]] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)

    def take(self, kind: FrameKind, payload: bytes) -> None:
        """Take one message of a peer."""
        self.messages[kind.name] += 1
        try:
            if kind is FrameKind.BLOCK:
                self._header(BLOCK.decode(payload).header)
            elif kind is FrameKind.VOTE:
                match MESSAGE.decode(payload):
                    case Propose(proposal):
                        self._proposal(proposal)
                    case Vote(vote, proposal):
                        self._ballot(vote)
                        if proposal is not None:
                            self._proposal(proposal)
                    case _:
                        pass
        except DecodeError:
            self.messages["undecodable"] += 1

    def _ballot(self, vote: SignedBallot) -> None:
        seen = self.ballots.setdefault((vote.voter, vote.ballot.epoch, vote.ballot.round), set())
        # Any peer can relay a forged vote, so only valid signatures count.
        if vote not in seen and vote.voter in self.sessions.values() and self._is_signed(vote.voter, vote):
            seen.add(vote)

    def _proposal(self, signed: SignedProposal) -> None:
        seen = self.proposals.setdefault((signed.proposal.epoch, signed.proposal.round), set())
        # A proposal does not name its author, so the key of each validator is tried.
        if signed not in seen and any(self._is_signed(key, signed) for key in self.sessions.values()):
            seen.add(signed)

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
        seen = self.headers.setdefault((author, pre_digest.slot), set())
        identity = block_id(header)
        # Any peer can send a header with a forged seal, so only valid seals count.
        if identity not in seen and verify_ed25519(
            self.sessions[author], seal_payload(self.genesis, header), signature
        ):
            seen.add(identity)

    def conflicts(self) -> Iterator[str]:
        """Yield each pair of statements that an honest key never signs both of."""
        for (author, slot), ids in self.headers.items():
            if len(ids) > 1:
                yield f"{len(ids)} headers by 0x{author.hex()} in slot {slot}"
        for (epoch, round_), proposals in self.proposals.items():
            if len({signed.proposal for signed in proposals}) > 1:
                yield f"{len(proposals)} proposals in epoch {epoch}, round {round_}"
        for (voter, epoch, round_), votes in self.ballots.items():
            ballots = sorted({vote.ballot for vote in votes}, key=lambda ballot: (ballot.kind, ballot.block))
            for position, first in enumerate(ballots):
                for second in ballots[position + 1 :]:
                    if are_exclusive(first, second):
                        kinds = f"{first.kind.name} and {second.kind.name}"
                        yield f"{kinds} by 0x{voter.hex()} in epoch {epoch}, round {round_}"

    def report(self) -> dict[str, Any]:
        """Return a report for JSON. It lists the ballots, to be compared with each voter's own record."""
        ballots = [vote for votes in self.ballots.values() for vote in votes]
        return {
            "conflicts": sorted(self.conflicts()),
            "headers": sum(map(len, self.headers.values())),
            "proposals": sum(map(len, self.proposals.values())),
            "ballots": len(ballots),
            "messages": dict(sorted(self.messages.items())),
            "votes": [
                [vote.voter.hex(), int(vote.ballot.kind), vote.ballot.epoch, vote.ballot.round, vote.ballot.height,
                 vote.ballot.block.hex()]
                for vote in ballots
            ],
        }  # fmt: skip


async def observe(devnet: Devnet) -> Seen:
    """Listen until SIGTERM."""
    genesis = genesis_hash(devnet)
    validators = [member.name for member in devnet.members if member.is_validator]
    sessions = {dev_accounts.stash(name): dev_accounts.key(name, dev_accounts.SESSION) for name in validators}
    seen = Seen(genesis, sessions)
    bootnodes = [member.address for member in devnet.members]
    config = TransportConfig(genesis=genesis, bootnodes=bootnodes, devnet=True)
    identity = identity_from_seed(secrets.token_bytes(32))
    transport = Libp2pTransport(config, identity, lambda *_: True, random.Random(secrets.randbits(64)))
    async with trio.open_nursery() as nursery:
        await transport.start(nursery)
        nursery.start_soon(_listen, transport, seen)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            await anext(aiter(signals))
        nursery.cancel_scope.cancel()
    return seen


async def _listen(transport: Libp2pTransport, seen: Seen) -> None:
    async for message in transport.inbound:
        seen.take(message.kind, message.payload)


def main(folder: Path, report: Path) -> None:
    """Observe, then write the report."""
    seen = trio.run(observe, layout.load(folder))
    report.write_text(json.dumps(seen.report()) + "\n", encoding="utf-8")


def observer_of(devnet: Devnet) -> Process:
    """Return the process of an observer of all members, not started."""
    words = (str(devnet.folder), str(devnet.folder / REPORT))
    return Process("observer", "devnet.stage.measuring.observer", words, devnet.folder / "observer")


@contextmanager
def observed(devnet: Devnet) -> Iterator[Callable[[], dict[str, Any]]]:
    """Observe a devnet during the block. Yield a function that stops the observer and returns its report."""
    observer = observer_of(devnet)

    def seen() -> dict[str, Any]:
        processes.stop(observer)
        found: dict[str, Any] = json.loads((devnet.folder / REPORT).read_text(encoding="utf-8"))
        return found

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
        session = dev_accounts.key(member.name, dev_accounts.SESSION)
        file = SignStateFile.load(devnet.paths(member).sign_state(session), genesis, session)
        if file is None:
            problems.append(f"{member.name} has no sign-state")
            continue
        floor = (file.state.floor_epoch, file.state.floor_round)
        recorded = set(file.state.ballots)
        for voter, kind, epoch, round_, height, block in votes:
            ballot = Ballot(BallotKind(int(kind)), int(epoch), int(round_), int(height), bytes.fromhex(str(block)))
            # Finality prunes the sign-state: only votes above the floor must still be recorded.
            if voter == session.hex() and (ballot.epoch, ballot.round) > floor and ballot not in recorded:
                problems.append(f"{member.name}: {ballot.kind.name} in epoch {epoch}, round {round_}")
    return problems


def has_open_vote(devnet: Devnet, genesis: bytes, member: NodeLayout) -> bool:
    """Return whether a node's sign-state holds a vote to notarise in a round after the last final one."""
    session = dev_accounts.key(member.name, dev_accounts.SESSION)
    file = SignStateFile.load(devnet.paths(member).sign_state(session), genesis, session)
    if file is None:
        return False
    floor = (file.state.floor_epoch, file.state.floor_round)
    return any(vote.kind is BallotKind.NOTARISE and (vote.epoch, vote.round) > floor for vote in file.state.ballots)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
