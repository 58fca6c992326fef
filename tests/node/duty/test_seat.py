"""The keys that a node holds, and the conditions for a new sign-state."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import election_chain
from block_maker import SPEC, Maker, open_at
from consensus.headers import TrustedBlock
from consensus.parameters import Parameters
from consensus.signstate import HeaderRecord
from error_codes import raises_code
from genesis import dev_accounts
from loop_stage import SetClock
from node.config import Config, Paths
from node.duty.heart import TIP_SLOTS, is_at_tip
from node.duty.key_proofs import KEYS_MAX
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.duty.seat import LAUNCH_MS, hold_keys, named
from node.duty.seat_watch import OUT_RANKED, SETTLE_MS, UNSEATED, SeatWatch
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.errors import BadInputError
from node.ledger.chain import Chain
from node.ledger.trusted_point import TrustedPoint
from node.p2p.hello import Role
from node.peers.peer_proof import PROOFS_MAX, PeerProofs
from runtime.blocks.votes import Ballot, BallotKind
from runtime.pallets.staking.stakers import Why
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, Keys, MarketChain, named_keys, signed, validates

STASH = dev_accounts.stash("Alice")
KEY = dev_accounts.key("Alice", dev_accounts.SESSION)
NEW = Keys("new")
STRANGER = KeyPair.from_seed(bytes([9]) * 32)


def config(base: Path, *, account: str | None = None, is_validator: bool = True) -> Config:
    return Config("dev", base, "test", is_validator=is_validator, dev_account=account, prometheus_port=None)


def begun(path: Path) -> Maker:
    """A chain at block 1."""
    maker = Maker(path)
    block = maker.make()
    maker.chain.finalise((block.facts.id,), maker.certify(block))
    return maker


def test_well_known_keys_take_their_seat_and_begin_a_sign_state(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    keys = hold_keys(config(tmp_path, account="Alice"), paths, chain)
    assert keys is not None
    seat = keys.seat(0)
    assert seat is not None
    assert (seat.stash, seat.session) == (STASH, KEY)
    assert paths.sign_state(KEY).exists()
    again = hold_keys(config(tmp_path, account="Alice"), paths, chain)
    assert again is not None
    assert again.sign_state(0) == keys.sign_state(0)


def test_others_only_follow(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    assert hold_keys(config(tmp_path, is_validator=False), paths, chain) is None
    keys = hold_keys(config(tmp_path, account="Bob"), paths, chain)
    assert keys is not None
    assert keys.seat(0) is None
    assert not paths.sign_states.exists(), "a chain may have begun of which this node knows nothing yet"


def test_keys_come_from_the_keystore(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    with pytest.raises(BadInputError, match="--key-type ogpu"):
        hold_keys(config(tmp_path), paths, chain)
    store = Keystore(paths.keystore)
    store.insert(SESSION, STRANGER.seed)
    assert hold_keys(config(tmp_path), paths, chain) is not None, "a key without a seat needs no VRF key yet"
    store.insert(SESSION, dev_accounts.key_seed("Alice", dev_accounts.SESSION))
    with pytest.raises(BadInputError, match="--key-type ogvr"):
        hold_keys(config(tmp_path), paths, chain)
    store.insert(VRF, dev_accounts.key_seed("Alice", dev_accounts.VRF))
    keys = hold_keys(config(tmp_path), paths, chain)
    assert keys is not None
    assert set(keys.sessions) == {KEY, STRANGER.public}
    seat = keys.seat(0)
    assert seat is not None
    assert seat.stash == STASH


def test_a_hello_proves_the_key_that_sits_however_many_others_there_are(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    store = Keystore(paths.keystore)
    before = (bytes([n]) * 32 for n in range(256) if KeyPair.from_seed(bytes([n]) * 32).public < KEY)
    for seed in islice(before, PROOFS_MAX):
        store.insert(SESSION, seed)
    for kind, role in ((SESSION, dev_accounts.SESSION), (VRF, dev_accounts.VRF)):
        store.insert(kind, dev_accounts.key_seed("Alice", role))
    keys = hold_keys(config(tmp_path), paths, chain)
    assert keys is not None
    proofs = PeerProofs(chain.genesis, chain.is_seated)
    assert proofs.accepts("me", Role.VALIDATOR, keys.prove_peer("me"))
    assert proofs.is_validator("me")


def test_a_keystore_with_too_many_keys_is_refused(tmp_path: Path) -> None:
    store = Keystore(Paths(tmp_path, "dev").keystore)
    for number in range(KEYS_MAX + 1):
        store.insert(SESSION, bytes([number]) * 32)
    with pytest.raises(BadInputError, match=f"more than {KEYS_MAX}"):
        hold_keys(config(tmp_path), Paths(tmp_path, "dev"), open_at(tmp_path))


def test_a_key_that_sits_on_a_chain_that_has_begun_needs_its_sign_state(tmp_path: Path) -> None:
    chain = begun(tmp_path / "maker").chain
    paths, settings = Paths(tmp_path / "elsewhere", "dev"), config(tmp_path, account="Alice")
    with pytest.raises(BadInputError, match="--init-sign-state"):
        hold_keys(settings, paths, chain)
    keys = hold_keys(replace(settings, init_sign_state=True), paths, chain)
    assert keys is not None
    assert keys.final_height == 1
    assert keys.seat(0) is None, "it listens first"
    assert not paths.sign_states.exists()


class Listening:
    """A node whose operator asked for the sign-state of an active key, in a set of one or of several."""

    def __init__(self, folder: Path, members: int) -> None:
        self.maker = begun(folder / "maker")
        self.chain = self.maker.chain
        self.paths = Paths(folder / "elsewhere", "dev")
        settings = replace(config(folder / "elsewhere", account="Alice"), init_sign_state=True)
        keys = hold_keys(settings, self.paths, self.chain)
        assert keys is not None
        self.keys, (self.key,) = keys, keys.sessions.values()
        self.clock = SetClock(self.chain.final.facts.slot * 1_000)
        self.watch = SeatWatch(keys, self.chain, self.paths, self.clock)
        if members > 1:
            self.watch._is_alone = lambda: False  # type: ignore[method-assign]
        self.watch.listen(has_peers=True)

    def pass_slots(self, count: int, *, has_peers: bool = True, has_finality: bool = True) -> None:
        for _ in range(count):
            self.clock.set_ms += self.chain.parameters.slot_ms
            if has_finality and not is_at_tip(self.chain, self.chain.final.facts, self.clock.set_ms + 1_000):
                self.finalise(self.clock.set_ms // 1_000)
            self.watch.listen(has_peers=has_peers)
            self.watch.on_final([self.chain.final])

    def finalise(self, slot: int) -> None:
        """Another block becomes final, in a round of its own."""
        self.maker.slot = slot - 1
        block = self.maker.make()
        self.chain.finalise((block.facts.id,), self.maker.certify(block, round_=block.facts.height))

    def has_begun(self) -> bool:
        return self.keys.seat(0) is not None and self.paths.sign_state(KEY).exists()


SETTLE_SLOTS = SETTLE_MS // 1_000


def test_a_sign_state_that_is_asked_for_begins_after_an_epoch_of_listening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Listening(tmp_path, members=4)
    epoch = node.chain.parameters.epoch_blocks
    node.pass_slots(3 * epoch, has_peers=False)
    assert not node.has_begun(), "without peers nothing is heard"
    assert SETTLE_SLOTS == TIP_SLOTS
    node.pass_slots(SETTLE_SLOTS - 1)
    assert node.key.heard_since is None
    node.pass_slots(1)
    since = node.key.heard_since
    node.pass_slots(epoch - 1)
    assert node.key.heard_since == since == (0, 9), "rounds go on, and what is news remains news"
    assert node.watch._final_round() > (0, 9)
    assert not node.has_begun()
    node.pass_slots(1)
    assert node.has_begun()
    assert "start once with" not in caplog.text
    file = SignStateFile.load(node.paths.sign_state(KEY), node.chain.genesis, KEY)
    assert file is not None
    height = node.chain.final.facts.height
    assert (file.state.floor_epoch, file.state.floor_round, file.final_height) == (0, height, height)


def test_a_machine_that_slept_has_not_listened(tmp_path: Path) -> None:
    node = Listening(tmp_path, members=4)
    node.clock.set_ms += 1_000_000_000
    node.finalise(node.clock.set_ms // 1_000)
    node.watch.listen(has_peers=True)
    assert node.key.heard_since is None
    node.pass_slots(SETTLE_SLOTS - 6)
    assert node.key.heard_since is None, "five seconds of the sleep count"
    node.pass_slots(1)
    assert node.key.heard_since is not None
    assert not node.has_begun()


def test_a_set_of_one_needs_no_peers_to_listen_to(tmp_path: Path) -> None:
    node = Listening(tmp_path, members=1)
    node.pass_slots(SETTLE_SLOTS + node.chain.parameters.epoch_blocks, has_peers=False, has_finality=False)
    assert node.has_begun()


@pytest.mark.parametrize("members", [1, 2])
def test_only_a_set_of_one_is_alone(tmp_path: Path, members: int) -> None:
    node = Listening(tmp_path, members=1)
    epoch = SimpleNamespace(validators=SimpleNamespace(members=range(members)))
    played: Any = SimpleNamespace(epochs=lambda _: epoch, parameters=node.chain.parameters, final=node.chain.final)
    node.watch._chain = played
    assert node.watch._is_alone() == (members == 1)


def test_behind_the_tip_no_listening_counts(tmp_path: Path) -> None:
    """Its signature of an old round could contradict the key's earlier one."""
    node = Listening(tmp_path, members=4)
    epoch = node.chain.parameters.epoch_blocks
    node.clock.set_ms += 1_000_000
    node.pass_slots(3 * epoch, has_finality=False)
    assert not node.has_begun()
    node.pass_slots(SETTLE_SLOTS + epoch - 1)
    assert not node.has_begun()
    node.finalise(node.maker.slot + 1)
    node.clock.set_ms += 1_000_000
    node.watch.listen(has_peers=True)
    assert node.key.heard_since is None
    node.pass_slots(epoch)
    assert not node.has_begun(), "it caught up once more, and begins to listen anew"


def test_on_a_chain_that_stands_still_the_operators_checkpoint_is_the_tip(tmp_path: Path) -> None:
    node = Listening(tmp_path, members=4)
    node.clock.set_ms += 1_000_000
    below = node.chain.final.facts
    node.finalise(below.slot + 1)
    for facts, has_begun in ((below, False), (node.chain.final.facts, True)):
        TrustedPoint(node.chain, SPEC, TrustedBlock(facts.height, facts.id))
        node.pass_slots(SETTLE_SLOTS + node.chain.parameters.epoch_blocks, has_finality=False)
        assert node.has_begun() == has_begun


@pytest.mark.parametrize("what", ["vote", "header"])
def test_a_key_that_another_machine_uses_meanwhile_never_gets_its_sign_state(what: str, tmp_path: Path) -> None:
    node = Listening(tmp_path, members=4)
    if what == "vote":
        node.pass_slots(SETTLE_SLOTS)
        node.key.notice(Ballot(BallotKind.SKIP, 0, 7, 0, bytes(32)))
    else:
        node.key.notice_header(HeaderRecord(1_000, b"h" * 32), since_slot=1_000)
    assert node.key.is_copied
    node.pass_slots(3 * node.chain.parameters.epoch_blocks)
    assert not node.has_begun()


def test_an_empty_database_may_be_of_a_chain_that_has_begun_so_the_option_listens_there_too(tmp_path: Path) -> None:
    settings, chain = replace(config(tmp_path, account="Alice"), init_sign_state=True), open_at(tmp_path)
    keys = hold_keys(settings, Paths(tmp_path, "dev"), chain)
    assert keys is not None
    assert keys.seat(0) is None
    clock = SetClock(1_000_000)
    watch, parameters = SeatWatch(keys, chain, Paths(tmp_path, "dev"), clock), chain.parameters
    for _ in range(1 + SETTLE_SLOTS + parameters.epoch_blocks):
        watch.listen(has_peers=False)
        clock.set_ms += parameters.slot_ms
    file = keys.sessions[KEY].file
    assert file is not None
    assert (file.state.floor_epoch, file.state.floor_round, file.final_height) == (0, 0, 0), "no round was final"


def test_with_an_empty_database_the_chains_age_says_whether_a_key_may_have_signed(tmp_path: Path) -> None:
    """A validator of the genesis on a new machine, without its sign-states, which knows only block 0."""
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    settings = config(tmp_path, account="Alice")
    with raises_code(BadInputError, "sign_state_missing"):
        hold_keys(settings, paths, chain, LAUNCH_MS + 1)
    assert not paths.sign_states.exists()
    keys = hold_keys(settings, paths, chain, LAUNCH_MS)
    assert keys is not None
    assert keys.seat(0) is not None, "it is being launched"
    assert hold_keys(settings, paths, chain, 10 * LAUNCH_MS) is not None, "its record is there"


def test_the_file_of_a_node_that_knew_one_key_becomes_that_of_its_key(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    SignStateFile.create(paths.only_sign_state, chain.genesis, KEY).note_final(0, 4, 7)
    keys = hold_keys(config(tmp_path, account="Alice"), paths, chain)
    assert keys is not None
    assert keys.noted_height == 7
    assert not paths.only_sign_state.exists()
    SignStateFile.create(paths.only_sign_state, chain.genesis, KEY)
    with pytest.raises(BadInputError, match="Keep the newer"):
        hold_keys(config(tmp_path, account="Alice"), paths, chain)


@pytest.mark.parametrize("what", ["damaged", "of another chain"])
def test_such_a_file_that_cannot_be_read_stops_the_start(what: str, tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    SignStateFile.create(paths.only_sign_state, b"x" * 32, KEY)
    if what == "damaged":
        content = paths.only_sign_state.read_bytes()
        paths.only_sign_state.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BadInputError, match=what):
        hold_keys(config(tmp_path, account="Alice"), paths, chain)
    assert paths.only_sign_state.exists()


# ------------------------------------------------------------------------------------------------- the eye on the seats


def watched(chain: Chain, paths: Paths, account: str, *, seconds_late: float = 0) -> tuple[SeatWatch, ValidatorKeys]:
    keys = hold_keys(config(paths.base, account=account), paths, chain)
    assert keys is not None
    now_ms = chain.final.facts.slot * chain.parameters.slot_ms + int(1_000 * seconds_late)
    return SeatWatch(keys, chain, paths, SetClock(now_ms)), keys


def test_at_the_tip_a_key_that_no_set_names_gets_its_sign_state(tmp_path: Path) -> None:
    chain, paths = begun(tmp_path / "maker").chain, Paths(tmp_path / "new", "dev")
    watch, keys = watched(chain, paths, "Bob")
    (key,) = keys.sessions.values()
    assert key.file is None
    watch.on_final([chain.final])
    assert key.file is not None
    file = SignStateFile.load(paths.sign_state(key.pair.public), chain.genesis, key.pair.public)
    assert file is not None
    assert (file.state.floor_epoch, file.state.floor_round, file.final_height) == (0, 1, 1)


def test_at_the_tip_a_key_that_another_machine_uses_gets_no_sign_state(tmp_path: Path) -> None:
    chain, paths = begun(tmp_path / "maker").chain, Paths(tmp_path / "new", "dev")
    watch, keys = watched(chain, paths, "Bob")
    (key,) = keys.sessions.values()
    key.is_copied = True
    watch.on_final([chain.final])
    assert key.file is None
    assert not paths.sign_state(key.pair.public).exists()


def test_who_is_in_jail_reads_it_in_the_log_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chain, paths = begun(tmp_path / "maker").chain, Paths(tmp_path / "new", "dev")
    watch, keys = watched(chain, paths, "Bob")
    watch.on_final([chain.final])
    assert "in jail" not in caplog.text
    bound = chain.runtime.at(chain.final.state)
    bound[TrustStake].key_owner[next(iter(keys.sessions))] = STASH
    bound[TrustStake].jailed[STASH] = 1
    played: Any = SimpleNamespace(runtime=SimpleNamespace(at=lambda _: bound))
    watch._chain = played
    for _ in range(2):
        watch._report_jail(chain.final)
    assert caplog.text.count("ogpu-wallet unjail") == 1


def test_behind_the_tip_none_is_begun(tmp_path: Path) -> None:
    chain, paths = begun(tmp_path / "maker").chain, Paths(tmp_path / "new", "dev")
    watch, keys = watched(chain, paths, "Bob", seconds_late=60)
    watch.on_final([chain.final])
    assert [key.file for key in keys.sessions.values()] == [None]


def test_a_key_that_turns_out_to_sit_signs_nothing_without_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its owner registered it elsewhere while this node was syncing."""
    chain, paths = begun(tmp_path / "maker").chain, Paths(tmp_path / "new", "dev")
    watch, keys = watched(chain, paths, "Bob")
    keys.sessions = {KEY: next(iter(keys.sessions.values()))}
    for _ in range(3):
        watch.on_final([chain.final])
    watch._listened_ms = 1_000_000
    for _ in range(2):
        watch.listen(has_peers=True)
    assert [key.file for key in keys.sessions.values()] == [None]
    assert keys.seat(0) is None
    assert caplog.text.count("start once with --init-sign-state") == 1


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_key_that_is_elected_is_in_use_before_it_sits(epoch: int) -> None:
    """Its other machine may already sign headers of the next epoch."""
    market = MarketChain(named_keys(4), [NEW], epoch_blocks=6)
    market.block(
        signed(NEW.stash, TrustStake.bond(value=BOND)), signed(NEW.stash, validates(NEW)),
        lambda bound: bound[TrustStake].note_heard(NEW.stash, 0),
    )  # fmt: skip
    while market.height <= 6 * epoch:
        market.block()
    facts = SimpleNamespace(height=market.height)
    chain: Any = SimpleNamespace(
        runtime=market.runtime, final=SimpleNamespace(state=market.state, facts=facts),
        parameters=Parameters(epoch_blocks=6),
    )  # fmt: skip
    keys = [NEW.public("session"), market.validators[0].public("session"), b"x" * 32]
    assert named(chain, keys) == set(keys[1:2] if epoch == 0 else keys[:2])


STEPS = {
    Why.OFF_LINE: lambda _: None,
    Why.JAILED: lambda bound: bound[TrustStake].jailed.__setitem__(NEW.stash, 0),
    Why.TOMBSTONED: lambda bound: bound[TrustStake].tombstones.__setitem__(NEW.stash, 0),
    Why.NOT_OFFERED: signed(NEW.stash, TrustStake.chill()),
    None: election_chain.heard(NEW),
}


@pytest.mark.parametrize("why", STEPS)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_node_that_loses_its_seat_logs_why(
    caplog: pytest.LogCaptureFixture, why: Why | None, *, is_late: bool
) -> None:
    """A node started before it reached the election knows only the newest state."""
    caplog.set_level("INFO")
    market = election_chain.chain_of()
    market.check = lambda *_: None
    market.block(*election_chain.offers(NEW), election_chain.heard(NEW))
    election_chain.until_epoch(market, 1)
    market.block(STEPS[why])
    session = NEW.public("session")

    def final() -> Any:
        return SimpleNamespace(state=market.state, facts=SimpleNamespace(height=market.height, slot=market.height))

    def seat(epoch: int) -> Any:
        is_seated = epoch < 3 and NEW.stash in election_chain.stashes(market.now()[TrustStake].validators(2))
        return SimpleNamespace(stash=NEW.stash, session=session) if is_seated else None

    parameters = Parameters(epoch_blocks=election_chain.EPOCH_BLOCKS)
    chain: Any = SimpleNamespace(runtime=market.runtime, final=final(), parameters=parameters)
    keys: Any = SimpleNamespace(sessions={session: SimpleNamespace(file=object())}, seat=seat)
    watch = SeatWatch(keys, chain, Paths(Path("nowhere"), "dev"), SetClock(0))
    while parameters.epoch_of(market.height + 1) < 3:
        is_elected = market.height == parameters.boundary(1) + 1
        market.block(*[STEPS[Why.TOMBSTONED]] * (is_elected and not is_late))  # it changes nothing of the election
        chain.final = final()
        if not is_late or parameters.is_boundary(market.height):
            watch.on_final([chain.final])
    while parameters.epoch_of(market.height + 1) < 4:  # a node without a seat follows
        market.block()
        chain.final = final()
        watch.on_final([chain.final])
    lost = [record.args for record in caplog.records if "has no seat" in record.msg]
    reason = UNSEATED[why].format(ended=1) if why is not None else "" if is_late else OUT_RANKED
    assert lost == [(3, reason and f": {reason}")]
