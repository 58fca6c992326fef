"""Which images an engine has for tasks alone: written down before they are brought, on the disk.

Always: what stands here was not there when a task asked for it, so that what the operator brought never stands here; a
book that is damaged is empty, and then nothing of what it held is ever removed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from wallet.private_file import replace

BOOK_FILE = "images.json"
BOOK_BYTES_MAX = 4 << 20
IMAGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class BroughtImage:
    """An image that was brought for a task."""

    reference: str
    """As an engine removes it: repository and digest, or the id of an archive."""
    bytes: int
    """As its engine counts them; 0 as long as it is being brought."""
    used_at: float
    """When a program was last made ready with it, begun or ended; seconds since the epoch."""


class ImageBook:
    """The book of one engine; without a path it forgets everything."""

    def __init__(self, path: Path | None) -> None:
        """Reads it; OSError for a folder that cannot be read."""
        self._path = path
        self.images: dict[str, BroughtImage] = {} if path is None else read_book(path)

    def note(self, image: BroughtImage) -> None:
        """What there is of an image now. OSError."""
        self.images[image.reference] = image
        self._save()

    def forget(self, reference: str) -> None:
        """It is gone, or somebody else's. OSError."""
        if self.images.pop(reference, None) is not None:
            self._save()

    def bytes_of(self, references: Collection[str]) -> int:
        """Of some of them together; layers that they share count for each."""
        return sum(image.bytes for name, image in self.images.items() if name in references)

    def _save(self) -> None:
        if self._path is not None:
            replace(self._path, json.dumps([asdict(image) for image in self.images.values()]).encode())


def read_book(path: Path) -> dict[str, BroughtImage]:
    """What stands in a book; nothing in one that is damaged, or not there."""
    with contextlib.suppress(FileNotFoundError, LookupError, ArithmeticError, ValueError, TypeError, RecursionError):
        with path.open("rb") as file:
            found = json.loads(file.read(BOOK_BYTES_MAX))
        images = [BroughtImage(str(each["reference"]), int(each["bytes"]), float(each["used_at"])) for each in found]
        return {image.reference: image for image in images[:IMAGES_MAX]}
    return {}


def told(images: Collection[BroughtImage], bytes_max: int, age_seconds: int, now: float) -> str:
    """How much there is of how much, for people."""
    total = sum(image.bytes for image in images)
    unused = max((now - image.used_at for image in images), default=0.0)
    age = f"; unused ones go after {age_seconds / 86_400:.1f} days" if age_seconds else "; unused ones stay"
    oldest = f", one unused for {max(0.0, unused) / 86_400:.1f} days" if images else ""
    return f"{len(images)} brought for tasks, {total / (1 << 30):.2f} of {bytes_max / (1 << 30):.2f} GiB{oldest}{age}"
