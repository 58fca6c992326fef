"""Images for tasks, and the time of their removal: against a fake of an engine's images."""

import asyncio
import io
import json
import platform
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnet.launcher.made_images import ImageFile, MadeImage

pytest.importorskip("docker", reason="the library docker is not installed")

from error_codes import raises_code
from gpu_tasks.provider.execution.containers import images as keeping_images
from gpu_tasks.provider.execution.containers.docker_door import GoneError
from gpu_tasks.provider.execution.containers.image_archive import check_archive
from gpu_tasks.provider.execution.containers.images import (
    BroughtImage,
    ImageBook,
    Images,
    read_book,
    told,
)
from gpu_tasks.provider.execution.containers.refusals import ContainerError, ContainerRefusedError
from gpu_tasks.provider.execution.containers.spec import (
    MIB,
    ContainerPolicy,
    ImageArchive,
    ImageByDigest,
)
from wallet import private_file

T = TypeVar("T")
ROOM = 10 * MIB
PULLED = ImageByDigest("hub.test/a", "7" * 64)


class FakeEngineImages:
    """The images of a `DockerDoor` and of its client."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.in_use: set[str] = set()
        self.on_pull: Callable[[], None] = lambda: None
        self.pulled_bytes = 4 * MIB
        self.command = ["x"]

    async def call(self, what: str, work: Callable[[Any], T]) -> T:
        await asyncio.sleep(0)
        return work(self)

    wait = call

    def has(self, name: str, size: int = MIB, **more: Any) -> None:
        config = {"Cmd": self.command}
        found = {"Id": name, "Os": "linux", "Architecture": machine(), "Config": config, "Size": size}
        self.images[name] = found | {"RepoTags": [], "RepoDigests": [name] if "@" in name else []} | more

    def inspect_image(self, name: str) -> dict[str, Any]:
        if name not in self.images:
            raise GoneError("look for an image", "there is none")
        return self.images[name]

    def remove_image(self, name: str) -> None:
        self.inspect_image(name)
        if name in self.in_use:
            raise ContainerError("remove an image", "a container uses it", "wait")
        del self.images[name]

    def load_image(self, pieces: Iterator[bytes]) -> Iterator[dict[str, Any]]:
        content = b"".join(pieces)
        config = next(name for name in json_names(content) if name != "manifest.json")
        self.has(f"sha256:{config}", len(content))
        return iter(())

    def pull(self, reference: str, **_: Any) -> Iterator[dict[str, Any]]:
        self.on_pull()
        self.has(reference, self.pulled_bytes)
        yield {"status": "Downloading", "id": "1", "progressDetail": {"total": self.pulled_bytes}}


def machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def json_names(content: bytes) -> list[str]:

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return [name.removesuffix(".json") for name in archive.getnames() if name.endswith(".json")]


def archive(number: int, size: int = 3 * MIB) -> ImageArchive:
    made = MadeImage((ImageFile("a", bytes([number]) * size),), {"Cmd": ["x"]}).archive()
    assert isinstance(made.content, bytes)
    check_archive(io.BytesIO(made.content), made.sha256, size * 2, platform.machine())
    return made


def keeping(
    engine: FakeEngineImages, book: Path | None = None, *, age: int = 0, images: tuple[str, ...] = ("hub.test/a",)
) -> Images:
    policy = ContainerPolicy(images, any_archive=True, image_disk_bytes=ROOM, image_age_seconds=age)
    door: Any = engine
    return Images(door, policy, platform.machine(), ImageBook(book))


async def test_the_longest_unused_goes_when_its_room_is_wanted(tmp_path: Path) -> None:
    engine = FakeEngineImages()
    images = keeping(engine, tmp_path / "b.json")
    brought = [archive(number) for number in range(5)]
    for number, image in enumerate(brought[:3]):
        await images.ready(image, ROOM, user_name=f"c{number}")
        images.keeping.release(f"c{number}")
    assert len(engine.images) == 3
    await images.ready(brought[0], ROOM, user_name="again")
    await images.ready(brought[3], ROOM)
    left = {name.removeprefix("sha256:") for name in engine.images}
    assert left == {brought[0].sha256, brought[2].sha256, brought[3].sha256}, "the one that was used again stays"
    assert set(read_book(tmp_path / "b.json")) == set(engine.images)


async def test_what_programs_use_stays_and_what_finds_no_room_beside_them_is_not_brought() -> None:
    engine = FakeEngineImages()
    images = keeping(engine, age=1)
    for number in range(3):
        await images.ready(archive(number), ROOM, user_name=f"c{number}")
    with raises_code(ContainerError, "image_disk_full"):
        await images.ready(archive(3), ROOM, user_name="c3")
    await images.keeping.tidy(ROOM)
    assert len(engine.images) == 3
    images.keeping.release("c1")
    await images.ready(archive(3), ROOM, user_name="c3")
    assert f"sha256:{archive(1).sha256}" not in engine.images


async def test_what_nobody_used_for_long_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngineImages()
    images = keeping(engine, age=100)
    await images.ready(archive(1), ROOM, user_name="c1")
    await images.ready(archive(2), ROOM)
    later = time.time() + 101
    monkeypatch.setattr(keeping_images, "time", SimpleNamespace(time=lambda: later))
    await images.keeping.tidy()
    assert list(engine.images) == [f"sha256:{archive(1).sha256}"]


async def test_what_the_operator_has_is_never_removed() -> None:
    engine = FakeEngineImages()
    engine.has(PULLED.reference)
    images = keeping(engine, age=1)
    await images.ready(PULLED, ROOM)
    await images.ready(archive(1), ROOM)
    name = f"sha256:{archive(1).sha256}"
    engine.images[name]["RepoTags"] = ["mine:latest"]
    images.keeping._age_seconds = -1
    await images.keeping.tidy(ROOM)
    assert set(engine.images) == {PULLED.reference, name}, "it was there before, or has got a name since"
    assert not images.keeping._image_book.images


async def test_what_a_container_of_another_daemon_has_is_tried_later() -> None:
    engine = FakeEngineImages()
    images = keeping(engine)
    await images.ready(PULLED, ROOM)
    engine.in_use.add(PULLED.reference)
    await images.keeping.tidy(ROOM)
    assert PULLED.reference in images.keeping._image_book.images
    engine.in_use.clear()
    await images.keeping.tidy(ROOM)
    assert not engine.images


async def test_an_image_is_written_down_before_it_is_brought_and_found_by_the_next_daemon(tmp_path: Path) -> None:
    engine, book = FakeEngineImages(), tmp_path / "b.json"

    def die() -> None:
        assert read_book(book)[PULLED.reference].bytes == 0
        engine.has(PULLED.reference, 5 * MIB)
        raise KeyboardInterrupt

    engine.on_pull = die
    with pytest.raises(KeyboardInterrupt):
        await keeping(engine, book).ready(PULLED, ROOM)
    later = keeping(engine, book)
    await later.keeping.settle()
    assert later.keeping._image_book.images[PULLED.reference].bytes == 5 * MIB
    del engine.images[PULLED.reference]
    last = keeping(engine, book)
    await last.keeping.settle()
    assert read_book(book) == {}


class KilledError(BaseException):
    """A `kill -9`: no part of the daemon continues."""


class Killing:
    """Kills a daemon at the n-th point, with no later effect."""

    def __init__(self, at: int) -> None:
        self.left = at

    def point(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError


class KilledEngineImages(FakeEngineImages):
    """An engine whose daemon may be killed before and after each call. Its requested images still arrive later."""

    def __init__(self) -> None:
        super().__init__()
        self.killing = Killing(10**6)

    async def call(self, what: str, work: Callable[[Any], T]) -> T:
        self.killing.point()
        done = await super().call(what, work)
        self.killing.point()
        return done

    wait = call


def test_wherever_a_daemon_is_killed_the_next_one_knows_every_image_that_it_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each write of the book and around each engine call: every image is known, and so can be removed."""
    ones = [ImageByDigest("hub.test/a", str(number) * 64) for number in range(4)]
    real = private_file.replace

    async def life(images: Images) -> None:
        for number, image in enumerate(ones):
            await images.ready(image, ROOM, user_name=f"c{number}")
            images.keeping.release(f"c{number}")

    async def scene(at: int) -> bool:
        engine, book = KilledEngineImages(), tmp_path / f"{at}.json"
        engine.has("own", MIB)
        engine.killing = Killing(at)

        def written(path: Path, data: bytes) -> None:
            engine.killing.point()
            real(path, data)
            engine.killing.point()

        monkeypatch.setattr(keeping_images, "replace_file", written)
        was_killed = False
        try:
            await life(keeping(engine, book))
        except KilledError:
            was_killed = True
        engine.killing = Killing(10**6)
        late = dict(engine.images)
        coming = [name for name, image in read_book(book).items() if not image.bytes and name not in late]
        later = keeping(engine, book)
        await later.keeping.settle()
        for name in coming:  # the engine had all bytes, and continued to unpack
            engine.has(name, MIB)
        await later.keeping.tidy()
        assert set(engine.images) - {"own"} == set(read_book(book)), at
        later.keeping._age_seconds = -1
        await later.keeping.tidy(ROOM)
        assert set(engine.images) == {"own"}, at
        assert read_book(book) == {}
        return was_killed

    counted = next(at for at in range(1_000) if not asyncio.run(scene(at)))
    assert counted > 40, "each write and each call is a point"


async def test_one_that_is_refused_or_too_large_is_sent_away() -> None:
    engine = FakeEngineImages()
    images = keeping(engine)
    engine.pulled_bytes = ROOM + 1
    with raises_code(ContainerRefusedError, "image_too_large"):
        await images.ready(PULLED, 2 * ROOM)
    assert PULLED.reference in images.keeping._image_book.images, "an engine may have it all the same"
    await images.keeping.tidy()
    assert not engine.images
    engine.pulled_bytes, engine.command = MIB, []
    with raises_code(ContainerRefusedError, "no_command"):
        await images.ready(PULLED, ROOM, has_command=False)
    assert not engine.images
    assert not images.keeping._image_book.images


async def test_a_pull_that_comes_after_nobody_waited_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngineImages()
    images = keeping(engine)

    def break_off() -> None:
        raise ContainerError("pull an image", "not here after 1800 s", "try later")

    engine.on_pull = break_off
    with pytest.raises(ContainerError, match="not here"):
        await images.ready(PULLED, ROOM)
    assert images.keeping._image_book.images[PULLED.reference].bytes == 0
    engine.has(PULLED.reference, 2 * MIB)
    await images.keeping.tidy()
    assert images.keeping._image_book.images[PULLED.reference].bytes == 2 * MIB
    engine.images.clear()
    images.keeping._image_book.note(BroughtImage(PULLED.reference, 0, 0.0))
    await images.keeping.tidy()
    assert not images.keeping._image_book.images


@given(st.binary(max_size=200) | st.builds(lambda value: json.dumps(value).encode(), st.recursive(
    st.none() | st.integers() | st.text() | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["reference", "bytes", "used_at", "x"]), inner))))  # fmt: skip
def test_a_damaged_book_is_empty_or_a_book(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("book") / "b.json"
    path.write_bytes(data)
    book = ImageBook(path)
    book.note(BroughtImage("sha256:1", 5, 1.0))
    assert read_book(path)["sha256:1"].bytes == 5


def test_a_book_is_told() -> None:
    images = [BroughtImage("a", 3 << 30, 100.0), BroughtImage("b", 1 << 29, 100.0 + 86_400)]
    line = told(images, 20 << 30, 7 * 86_400, 100.0 + 2 * 86_400)
    assert re.findall(r"[0-9.]+", line) == ["2", "3.50", "20.00", "2.0", "7.0"]
    assert told([], 20 << 30, 0, 0.0).endswith("are kept")
