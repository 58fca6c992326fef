import gzip
import zlib
from pathlib import Path

import pytest

from devnet.launcher.made_images import ImageFile, MadeImage, layer_of
from gpu_tasks.client.tasks import orders
from gpu_tasks.client.tasks.orders import ImageFileError, load_any, look_at_image
from gpu_tasks.tasks.problems import TaskFileError

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
    with pytest.raises(ImageFileError, match="has the image sha256:"):
        look_at_image(path, bytes(32))
    packed, id_of_packed = saved(tmp_path, is_packed=True)
    with pytest.raises(ImageFileError, match="layers that are compressed"):
        look_at_image(packed, id_of_packed)
    for damaged in (b"", b"no tar", layer_of([ImageFile("manifest.json", b"{}")]),
                    layer_of([ImageFile("manifest.json", b'[{"Config": 1}]')]), layer_of([])):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(ImageFileError):
            look_at_image(path, sha256)
    path.write_bytes(layer_of([ImageFile("manifest.json", b"[1, 2]")]))
    with pytest.raises(ImageFileError, match="2 images"):
        look_at_image(path, sha256)
    path, sha256 = saved(tmp_path)
    monkeypatch.setattr(orders, "PACKED_BYTES_MAX", 100)
    with pytest.raises(ImageFileError, match="when it is compressed"):
        look_at_image(path, sha256).parts()
    monkeypatch.setattr(orders, "IMAGE_ARCHIVE_BYTES_MAX", path.stat().st_size - 1)
    with pytest.raises(ImageFileError, match="push a larger image"):
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
