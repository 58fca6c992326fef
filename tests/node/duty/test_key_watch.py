"""Keys inserted into a running node: loaded with their records, shown to peers, and registered by their proofs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from block_maker import Maker, open_at
from genesis import dev_accounts
from node.config import Config, Paths
from node.duty.key_proofs import KEYS_MAX, new_keys
from node.duty.key_watch import KeyWatch
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.duty.seat import hold_keys
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.errors import BadInputError
from node.ledger.chain import Chain
from node.p2p.frames import FrameKind
from node.p2p.hello import Role
from node.peers.peer_proof import PROOFS_MAX, PeerProofs
from node.peers.peers import Peers
from played_transport import PlayedTransport
from runtime.pallets.session_keys import verify_keys

KEY = dev_accounts.key("Alice", dev_accounts.SESSION)
OWNER = dev_accounts.stash("Bob")


class Stage:
    """Alice's node with her keys and a keystore, and two peers."""

    def __init__(self, folder: Path, *, maker: Maker | None = None) -> None:
        self.paths = Paths(folder, "dev")
        self.chain: Chain = open_at(folder) if maker is None else maker.chain
        config = Config("dev", folder, "test", is_validator=True, dev_account="Alice", prometheus_port=None)
        held = hold_keys(config, self.paths, self.chain)
        assert held is not None
        self.keys: ValidatorKeys = held
        self.store = Keystore(self.paths.keystore)
        self.transport = PlayedTransport("a", "b")
        self.watch = KeyWatch(self.keys, self.chain, self.paths, Peers(self.transport), "me")

    def final(self) -> None:
        self.watch.on_final([self.chain.final])

    def proven(self, sent: tuple[str, FrameKind, bytes]) -> tuple[bytes, ...]:
        """The keys that a message to a peer proves."""
        peer, kind, payload = sent
        assert (kind, peer in ("a", "b")) == (FrameKind.KEYS, True)
        known = PeerProofs(self.chain.genesis, lambda _: True)
        assert known.accepts("me", Role.VALIDATOR, payload)
        return known.sessions["me"]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_keys_that_a_command_put_there_are_taken_up_with_their_record_and_shown(stage: Stage) -> None:
    stage.final()
    assert stage.transport.sent == []
    made = new_keys(stage.paths, stage.chain.genesis)
    stage.final()
    assert tuple(stage.keys.sessions) == (KEY, made.session), "the one that sits comes first"
    assert stage.keys.sessions[made.session].file is not None
    assert [stage.proven(sent) for sent in stage.transport.sent] == [(KEY, made.session)] * 2
    stage.final()
    assert len(stage.transport.sent) == 2, "told once"


def test_an_inserted_key_waits_for_its_record(stage: Stage) -> None:
    pair = KeyPair.from_seed(b"i" * 32)
    stage.store.insert(SESSION, pair.seed)
    stage.final()
    assert stage.keys.sessions[pair.public].file is None


def test_a_key_that_is_made_over_rpc_is_in_use_at_once_and_its_owner_may_register_it(stage: Stage) -> None:
    keys, proof = stage.watch.rotate(OWNER)
    assert keys.session in stage.keys.sessions
    assert verify_keys(stage.chain.genesis, OWNER, keys, proof)
    assert not verify_keys(stage.chain.genesis, dev_accounts.stash("Alice"), keys, proof)
    assert stage.store.public_keys(VRF) == [keys.vrf]
    again = hold_keys(
        Config("dev", stage.paths.base, "test", is_validator=True, dev_account="Alice", prometheus_port=None),
        stage.paths, stage.chain,
    )  # fmt: skip
    assert again is not None
    assert set(again.sessions) == {KEY, keys.session}, "and after a restart"


def test_who_connects_later_is_shown_what_the_hello_does_not_say(stage: Stage) -> None:
    stage.watch.tell("a")
    assert stage.transport.sent == []
    keys, _ = stage.watch.rotate(OWNER)
    stage.transport.sent.clear()
    stage.watch.tell("b")
    assert [stage.proven(sent) for sent in stage.transport.sent] == [(KEY, keys.session)]


def test_of_many_keys_peers_are_shown_a_few_and_the_one_that_sits(stage: Stage) -> None:
    for _ in range(PROOFS_MAX + 2):
        new_keys(stage.paths, stage.chain.genesis)
    stage.final()
    shown = stage.proven(stage.transport.sent[-1])
    assert (len(shown), shown[0]) == (PROOFS_MAX, KEY)
    assert len(stage.keys.sessions) == PROOFS_MAX + 3


def test_a_damaged_keystore_changes_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    good = new_keys(stage.paths, stage.chain.genesis)
    stage.final()
    (stage.store.folder / (SESSION.hex() + "ab" * 32)).write_text("no key")
    stage.final()
    assert set(stage.keys.sessions) == {KEY, good.session}
    assert "are not used" in caplog.text
    assert stage.keys.seat(0) is not None


def test_a_full_keystore_takes_no_more(stage: Stage) -> None:
    for number in range(KEYS_MAX):
        stage.store.insert(SESSION, bytes([number]) * 32)
    with pytest.raises(BadInputError, match=str(KEYS_MAX)):
        stage.watch.rotate(OWNER)
    assert stage.store.public_keys(VRF) == []


def test_a_key_that_sits_elsewhere_is_not_signed_with(tmp_path: Path) -> None:
    """Bob's key, in no seat of this chain, is inserted. Alice's own would be refused at the start."""
    maker = Maker(tmp_path / "maker")
    block = maker.make()
    maker.chain.finalise((block.facts.id,), maker.certify(block))
    paths = Paths(tmp_path / "other", "dev")
    config = Config("dev", paths.base, "test", is_validator=True, dev_account="Bob", prometheus_port=None)
    keys = hold_keys(config, paths, maker.chain)
    assert keys is not None
    watch = KeyWatch(keys, maker.chain, paths, Peers(PlayedTransport()), "me")
    store = Keystore(paths.keystore)
    store.insert(VRF, dev_accounts.key_seed("Alice", dev_accounts.VRF))
    store.insert(SESSION, dev_accounts.key_seed("Alice", dev_accounts.SESSION))
    watch.on_final([maker.chain.final])
    assert KEY in keys.sessions
    assert keys.seat(0) is None, "what it has signed is not known here"


@pytest.mark.parametrize("done", [0, 1, 2])
def test_after_a_kill_between_any_two_writes_the_node_starts_and_makes_keys(
    done: int, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the session key, the VRF key, the session key: `done` of them are written."""
    create, insert, left = SignStateFile.create, Keystore.insert, [done]

    def cut(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*arguments: Any) -> Any:
            if not left[0]:
                raise OSError(5, "killed")
            left[0] -= 1
            return write(*arguments)

        return written

    with monkeypatch.context() as patched:
        patched.setattr(SignStateFile, "create", cut(create))
        patched.setattr(Keystore, "insert", cut(insert))
        with pytest.raises(OSError, match="killed"):
            stage.watch.rotate(OWNER)
    stage.chain.storage.close()
    again = Stage(stage.paths.base)
    assert again.keys.seat(0) is not None
    assert tuple(again.keys.sessions) == (KEY,)
    keys, _ = again.watch.rotate(OWNER)
    assert again.keys.sessions[keys.session].file is not None
