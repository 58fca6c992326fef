"""`ogpu result UNIT --out`: the bytes that were paid for, in a file that nothing else was in."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from genesis import dev_accounts
from gpu_tasks.client.cli import main
from gpu_tasks.data.sealing import SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitTerms
from gpu_tasks.workloads.registry import form_named, open_workload
from gpu_tasks.workloads.render_tile.request import WORKLOAD_ID
from painted_tiles import PaintedReads
from planted_state import chain_with
from runtime.cryptography import ss58
from runtime.frame.runtime import Bound
from wallet.suri import keypair_from_suri
from wallet_runner import answer

BOB = keypair_from_suri("//Bob")
UNIT, WAITING = b"u" * 32, b"w" * 32
SCENE = "picture 8 6; samples 1; bounces 1; camera 0 1 -5 0 1 0 1; sky #406080 #ffffff 1; sphere 0 1 0 1 matte #c04030"
REQUEST = form_named("render-tile").encode(SCENE, 100, {}, bytes(32))
CONTENT = encode_input(b"s" * 32, SealKey.of(BOB).public, REQUEST)
INPUT = seal(CONTENT, [SealKey.of(BOB).public])
TERMS = UnitTerms(10_000_000, 1, address_of(INPUT), commitment_of(CONTENT), 0, 100)
QUEUED = Unit(0, BOB.account, TERMS, 14_000_000, 500_000, 0, 1, 1)


@pytest.fixture
def url(tmp_path: Path, blobs: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    blobs[address_of(INPUT)] = INPUT
    PaintedReads(BOB, blobs).plant(monkeypatch)

    def plant(bound: Bound) -> None:
        market = bound[InferenceMarket]
        market.units[UNIT] = QUEUED
        market.units[WAITING] = replace(QUEUED, terms=replace(TERMS, input_root=b"n" * 32))
        service = market.services[0]
        assert service is not None
        market.services[0] = replace(service, terms=replace(service.terms, workload=WORKLOAD_ID))

    with chain_with(tmp_path, plant) as url:
        yield url


def result(url: str, folder: Path, *words: str) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), "--json"]
    return CliRunner().invoke(main, [*options, "result", *words, "--key", "//Bob"])


def test_the_bytes_that_were_paid_for_go_into_a_file(tmp_path: Path, url: str, blobs: dict[bytes, bytes]) -> None:
    out, name = tmp_path / "tile.bin", "0x" + UNIT.hex()
    shown = answer(result(url, tmp_path, name, "--out", str(out)))
    assert out.read_bytes() == open_workload("render-tile", "numpy").run(REQUEST)
    assert (shown["written_to"], shown["output_bytes"]) == (str(out), len(out.read_bytes()))
    assert (shown["state"], shown["payee"]) == ("settled", ss58.encode(dev_accounts.stash("Alice")))

    out.write_bytes(b"mine")
    refused = result(url, tmp_path, name, "--out", str(out))
    assert (refused.exit_code, "is there already" in refused.stderr, out.read_bytes()) == (2, True, b"mine")
    answer(result(url, tmp_path, name, "--out", str(out), "--force"))
    assert out.read_bytes() != b"mine"

    answer(result(url, tmp_path, name, "--out", str(tmp_path)))
    assert (tmp_path / f"{name}.bin").read_bytes() == out.read_bytes()

    blobs.clear()
    gone = result(url, tmp_path, name, "--out", str(tmp_path / "gone"))
    assert (gone.exit_code, "the input is gone" in gone.stderr, (tmp_path / "gone").exists()) == (2, True, False)


def test_without_a_result_there_is_no_file(tmp_path: Path, url: str) -> None:
    out = tmp_path / "tile.bin"
    waiting = result(url, tmp_path, "0x" + WAITING.hex(), "--out", str(out))
    assert (waiting.exit_code, "the unit is queued: follow it with `ogpu watch 0x7777" in waiting.stderr) == (2, True)
    assert not out.exists()
    alone = result(url, tmp_path, "0x" + UNIT.hex(), "--force")
    assert (alone.exit_code, "name one" in alone.stderr) == (2, True)
