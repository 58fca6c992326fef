"""The commands of the demo and of the proofs are answered by nobody, and its network polls a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import __main__ as demo
from devnet.demo import batch, container, purchase, stage, task_sale
from devnet.demo.telling import Narrator
from devnet.launcher import layout, programs
from devnet.launcher.layout import Devnet
from devnet.measuring.ledger import DevnetLedger
from devnet.proofs.liars import people
from devnet.proofs.liars.lie import Program
from devnet.proofs.market import trades


class StoppedError(Exception):
    """Enough was seen."""


def sold(net: Devnet) -> None:
    """A task is submitted twice: each run of the demo buys its own."""
    task_sale.sell(net, net.folder / "task.yaml", "//Ferdie", Narrator(1))


COMMANDS: dict[str, tuple[Callable[[Devnet], Any], set[str]]] = {
    "prompts": (lambda net: purchase.buy(net, ["a"], Narrator(1)), {"--yes", "--watch"}),
    "batch": (lambda net: batch.buy_batch(net, ["a", "b"], Narrator(1)), {"--yes", "--watch"}),
    "task": (sold, {"--yes", "--again", "--watch", "--accept"}),
    "market": (lambda net: trades.posted_and_followed(net, 2, 3, 2, "0.5"), {"--yes", "--anyway", "--watch"}),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nobody_has_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    said: list[str] = []

    def lines(program: str, *words: str, **_: Any) -> Iterator[dict[str, Any]]:
        said.extend((program, *words))
        raise StoppedError

    async def begun(_net: Devnet) -> purchase.Purchase:
        return purchase.Purchase(DevnetLedger(next_height=1), 0, [])

    monkeypatch.setattr(programs, "lines", lines)
    monkeypatch.setattr(purchase, "_begun", begun)
    act, options = COMMANDS[name]
    with pytest.raises(StoppedError):
        act(layout.create(tmp_path, 2, any_ports=True))
    assert said[0] == "ogpu"
    assert options <= set(said)


def test_a_person_posts_unasked(tmp_path: Path) -> None:
    words = people.post_words(people.Person("ferdie", Program.CUSTOMER, tmp_path), ["a", "b"], "--watch")
    assert {"--yes", "--watch"} <= set(words)


def test_the_network_of_the_demo_polls_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nets: list[Devnet] = []

    def seen(net: Devnet, *_: Any) -> None:
        nets.append(net)
        raise StoppedError

    monkeypatch.setattr(container, "offer", seen)
    with pytest.raises(StoppedError):
        demo.main(["--any-ports", "--folder", str(tmp_path / "net")])
    with pytest.raises(StoppedError):
        stage.fresh_network(tmp_path / "other", any_ports=True, detach=False, tell=Narrator(1), before_start=seen)
    assert [net.sample for net in nets] == [demo.SAMPLE, None]
    assert demo.SAMPLE < demo.SEATS
