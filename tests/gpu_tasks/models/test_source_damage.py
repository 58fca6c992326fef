"""Damaged model files: for any damage, the only error is SourceError."""

import io
import random
import zipfile
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType as Kind

from gpu_tasks.models.sources.open_source import open_source
from gpu_tasks.models.sources.source_model import SourceError
from tiny_models import LLAMA, quantised, random_tensors, write_folder, write_gguf

ROUNDS = 150


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few changed, mostly in the header, or cut, or with a part doubled."""
    changed = bytearray(data)
    match chance.randrange(4):
        case 0:
            del changed[chance.randrange(len(changed)) :]
        case 1:
            start = chance.randrange(len(changed))
            changed[start:start] = changed[start : start + chance.randrange(1, 64)]
        case _:
            reach = chance.choice([64, 1_024, len(changed)])
            for _ in range(chance.randrange(1, 8)):
                changed[chance.randrange(min(reach, len(changed)))] = chance.choice(
                    [0, 1, 0x7F, 0xFF, chance.randrange(256)]
                )
    return bytes(changed)


def read_all(path: Path) -> int:
    """Read a model and all its tensors. Return 1 if that succeeds, 0 if it is refused."""
    try:
        model = open_source(path)
        for name in model.tensors:
            assert model.tensors[name].shape == model.tensors.shape(name)
    except SourceError:
        return 0
    return 1


@pytest.mark.parametrize("seed", range(2))
def test_damaged_gguf(tmp_path: Path, seed: int) -> None:
    whole = write_gguf(tmp_path / "w.gguf", LLAMA, quantised(random_tensors(LLAMA), Kind.Q8_0), Kind.Q8_0).read_bytes()
    chance, path = random.Random(seed), tmp_path / "m.gguf"
    read = 0
    for _ in range(ROUNDS):
        path.write_bytes(damaged(whole, chance))
        read += read_all(path)
    assert read < ROUNDS


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]
)
def test_damaged_folder(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, random_tensors(LLAMA))
    whole, chance = (folder / name).read_bytes(), random.Random(name)
    read = 0
    for _ in range(ROUNDS):
        (folder / name).write_bytes(damaged(whole, chance))
        read += read_all(folder)
    assert read < ROUNDS


def test_damaged_archive(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", LLAMA, random_tensors(LLAMA))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"m/{path.name}")
    whole, chance, path = packed.getvalue(), random.Random(5), tmp_path / "m.zip"
    read = 0
    for _ in range(ROUNDS):
        # The list of files lies at the end.
        path.write_bytes(damaged(whole[::-1], chance)[::-1] if chance.randrange(2) else damaged(whole, chance))
        read += read_all(path)
    assert read < ROUNDS
