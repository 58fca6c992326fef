"""Task files, images and sealed orders: from the disk to stores."""

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from a_task_file import SIX_LINES
from devnet.launcher.made_images import ImageFile, MadeImage, layer_of
from error_codes import raises_code
from gpu_tasks.client.cli import main
from gpu_tasks.client.input_files import InputFileError
from gpu_tasks.client.tasks import orders
from gpu_tasks.client.tasks.orders import (
    FRESH_SECONDS,
    ArchiveFile,
    ImageFileError,
    TaskSealer,
    Uploader,
    bidders_of,
    load,
    load_any,
    load_input,
    look_at_image,
)
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.sealing import READERS_MAX, SealKey, address_of
from gpu_tasks.market.devices.records import Device, DeviceClass, Provider
from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus, InputReader
from gpu_tasks.market.training.rules import DEFAULT_RULES
from gpu_tasks.tasks.canonical import INPUT_BYTES_MAX, prepare, terms_of
from gpu_tasks.tasks.container_request import ImagePart
from gpu_tasks.tasks.problems import TaskFileError
from gpu_tasks.tasks.task_kinds import task_schema
from gpu_tasks.tasks.yaml_tree import FILE_BYTES_MAX
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair
from wallet.outbox import OutboxFile

# Task files on the disk: the examples, what an input may be, and the commands that need no node.


EXAMPLES = Path(__file__).parents[4] / "examples"
HASHES = {
    "gang": "b3c8e1b304524af05515318e61ef383ddd9a1eda13f494a07061d8f98c3c12e1",
    "minimal": "ce8e45370d643b0b05f3af5fe58768a621e41d74ee016153a938d197b0f69d35",
    "picture": "ce8b3d3ebbbab032ee6cac9ad6865b7452b897621110444337c7cce755c13e2a",
    "pair": "de375bd48f6af12b09325467092b696d54d581a966f79e4a91baa5a7d6ad9eff",
    "relay": "fa85bf61a3ba3610dddb69a56066af5ede09aed9d77f41b89ccc8a7f2b9aacf2",
    "sizes": "318dc17d9f30cc286c841a606c4b7836b6373007b6233285c98b53ca8bad1b87",
    "urgent": "9c3ccc9434e60f2b80a3f30246170fbb1239b5b18741d9238056eaeaa8547b21",
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text("the quick brown fox\n" * 100)
    (tmp_path / "task.yaml").write_text(SIX_LINES)
    return tmp_path / "task.yaml"


def ogpu(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def facts(*words: str) -> Any:
    said = ogpu("--json", *words)
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def test_every_example_has_its_hash() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == set(HASHES)
    assert {path.suffix for path in EXAMPLES.iterdir() if path.is_file()} == {".yaml", ".txt", ".py"}


@pytest.mark.parametrize("name", HASHES)
def test_an_example_comes_to_its_canonical_bytes(name: str) -> None:
    path = EXAMPLES / f"{name}.yaml"
    file = load(path)
    assert file.task.name == name
    prepared = prepare(file, load_input(path, file), bytes(32))
    assert prepared.task_hash.hex() == HASHES[name]
    blocks = {"pair": 600, "relay": 600, "gang": 5_400, "urgent": 5_400, "sizes": 7_200}.get(name, 21_600)
    assert terms_of(file, prepared.segments, DEFAULT_RULES, 1_000).blocks_max == blocks


def test_check_says_what_a_file_comes_to(task: Path) -> None:
    said = facts("task", "check", str(task))
    assert (said["task"], said["workload"], said["cost"], said["milestones"]) == (
        "haiku",
        "train-int8",
        "1000 steps",
        10,
    )
    assert said["price_max"] == {"grains": "250000000", "ogpu": "2.5"}
    assert (said["deadline"], said["classes"]) == ("6h", "cpu, consumer, datacenter")
    assert said["task_hash"] is None
    assert said["value_of_time"] == "a quarter of the maximum price over the deadline"
    assert said["loss_on_failure"]["ogpu"] == "0.625"
    assert said["collateral"] == "the chain's minimum"
    assert facts("task", "check", str(EXAMPLES / "gang.yaml"))["collateral"]["ogpu"] == "25"
    assert facts("task", "check", str(EXAMPLES / "urgent.yaml"))["task_hash"] == "0x" + HASHES["urgent"]
    assert "haiku" in ogpu("task", "check", str(task)).output


def test_check_says_of_a_container_what_is_bought(tmp_path: Path) -> None:
    lease = facts("task", "check", str(EXAMPLES / "containers" / "lease.yaml"))
    assert (lease["ports"], lease["keep"]) == ("8080", "30m after its end")
    assert lease["time"] == "1h: 3600 blocks in 30 intervals"
    (tmp_path / "words.txt").write_text("words")
    job = (EXAMPLES / "containers" / "job.yaml").read_text()
    copies = tmp_path / "copies.yaml"
    copies.write_text(job.replace(", interval: 1m", "") + "  verify: {copies: 3}\n")
    said = facts("task", "check", str(copies))
    assert said["copies"].startswith("3, ")
    assert said["time"] == "10m: 600 blocks at most, paid in full"
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text(job.replace("    inputs:", "    secrets: [TOKEN]\n    inputs:"))
    assert facts("task", "check", str(secrets))["secrets"] == "TOKEN: handed to the provider that runs it"


def test_check_says_times_as_files_do() -> None:
    urgent, gang = (
        facts("task", "check", str(EXAMPLES / "urgent.yaml")),
        facts("task", "check", str(EXAMPLES / "gang.yaml")),
    )
    assert (urgent["deadline"], urgent["value_of_time"]) == ("1h 30m", "0.5 oGPU for 1h")
    assert (gang["deadline"], gang["classes"]) == ("5400 blocks", "consumer, datacenter")


def test_check_says_all_that_is_wrong(task: Path) -> None:
    task.write_text(SIX_LINES.replace("maxPrice", "maxprice"))
    said = ogpu("task", "check", str(task))
    assert said.exit_code == 2
    assert said.stdout == ""
    assert f"error: {task}:6: spec.market: there is no key 'maxprice'; did you mean maxPrice?" in said.stderr
    assert f"{task}:6: spec.market: the key maxPrice" in said.stderr
    assert "Traceback" not in said.output


def test_schema_is_printed() -> None:
    assert json.loads(ogpu("task", "schema").stdout) == task_schema()


@pytest.mark.parametrize(("name", "code"), [("nowhere.yaml", "file_unreadable"), (".", "not_a_file")])
def test_a_task_file_that_cannot_be_read(tmp_path: Path, name: str, code: str) -> None:
    with raises_code(InputFileError, code):
        load(tmp_path / name)


def test_a_large_file_is_not_read_to_its_end(task: Path) -> None:
    task.write_text(SIX_LINES + "#" * FILE_BYTES_MAX)
    with pytest.raises(TaskFileError, match="more than 32,768 bytes"):
        load(task)
    task.write_text(SIX_LINES)
    (task.parent / "corpus.txt").write_bytes(b"a" * (2 * INPUT_BYTES_MAX))
    assert len(load_input(task, load(task))) == INPUT_BYTES_MAX + 1


def test_a_stranger_s_task_file_sends_no_other_file_away(task: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("home") / "secret"
    secret.write_text("secret\n" * 1_000)
    corpus = task.parent / "corpus.txt"
    corpus.unlink()
    corpus.symlink_to(secret)
    with pytest.raises(TaskFileError, match=r"task.yaml:5: spec.run.input: corpus.txt leads out of the task"):
        load_input(task, load(task))


@pytest.mark.parametrize(("name", "why"), [("gone.txt", "cannot be read: No such file"), ("folder", "is no file")])
def test_inputs_that_are_none(task: Path, name: str, why: str) -> None:
    (task.parent / "folder").mkdir()
    task.write_text(SIX_LINES.replace("corpus.txt", name))
    with pytest.raises(TaskFileError, match=f"task.yaml:5: spec.run.input: {name} {why}"):
        load_input(task, load(task))


def test_an_input_may_lie_below_and_be_linked_within(task: Path) -> None:
    (task.parent / "data").mkdir()
    (task.parent / "data" / "link").symlink_to(task.parent / "corpus.txt")
    task.write_text(SIX_LINES.replace("corpus.txt", "data/link"))
    assert load_input(task, load(task)) == (task.parent / "corpus.txt").read_bytes()


IMAGE = MadeImage((ImageFile("bin"), ImageFile("bin/a", b"a" * 300_000)))
TASK = """apiVersion: ogpu/v1
kind: Job
metadata: {{name: least}}
spec:
  run: {{image: "sha256:{sha256}", archive: tool.tar}}
  market: {{maxPrice: 2 oGPU}}
"""


def saved(folder: Path, *, is_packed: bool = False) -> tuple[Path, bytes]:
    archive, path = IMAGE.archive(is_packed=is_packed), folder / "tool.tar"
    assert isinstance(archive.content, bytes)
    path.write_bytes(archive.content)
    return path, bytes.fromhex(archive.sha256)


def test_an_archive_is_compressed_in_parts_and_the_same_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sha256 = saved(tmp_path)
    monkeypatch.setattr(orders, "IMAGE_PART_BYTES", 500)
    image = look_at_image(path, sha256)
    parts = image.parts()
    assert len(parts) > 1
    assert {len(part) for part in parts[:-1]} == {500}
    assert gzip.decompress(b"".join(parts)) == path.read_bytes()
    assert image.size == path.stat().st_size
    assert look_at_image(path, sha256).parts() == parts


def test_an_archive_that_nobody_runs_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sha256 = saved(tmp_path)
    with raises_code(ImageFileError, "other_image"):
        look_at_image(path, bytes(32))
    packed, id_of_packed = saved(tmp_path, is_packed=True)
    with raises_code(ImageFileError, "layers_compressed"):
        look_at_image(packed, id_of_packed)
    for damaged in (b"", b"no tar", layer_of([ImageFile("manifest.json", b"{}")]),
                    layer_of([ImageFile("manifest.json", b'[{"Config": 1}]')]), layer_of([])):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(ImageFileError):
            look_at_image(path, sha256)
    path.write_bytes(layer_of([ImageFile("manifest.json", b"[1, 2]")]))
    with raises_code(ImageFileError, "several_images"):
        look_at_image(path, sha256)
    path, sha256 = saved(tmp_path)
    monkeypatch.setattr(orders, "PACKED_BYTES_MAX", 100)
    with raises_code(ImageFileError, "archive_too_large"):
        look_at_image(path, sha256).parts()
    monkeypatch.setattr(orders, "IMAGE_ARCHIVE_BYTES_MAX", path.stat().st_size - 1)
    with raises_code(ImageFileError, "archive_too_large"):
        look_at_image(path, sha256)


def test_a_task_file_names_an_archive_beside_it(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    path, sha256 = saved(tmp_path / "tasks")
    task = path.with_name("task.yaml")
    task.write_text(TASK.format(sha256=sha256.hex()))
    image = load_any(task).image
    assert image is not None
    assert zlib.decompress(b"".join(image.parts()), 31) == path.read_bytes()
    task.write_text(TASK.format(sha256="0" * 64))
    with pytest.raises(TaskFileError, match="has the image sha256:"):
        load_any(task)
    task.write_text(TASK.format(sha256=sha256.hex()))
    path.rename(tmp_path / "elsewhere.tar")
    path.symlink_to(tmp_path / "elsewhere.tar")
    with pytest.raises(TaskFileError, match="leads out of the task file"):
        load_any(task)
    path.unlink()
    with pytest.raises(TaskFileError, match="cannot be read"):
        load_any(task)


# The readers of a task's input: checkers before all others, then the owners of devices that suit.


CHECKERS, OWNERS = 3, READERS_MAX


def seal_key(number: int) -> bytes:
    return SealKey(b"s" + number.to_bytes(31, "little")).public  # the lowest bits of the first byte are none of a key


def provider(number: int) -> Provider:
    return Provider(seal_key(number), b"http://127.0.0.1:1", 0)


def a_device(owner: int, kind: DeviceClass) -> DeviceStatus:
    name = owner.to_bytes(32, "big")
    return DeviceStatus(name, Device(name, kind, name, 1, 1, 1), ())


def test_bidders_are_the_owners_of_devices_that_suit_by_ascending_account() -> None:
    devices = [a_device(3, DeviceClass.CPU), a_device(1, DeviceClass.CPU), a_device(2, DeviceClass.DATACENTER)]
    providers = {number.to_bytes(32, "big"): provider(number) for number in (1, 2, 3)}
    found = bidders_of(devices, providers, [DeviceClass.CPU])
    assert [reader.seal_key for reader in found] == [seal_key(1), seal_key(3)]
    del providers[(1).to_bytes(32, "big")]
    assert [reader.seal_key for reader in bidders_of(devices, providers, [DeviceClass.CPU])] == [seal_key(3)]


def test_however_many_may_bid_every_checker_can_open_it_and_the_customer(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[bytes] = []
    key = Keypair.from_seed(Scheme.ED25519, b"k" * 32)

    class Chain:
        async def finalized(self) -> bytes:
            return bytes(32)

        async def height(self, at: bytes) -> int:
            return 7

    class Stores:
        async def put(self, blob: bytes, endpoints: list[str], copies: int) -> None:
            pass

    class Draft:
        asked = type("Asked", (), {"classes": (DeviceClass.CPU,)})
        order = staticmethod(lambda stored: stored)

    async def checkers(*_: Any) -> list[InputReader]:
        late = InputReader(b"l" * 32, seal_key(9_999), 8)  # came after the block that the input is sealed at
        return [late, *(InputReader(bytes(32), seal_key(1_000 + number), 0) for number in range(CHECKERS))]

    async def providers(*_: Any) -> dict[bytes, Provider]:
        return {number.to_bytes(32, "big"): provider(number) for number in range(1, OWNERS + 1)}

    async def devices(*_: Any) -> list[DeviceStatus]:
        return [a_device(number, DeviceClass.CPU) for number in range(1, OWNERS + 1)]

    def sealed(content: bytes, keys: list[bytes]) -> bytes:
        readers.extend(keys)
        return content

    monkeypatch.setattr(market_reads, "checking_readers", checkers)
    monkeypatch.setattr(market_reads, "providers", providers)
    monkeypatch.setattr(market_reads, "devices", devices)
    monkeypatch.setattr(orders, "seal", sealed)
    who: Any = (Chain(), Stores(), key, Draft())
    asyncio.run(TaskSealer(*who).terms([b"request"], lambda: None))
    wanted = [SealKey.of(key).public, *(seal_key(1_000 + number) for number in range(CHECKERS))]
    assert readers[: CHECKERS + 1] == wanted
    assert len(readers) == READERS_MAX
    assert seal_key(9_999) not in readers


# Parts of an image on their way into stores: each once, whatever broke off before.


PARTS = tuple(bytes([number]) * 1_000 for number in range(6))
READER = SealKey(b"r" * 32)
WHO = (b"genesis", b"account")


class Stores:
    """All stores as one, which takes so many blobs."""

    def __init__(self, takes: int = 99) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.puts = 0
        self.takes = takes

    async def put(self, blob: bytes, endpoints: Sequence[str], copies: int) -> list[str]:
        await asyncio.sleep(0)
        if len(self.blobs) >= self.takes:
            raise BlobError("no store took the blob (full)")
        self.puts += 1
        self.blobs[address_of(blob)] = blob
        return list(endpoints)

    async def get(self, address: bytes, endpoints: Sequence[str]) -> bytes:
        if address not in self.blobs:
            raise BlobError("not found")
        return self.blobs[address]


def upload(stores: Stores, folder: Path, reader: SealKey = READER) -> list[ImagePart]:
    blobs: Any = stores
    uploader = Uploader(blobs, [reader.public], ["http://store.test"], lambda _: None)
    image = ArchiveFile(Path("tool.tar"), b"i" * 32, 9_000, PARTS)
    return asyncio.run(uploader.uploaded(image, folder, WHO))


def test_every_part_is_sealed_and_named_by_its_content(tmp_path: Path) -> None:
    stores = Stores()
    parts = upload(stores, tmp_path)
    assert [READER.open(stores.blobs[part.blob]) for part in parts] == list(PARTS)
    assert [part.root for part in parts] == [blake2_256(part) for part in PARTS]


def test_what_broke_off_goes_on_behind_what_is_stored(tmp_path: Path) -> None:
    stores = Stores(takes=3)
    with pytest.raises(BlobError, match=r"full.*3 of 6 parts of the image stored"):
        upload(stores, tmp_path)
    stores.takes = 99
    parts = upload(stores, tmp_path)
    assert stores.puts == len(PARTS)
    assert [READER.open(stores.blobs[part.blob]) for part in parts] == list(PARTS)
    assert upload(stores, tmp_path) == parts, "the same image is stored once, also for another task"
    assert stores.puts == len(PARTS)


def test_other_readers_and_stores_that_have_nothing_get_all_of_it(tmp_path: Path) -> None:
    stores = Stores()
    upload(stores, tmp_path)
    upload(stores, tmp_path, SealKey(b"q" * 32))
    assert stores.puts == 2 * len(PARTS)
    upload(Stores(), tmp_path)
    fresh = Stores()
    assert all(part.blob in fresh.blobs for part in upload(fresh, tmp_path))


def test_what_is_written_down_grows_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = Stores()
    upload(stores, tmp_path)
    with OutboxFile(tmp_path) as outbox:
        ((began_at,),) = outbox.rows("SELECT DISTINCT began_at FROM stored_parts")
    for now in (began_at + FRESH_SECONDS - 1, began_at + FRESH_SECONDS + 1, began_at - 1):
        before = stores.puts
        monkeypatch.setattr(time, "time", lambda now=now: now)
        upload(stores, tmp_path)
        assert stores.puts == before + (0 if now == began_at + FRESH_SECONDS - 1 else len(PARTS))
