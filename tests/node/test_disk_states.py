"""Every state of the disk after a crash, a purge, a detour or a clock jump: the validator starts, and continues."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from block_maker import FIRST_SLOT, SPEC
from consensus import events as ev
from consensus.machine import Recall
from consensus.signstate import SignState, after
from consensus.wire import Certified, NeedCerts, PullQuery
from node.clock import Clock
from node.config import Config
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.ledger.chain import Chain
from node.ledger.ledger import RoundLog
from node.ledger.storage import Storage
from node.service import Node
from runtime.blocks.votes import Ballot, BallotKind

LOST = b"\x77" * 32  # a block that no node has
STEPS: list[tuple[type, str]] = [
    (SignStateFile, "_write_state"),
    (Chain, "keep"),
    (Storage, "put_pending"),
    (RoundLog, "add"),
    (RoundLog, "forget_to"),
    (Storage, "commit_final"),
    (Chain, "finalise"),
    (ValidatorKeys, "note_final"),
]


class KilledError(BaseException):
    """kill -9."""


class Machinery:
    """The one validator of a development chain, on a clock that the test sets, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_ms = folder, FIRST_SLOT * 1_000
        self.node: Node | None = None

    def boot(self, *, is_validator: bool = True) -> Node:
        """Start from the disk."""
        self.node = Node(
            Config(
                "dev", self.folder, "test", is_validator=is_validator, dev_account="Alice" if is_validator else None,
                rpc=None, prometheus_port=None,
            ),
            SPEC,
        )  # fmt: skip
        self.node._restore_machine()
        return self.node

    def kill(self) -> None:
        """Nothing is written any more."""
        assert self.node is not None
        self.node.chain.storage.close()
        self.node = None

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass."""
        assert self.node is not None
        for _ in range(int(seconds * 50)):
            self.now_ms += 20
            if self.now_ms >= self.node.machine.deadline_ms:
                self.node.loop.feed(ev.Tick())

    @property
    def height(self) -> int:
        """Return the height of the last final block."""
        assert self.node is not None
        return self.node.chain.final.facts.height

    @property
    def sign_state(self) -> Path:
        """Return the sign-state of its only key."""
        (found,) = self.folder.rglob("sign-states/*")
        return found

    def edit(self, change: Callable[[SignStateFile], SignState]) -> None:
        """Set the sign-state to one that a crash may leave."""
        assert self.node is not None
        file = SignStateFile.load(self.sign_state, self.node.chain.genesis, self.node.machine._session_of(0) or b"")
        assert file is not None
        file._write_state(change(file), file.final_height)


@pytest.fixture
def machinery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machinery]:
    machinery = Machinery(tmp_path)
    monkeypatch.setattr(Clock, "now_ms", lambda _: machinery.now_ms)
    yield machinery
    if machinery.node is not None:
        machinery.kill()


def goes_on(machinery: Machinery, blocks: int = 2) -> bool:
    """Return True if more blocks become final within a few seconds."""
    before = machinery.height
    machinery.pass_seconds(6)
    return machinery.height >= before + blocks


def open_vote(file: SignStateFile, block: bytes, height: int, ahead: int = 1) -> SignState:
    """A notarise ballot for a block in a round after the last final one."""
    state = file.state
    return after(state, Ballot(BallotKind.NOTARISE, state.floor_epoch, state.floor_round + ahead, height, block))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_killed_between_any_two_steps_it_starts_and_goes_on(
    owner: type, step: str, when: str, machinery: Machinery
) -> None:
    machinery.boot()
    machinery.pass_seconds(3)
    sound = getattr(owner, step)

    def deadly(*arguments: object, **options: object) -> object:
        if when == "after":
            sound(*arguments, **options)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, deadly)
        with pytest.raises(KilledError):
            machinery.pass_seconds(5)
    machinery.kill()
    machinery.boot()
    assert goes_on(machinery)


@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_an_open_vote_for_a_block_that_nobody_has_is_not_sent_again(ahead: int, machinery: Machinery) -> None:
    machinery.boot()
    machinery.pass_seconds(3)
    machinery.edit(lambda file: open_vote(file, LOST, machinery.height + 1, ahead))
    machinery.kill()
    machinery.boot()
    assert goes_on(machinery, blocks=1)


def test_the_floor_is_raised_to_what_the_database_proves(machinery: Machinery) -> None:
    """It was killed between the commit of a final block and its note, with votes below the floor open in the file."""
    machinery.boot()
    machinery.pass_seconds(3)
    old = machinery.sign_state.read_bytes()
    machinery.pass_seconds(3)
    machinery.kill()
    machinery.sign_state.write_bytes(old)
    node = machinery.boot()
    assert node.chain.final_certificate is not None
    file = SignStateFile.load(machinery.sign_state, node.chain.genesis, node.machine._session_of(0) or b"")
    assert file is not None
    assert file.state.floor_round >= node.chain.final_certificate.ballot.round
    assert goes_on(machinery)


def test_a_purged_validator_with_an_open_vote_starts_and_signs_nothing(machinery: Machinery) -> None:
    machinery.boot()
    machinery.pass_seconds(3)
    machinery.edit(lambda file: open_vote(file, LOST, machinery.height + 1))
    node = machinery.node
    assert node is not None
    machinery.kill()
    shutil.rmtree(node.paths.database)
    signed = machinery.sign_state.read_bytes()
    machinery.boot()
    machinery.pass_seconds(3)
    assert machinery.height == 0
    assert machinery.sign_state.read_bytes() == signed


@pytest.mark.parametrize("copied_after_s", [3, 62])  # in the epoch before, and in the same one
def test_an_older_database_put_back_starts_and_signs_nothing(copied_after_s: int, machinery: Machinery) -> None:
    """Beside it are a sign-state, a preference and certificates of rounds that it does not know."""
    node = machinery.boot()
    machinery.pass_seconds(copied_after_s)
    machinery.kill()
    copy = machinery.folder / "copy"
    shutil.copytree(node.paths.database, copy)
    machinery.boot()
    machinery.pass_seconds(66 - copied_after_s)
    machinery.edit(lambda file: open_vote(file, LOST, machinery.height + 1))
    was = machinery.height
    machinery.kill()
    assert was > node.chain.parameters.boundary(0)
    shutil.rmtree(node.paths.database)
    copy.rename(node.paths.database)
    signed = machinery.sign_state.read_bytes()
    # Otherwise consensus took a refused vote as cast, and never asked for it again after the catch-up.
    assert machinery.boot().machine._gadget.silent_below == was
    machinery.pass_seconds(3)
    assert machinery.height <= copied_after_s < was
    assert machinery.sign_state.read_bytes() == signed


def test_a_detour_as_a_full_node_leaves_no_open_vote_behind(machinery: Machinery) -> None:
    """Without its key the node learns more final blocks, and then votes again."""
    machinery.boot()
    machinery.pass_seconds(4)
    sign_state = machinery.sign_state
    machinery.edit(lambda file: open_vote(file, LOST, machinery.height + 1))
    before = sign_state.read_bytes()
    machinery.kill()
    aside = machinery.folder / "aside"
    sign_state.rename(aside)
    machinery.boot(is_validator=False)
    machinery.pass_seconds(1)
    machinery.kill()
    aside.rename(sign_state)
    assert sign_state.read_bytes() == before
    machinery.boot()
    assert goes_on(machinery, blocks=1)


def test_a_clock_set_back_keeps_the_block_that_was_voted_for(machinery: Machinery) -> None:
    machinery.boot()
    machinery.pass_seconds(3)
    sound, kept = Chain.keep, []

    def killed(chain: Chain, block: bytes) -> bool:
        sound(chain, block)
        kept.append(block)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chain, "keep", killed)
        with pytest.raises(KilledError):
            machinery.pass_seconds(5)
    machinery.kill()
    machinery.now_ms -= 3_600_000
    assert machinery.boot().chain.get(kept[0]) is not None
    machinery.pass_seconds(1)
    machinery.now_ms += 3_600_000
    assert goes_on(machinery)


# A restart must return this to consensus.


def test_boundary_certificates_are_there_after_a_restart(machinery: Machinery) -> None:
    machinery.boot()
    machinery.pass_seconds(64)
    machinery.kill()
    node = machinery.boot()
    assert machinery.height > node.chain.parameters.boundary(0)
    kept = node.machine._catchup.boundary_of(0)
    assert kept is not None
    assert kept.ballot.height == node.chain.parameters.boundary(0)


def test_old_boundaries_are_served_from_the_database(machinery: Machinery, monkeypatch: pytest.MonkeyPatch) -> None:
    node = machinery.boot()
    machinery.pass_seconds(64)
    boundary = node.machine._catchup.boundary_of(0)
    assert boundary is not None
    node.machine._catchup._boundaries.clear()
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(type(node.loop._peers), "send", lambda _, *what: sent.append(what))
    node.loop.feed(ev.PeerConnected(b"late", ()), ev.MessageReceived(b"late", NeedCerts(0, 1, 0, 0, b"\0")))
    assert (b"late", Certified((boundary,))) in sent


def test_certificates_of_open_rounds_are_there_after_a_restart(machinery: Machinery) -> None:
    machinery.boot()
    machinery.pass_seconds(3)

    def deadly(_: object, record: object) -> bytes:
        if isinstance(record, Ballot) and record.kind is BallotKind.FINALISE:
            raise KilledError
        return sound(_, record)  # type: ignore[arg-type]  # the pair of arguments that came

    sound = ValidatorKeys.sign_vote
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ValidatorKeys, "sign_vote", deadly)
        with pytest.raises(KilledError):
            machinery.pass_seconds(5)
    assert machinery.node is not None
    before = machinery.node.machine.gadget_round
    machinery.kill()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recall, "take", lambda *_: [])  # its own vote would make the certificate again
        patch.setattr(ValidatorKeys, "sign_vote", deadly)
        with pytest.raises(KilledError):
            machinery.boot()
        assert machinery.node is not None
        assert machinery.node.machine.gadget_round == before


def test_the_sign_state_is_given_to_consensus(machinery: Machinery) -> None:
    machinery.boot()
    machinery.pass_seconds(3)
    machinery.edit(lambda file: open_vote(file, LOST, machinery.height + 1))
    machinery.kill()
    node = machinery.boot()
    file = SignStateFile.load(machinery.sign_state, node.chain.genesis, node.machine._session_of(0) or b"")
    assert file is not None
    assert LOST in {record.block for record in file.state.ballots}
    assert node.machine._gadget.sign_state.ballots == file.state.ballots


def test_the_preferred_tip_is_on_the_disk_before_it_is_told(machinery: Machinery) -> None:
    node = machinery.boot()
    machinery.pass_seconds(3)
    query = PullQuery(0, bytes(32), 1)
    node.loop.feed(ev.PeerConnected(b"peer", ()), ev.MessageReceived(b"peer", query))
    assert node.paths.preference.read_bytes() == node.machine.tip.id


def test_a_block_that_is_not_here_cannot_be_kept_and_a_final_one_is(machinery: Machinery) -> None:
    node = machinery.boot()
    machinery.pass_seconds(3)
    assert not node.chain.keep(LOST)
    for height in (machinery.height, machinery.height - 1):
        final = node.chain.storage.id_at(height)
        assert final is not None
        assert node.chain.keep(final)
    assert machinery.height not in {block.height for block in node.chain.storage.pending()}
