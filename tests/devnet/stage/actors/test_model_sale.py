"""The sale of a model on a devnet."""

from pathlib import Path

import pytest

from devnet.launcher.layout import Devnet
from devnet.stage.actors import model_sale
from devnet.stage.actors.model_sale import ModelSale, sell_model
from devnet.stage.network import Stage
from devnet.stage.report import Narrator
from genesis import dev_accounts


def test_a_service_is_created_and_every_provider_offers_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    typed: list[tuple[str, ...]] = []

    def ogpu(_: Stage, command: str, *words: str) -> str:
        typed.append((command, *words))
        return '{"service": 5}'

    def provider(_: Stage, name: str, *words: str) -> str:
        typed.append((name, *words))
        return ""

    devices = {dev_accounts.stash(name): bytes([number]) * 32 for number, name in enumerate(("Alice", "Bob"))}
    monkeypatch.setattr(Stage, "ogpu", ogpu)
    monkeypatch.setattr(Stage, "provider", provider)
    monkeypatch.setattr(Stage, "ask", lambda _, question: devices if question is model_sale._devices_by_owner else None)
    sale = ModelSale("decoder-int8:small", "small", "Alice", ("Alice", "Bob"), 300, 32, pace=4)
    assert sell_model(Stage(Devnet(tmp_path, ()), Narrator(1)), sale) == 5
    created, *offers = typed
    assert created[0] == "offer create-service"
    options = dict(zip(created[1:-1:2], created[2::2], strict=True))
    assert options == {
        "--key": "//Alice", "--workload": "decoder-int8:small", "--name": "small", "--price-min": "0.01",
        "--price-max": "0.05", "--ramp": "10", "--commit-window": "300", "--pace": "4", "--max-tokens": "32",
        "--input-share": "0",
    }  # fmt: skip
    assert offers == [
        (name, "offer", "0x" + devices[dev_accounts.stash(name)].hex(), "--service", "5", "--ask", "0.01")
        for name in ("Alice", "Bob")
    ]
