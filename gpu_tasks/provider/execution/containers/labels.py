"""The names of what a daemon makes in an engine. Always: what carries both our label and our name is ours.

Labels alone do not say it: a container inherits those of its image, and an image is a stranger's.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from hashlib import blake2s
from pathlib import Path

from wallet.private_file import own_opener

PREFIX = "org.ogpu."
OWNER_LABEL = f"{PREFIX}owner"
CONTAINER_LABEL = f"{PREFIX}container"
_OWNER_BYTES = 6
_OWNER_FORM = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Owner:
    """A provider's daemon, as the engine knows it."""

    name: str
    """12 hexadecimal digits."""

    @property
    def prefix(self) -> str:
        """What the names of its things begin with."""
        return f"ogpu-{self.name}-"

    def name_of(self, container_id: str, part: str) -> str:
        """The name of a thing that belongs to a container."""
        return f"{self.prefix}{container_id}-{part}"

    def labels(self, container_id: str) -> dict[str, str]:
        """The labels of a thing that belongs to a container."""
        return {OWNER_LABEL: self.name, CONTAINER_LABEL: container_id}

    def filters(self) -> dict[str, list[str]]:
        """What an engine is asked for."""
        return {"label": [f"{OWNER_LABEL}={self.name}"]}

    def bridge(self, container_id: str) -> str:
        """The name of a container's bridge, as long as the kernel lets an interface be called (15 bytes)."""
        return f"og{blake2s(f'{self.name}/{container_id}'.encode(), digest_size=6).hexdigest()}"


def owner_of(folder: Path) -> Owner:
    """The owner that a daemon's folder belongs to: drawn once, and kept. OSError; ValueError for a damaged file."""
    path = folder / "container-owner"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "w", opener=own_opener) as file:
            file.write(secrets.token_hex(_OWNER_BYTES) + "\n")
    name = path.read_text().strip()
    if not _OWNER_FORM.fullmatch(name):
        raise ValueError(f"{path} does not hold 12 hexadecimal digits; remove it once nothing of this daemon runs")
    return Owner(name)
