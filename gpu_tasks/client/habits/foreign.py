"""What became of somebody else's file: a draft, what was carried over, and what was left out and why.

Always: nothing is left out unsaid; what the program would run differently without is marked, and `--strict` refuses it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from gpu_tasks.client.habits.drafts import ProgramDraft
from gpu_tasks.tasks.problems import shown
from wallet.errors import WalletError

SAID_MAX = 100
"""Of what is left out, and as much again of what the program runs differently without: a file may name thousands."""
DIGEST_HELP = (
    "name it with --image NAME@sha256:…: a tag means something else tomorrow. "
    "`docker buildx imagetools inspect {}` or `skopeo inspect docker://{}` says the digest of now"
)
IMAGE_SHOWN_MAX = 200


class ForeignFileError(WalletError):
    """A file that cannot be carried over; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of the file that no task has."""

    what: str
    why: str
    matters: bool
    """Whether the program runs differently without."""

    def __str__(self) -> str:
        """A sentence."""
        return f"{'!' if self.matters else '-'} {self.what}: {self.why}"


@dataclass(slots=True)
class Carrying:
    """What is found on the way through a file."""

    left_out: list[LeftOut] = field(default_factory=list)
    more: int = 0
    """Beyond those that are kept."""

    def leave(self, what: str, why: str, *, matters: bool = True) -> None:
        """Something is left out."""
        if sum(each.matters == matters for each in self.left_out) < SAID_MAX:
            self.left_out.append(LeftOut(shown(what), why, matters))
        else:
            self.more += 1

    @property
    def losses(self) -> list[LeftOut]:
        """What the program runs differently without."""
        return [each for each in self.left_out if each.matters]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A file that was carried over."""

    draft: ProgramDraft
    carrying: Carrying
    hints: tuple[str, ...] = ()
    """What to say to `ogpu submit` beside the file."""


def image_for(given: str | None, named: str) -> str:
    """The image to use: the one that was given, or the file's, if it names a digest; ForeignFileError."""
    image = given or named
    if not image:
        raise ForeignFileError("the file names no image: name one with --image NAME@sha256:…")
    if "@sha256:" not in image:
        name = shlex.quote(image[:IMAGE_SHOWN_MAX])
        raise ForeignFileError(f"the image {shown(image)} is named by a tag: {DIGEST_HELP.format(name, name)}")
    repository, _, digest = image.partition("@")
    head, _, last = repository.rpartition("/")
    return f"{head}{'/' if head else ''}{last.partition(':')[0]}@{digest}"
