"""The poll of the demo: the chosen poll, the drawn validators, and the answers."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from devnet.demo import __main__ as demo
from devnet.demo import container, real_model, steps
from devnet.launcher import layout, lifecycle
from devnet.launcher.folder import DevnetError
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from genesis import dev_accounts
from genesis.presets import load_spec

ALICE, BOB, CHARLIE = ("0x" + dev_accounts.stash(name).hex() for name in ("Alice", "Bob", "Charlie"))
SAID = {"validator": BOB, "prefers": "0x" + "b" * 64, "at_height": "0x" + "c" * 64, "after_ms": 7}
POLL: dict[str, Any] = {
    "height": 9,
    "block": "0x" + "d" * 64,
    "votes": 3,
    "validators": 5,
    "stake": 1_000,
    "drawn": [
        {"validator": ALICE, "stake": 126, "votes": 1},
        {"validator": BOB, "stake": 600, "votes": 2},
        {"validator": CHARLIE, "stake": 274, "votes": 0},
    ],
    "answers": [{"validator": CHARLIE}, SAID],
    "asked": 2,
    "answered": 2,
    "agreed": 1,
    "confidence": [{"polls": 4, "alpha": 2, "beta": 11}],
    "accepted_after_ms": 80,
}


def told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *polls: dict[str, Any]
) -> tuple[dict[str, Any] | None, list[list[str]], str]:
    """Return the shown poll, the cells of its table, and all printed text."""

    async def inspected(_url: str) -> list[dict[str, Any]]:
        return list(polls)

    monkeypatch.setattr(steps, "_inspected_polls", inspected)
    tell = Narrator(1)
    tell.console = Console(width=200)
    with tell.console.capture() as captured:
        shown = steps.show_poll(Stage(layout.create(folder, 2, any_ports=True), tell))
    text = captured.get()
    lines = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    return shown, [[cell.strip() for cell in line] for line in lines], text


def test_each_drawn_validator_has_its_stake_its_votes_and_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, table, text = told(tmp_path, monkeypatch, POLL)
    assert shown == POLL
    assert table == [
        ["Alice", "13 %", "1", "-", "-", "its own vote"],
        ["Bob", "60 %", "2", "0x" + "b" * 10, "0x" + "c" * 10, "7 ms"],
        ["Charlie", "27 %", "0", "-", "-", "no answer"],
    ]
    for part in ("3 units", "height 9", "2 of 5 validators", "4 polls", "2 of 3 votes", "11 accept", "1 of 2", "80 ms"):
        assert part in text


@pytest.mark.parametrize(
    ("polls", "height"),
    [
        ([], None),
        ([POLL | {"answered": 0, "asked": 0}], None),
        ([POLL | {"answered": 1}], None),
        ([POLL | {"answered": 1}, POLL | {"height": 8}], 8),
        ([POLL | {"height": 7, "confidence": []}, POLL | {"height": 8}, POLL], 8),
        ([POLL | {"height": 7, "confidence": [], "accepted_after_ms": None}], 7),
    ],
)
def test_a_poll_that_all_answered_is_shown_and_rather_one_that_led_to_an_acceptance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polls: list[dict[str, Any]], height: int | None
) -> None:
    shown, _, text = told(tmp_path, monkeypatch, *polls)
    assert (None if shown is None else shown["height"]) == height
    assert ("80 ms" in text) is (height == 8)


def test_the_demos_nodes_poll_fewer_units_than_validators_sit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise DevnetError("nothing is started")

    monkeypatch.setattr(container, "engine_for", lambda **_: nullcontext())
    monkeypatch.setattr(container, "offer_containers", lambda *_: None)
    monkeypatch.setattr(real_model, "install_model", lambda *_: "")
    monkeypatch.setattr(lifecycle, "up", stop)
    with pytest.raises(DevnetError):
        demo.main(["--folder", str(tmp_path / "net"), "--any-ports"])
    net = layout.load(tmp_path / "net")
    spec = load_spec(net.chain_spec.read_bytes())
    assert spec.patch is not None
    seats = spec.patch["chainParameters"]["TrustStake.validator_count"]
    assert net.sample is not None
    assert net.sample < seats < len(net.members)
    assert spec.parameters == layout.FAST
