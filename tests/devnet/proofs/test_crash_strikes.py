"""`make crash`: every kind of strike has its turn and takes effect, and each finding is a failure."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from devnet.launcher import lifecycle, processes
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.launcher.processes import Process
from devnet.proofs import crash, crash_strikes
from devnet.proofs.crash_strikes import DATABASE_KINDS, STRIKES_BY_KIND, StruckDevnet, deal_kinds
from devnet.stage.measuring.final_blocks import ObservedFinals
from devnet.stage.report import Narrator
from genesis import dev_accounts

NAMES = ("Alice", "Bob", "Charlie", "Dave")
SESSIONS = {name: dev_accounts.key(name, dev_accounts.SESSION).hex() for name in NAMES}


class Machine:
    """A machine of processes that are only names, with a list of the strikes."""

    def __init__(self) -> None:
        self.up = set(NAMES)
        self.done: list[str] = []
        self.vote_opens_after = 0

    def has_open_vote(self, *_: object) -> bool:
        self.vote_opens_after -= 1
        return self.vote_opens_after < 0

    def start(self, process: Process) -> None:
        self.up.add(process.label)
        flags = set(process.arguments)
        self.done.append(f"start {process.label}" + " as a full node" * (f"--{process.label.lower()}" not in flags))

    def kill(self, process: Process) -> None:
        self.up.remove(process.label)
        self.done.append(f"kill {process.label}")

    def running(self, process: Process) -> int | None:
        return 1 if process.label in self.up else None

    async def ready(self, *_: object, **__: object) -> None:
        self.done.append("wait")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()

    async def ask_all(_: Devnet) -> list[Any]:
        return []

    async def at_once(_: float) -> None:
        pass

    for name in ("start", "kill", "running"):
        monkeypatch.setattr(processes, name, getattr(made, name))
    monkeypatch.setattr(lifecycle, "ready", made.ready)
    monkeypatch.setattr(crash_strikes, "ask_all", ask_all)
    monkeypatch.setattr(crash_strikes, "has_open_vote", made.has_open_vote)
    monkeypatch.setattr(asyncio, "sleep", at_once)
    return made


@pytest.fixture
def struck(tmp_path: Path) -> StruckDevnet:
    """Four nodes with a database and a sign-state each, and an older copy of each database."""
    ports = Ports(1, 2, 3, 4)
    net = Devnet(tmp_path, tuple(NodeLayout(name, is_validator=True, ports=ports, address="") for name in NAMES))
    struck = StruckDevnet(net, Random(1), ObservedFinals(highest=dict.fromkeys(NAMES, 9)), bytes(32))
    for member in net.members:
        paths = net.paths(member)
        paths.database.mkdir(parents=True)
        (paths.database / "blocks").write_text("new")
        paths.sign_states.mkdir()
        paths.sign_state(b"k").write_text("what it signed")
        copy = tmp_path / f"{member.name}-copy"
        copy.mkdir()
        (copy / "blocks").write_text("old")
        struck.database_copies[member.name] = copy
    return struck


def strike(struck: StruckDevnet, kind: str) -> None:
    asyncio.run(STRIKES_BY_KIND[kind](struck, struck.devnet.member("Bob")))


@pytest.mark.parametrize("count", [6, 10, 30, 100])
def test_every_kind_has_its_turn(count: int) -> None:
    for seed in range(20):
        turns = Counter(deal_kinds(count, Random(seed)))
        assert turns.total() == count
        assert turns.keys() == STRIKES_BY_KIND.keys()
        assert max(turns.values()) - min(turns.values()) <= 1


def test_the_order_is_the_seeds() -> None:
    assert deal_kinds(50, Random(7)) == deal_kinds(50, Random(7))
    assert len({tuple(deal_kinds(50, Random(seed))) for seed in range(20)}) == 20


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        ("one", ["kill Bob", "start Bob"]),
        ("starting", ["kill Bob", "start Bob"] * 2),
        ("purge", ["kill Bob", "start Bob"]),
        ("put-back", ["kill Bob", "start Bob"]),
        ("detour", ["kill Bob", "start Bob as a full node", "wait", "kill Bob", "start Bob"]),
    ],
)
def test_what_is_done_to_a_node(
    kind: str, done: list[str], struck: StruckDevnet, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_strikes, "run_purge", lambda *_: machine.done)
    monkeypatch.setattr(crash_strikes, "KILLED_AGAIN_SHARE", 0.0)
    strike(struck, kind)
    assert machine.done == done
    for member in struck.devnet.members:
        assert struck.devnet.paths(member).sign_state(b"k").read_text() == "what it signed"


@pytest.mark.parametrize("kind", DATABASE_KINDS)
def test_who_syncs_anew_may_be_killed_again(
    kind: str, struck: StruckDevnet, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_strikes, "run_purge", lambda *_: None)
    monkeypatch.setattr(crash_strikes, "KILLED_AGAIN_SHARE", 1.0)
    strike(struck, kind)
    assert machine.done == ["kill Bob", "start Bob"] * 2


def test_all_are_killed_before_any_starts(struck: StruckDevnet, machine: Machine) -> None:
    strike(struck, "all")
    assert sorted(machine.done[:4]) == [f"kill {name}" for name in NAMES]
    assert sorted(machine.done[4:]) == [f"start {name}" for name in NAMES]


def test_an_older_copy_takes_the_databases_place(struck: StruckDevnet, machine: Machine) -> None:
    strike(struck, "put-back")
    blocks = {name: (struck.devnet.paths(struck.devnet.member(name)).database / "blocks").read_text() for name in NAMES}
    assert blocks == {"Alice": "new", "Bob": "old", "Charlie": "new", "Dave": "new"}
    assert struck.observed.may_fall == {"Bob"}
    assert machine.up == set(NAMES)


def test_nobody_is_behind_when_a_database_goes(
    struck: StruckDevnet, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_strikes, "run_purge", lambda *_: machine.done.append("purge"))
    asyncio.run(struck.strike("purge", struck.devnet.member("Bob")))
    assert machine.done[:3] == ["wait", "kill Bob", "purge"]


@pytest.mark.parametrize("aimed", [0.0, 1.0])
def test_an_aimed_strike_waits_for_an_open_vote(
    aimed: float, struck: StruckDevnet, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash_strikes, "AIMED_SHARE", aimed)
    machine.vote_opens_after = 5
    strike(struck, "one")
    assert struck.open_votes == int(aimed)


def test_a_node_that_ended_by_itself_is_not_started_again(struck: StruckDevnet, machine: Machine) -> None:
    machine.up.remove("Bob")
    for kind in STRIKES_BY_KIND:
        with pytest.raises(DevnetError, match="Bob ended by itself"):
            strike(struck, kind)
    assert machine.done == []


def test_a_purge_that_leaves_the_database_is_a_failure(struck: StruckDevnet, tmp_path: Path) -> None:
    """The folder has no chain specification, so the command refuses."""
    with pytest.raises(DevnetError, match=r"purge-chain failed \(2\)"):
        crash_strikes.run_purge(struck.devnet, struck.devnet.member("Bob"))
    assert (tmp_path / "bob").exists()


# The judgement.

SOUND: dict[str, Any] = {
    "not_started": [],
    "lost_finals": [],
    "different_blocks": [],
    "conflicting_signatures": [],
    "unrecorded_votes": [],
    "silent": [],
    "observer": {"ballots": 9},
    "transfers_included": 9,
}


def test_a_sound_run_has_no_failures() -> None:
    assert crash._failures(SOUND) == []


@pytest.mark.parametrize("bar", [name for name, value in SOUND.items() if value == []])
def test_each_bar_can_fail(bar: str) -> None:
    (failure,) = crash._failures(SOUND | {bar: ["what was found"]})
    assert "what was found" in failure


@pytest.mark.parametrize("nothing", [{"observer": {"ballots": 0}}, {"transfers_included": 0}])
def test_a_run_that_tested_nothing_fails(nothing: dict[str, Any]) -> None:
    assert "nothing was tested" in crash._failures(SOUND | nothing)[0]


def test_a_node_that_does_not_come_back_ends_the_strikes(
    struck: StruckDevnet, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(StruckDevnet, "copy_databases", nothing)
    monkeypatch.setattr(processes, "kill", lambda _: machine.up.clear())
    monkeypatch.setattr(processes, "start", lambda _: None)
    done = asyncio.run(crash._run_strikes(struck, ["one"] * 10, Narrator(1)))
    assert len(done["strikes"]) == 2
    assert "ended by itself" in done["not_started"][0]


def test_who_votes_no_more_is_named(struck: StruckDevnet, monkeypatch: pytest.MonkeyPatch) -> None:
    heights = {"Alice": 30, "Bob": 20, "Charlie": 21}
    votes = [[SESSIONS[name], 0, 0, 1, height, "00"] for name, height in heights.items()]
    monkeypatch.setattr(crash, "missing_records", lambda *_: [])
    assert crash._judge_signatures(struck.devnet, {"conflicts": [], "votes": votes}, height_before=20)["silent"] == [
        "Bob",
        "Dave",
    ]
