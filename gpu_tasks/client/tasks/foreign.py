"""Another system's file: its YAML, times and sizes, the parts carried over into a draft, and the parts left out.

Invariants:

* Every omission is listed. One that changes the program's behaviour is marked, and `--strict` refuses it.
* A value has the requested shape, or an error names the mismatch.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpu_tasks.client.tasks.drafts import SPEC_KEYS, DraftOrigin, ProgramDraft, variable_key
from gpu_tasks.tasks.container_request import is_loader_variable
from gpu_tasks.tasks.problems import shown
from gpu_tasks.tasks.quantities import QuantityError, written_span
from gpu_tasks.tasks.task_kinds import OtherFile, other_file
from gpu_tasks.tasks.yaml_tree import UNANCHORED, FileNode, Listing, Scalar, Table, parse
from wallet.errors import WalletError

SAID_MAX = 100
"""The most listed omissions of each kind. A file may have thousands."""
DIGEST_HELP = (
    "Name it with --image NAME@sha256:…. "
    "`docker buildx imagetools inspect {}` or `skopeo inspect docker://{}` shows its digest"
)
HANDED_OVER = (
    "it looks like a secret, and every bidder can read the task file. Name {0} in spec.run.secrets, read /secrets/{0} "
    "in the program, and hand it over with `ogpu task submit --watch`. If it is no secret, add --env {0}=VALUE"
)
IMAGE_SHOWN_MAX = 200
SMALL_SHM = "/dev/shm counts as memory, and has 16 MiB at providers"  # noqa: S108
VARIABLE_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}", re.ASCII)
GPU_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
_IMAGE_ID = re.compile("(sha256:)?[0-9a-f]{64}", re.ASCII)
_SECRET_WORD = re.compile(
    ".*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|APIKEY|MNEMONIC|CREDENTIALS?)|SECRETS|PASS|PWD|KEY", re.ASCII
)
_NO_SECRET_WORDS = frozenset(
    "PUBLIC FILE FILES PATH DIR URL URI HOST NAME USER ID LENGTH SIZE LIMIT MAX MIN TTL COUNT EXPIRY TYPE".split()
)
_PLAIN_VALUES = frozenset({"", "0", "1", "true", "false", "yes", "no", "on", "off", "none"})
# The bounds keep the search of a hostile text linear.
_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s:@]{0,100}:[^/\s:@]{1,100}@")


class ForeignFileError(WalletError):
    """The file cannot be carried over. The text gives the reason and the next step."""

    def __init__(self, text: str, line: int | None = None, *, code: str | None = None) -> None:
        """`line` is the faulty line of the file, if there is one."""
        super().__init__(text, code=code)
        self.line = line
        self.left_out: Carrying | None = None
        """The omissions up to the fault."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the file that no task has."""

    what: str
    why: str
    matters: bool
    """True if the program runs differently without it."""
    variable: str = ""
    """The name of an omitted variable that the user may give."""

    def __str__(self) -> str:
        """Return the omission as a sentence."""
        return f"{'!' if self.matters else '-'} {self.what}: {self.why}"


@dataclass(slots=True)
class Carrying:
    """The findings during the reading of a file."""

    left_out: list[LeftOut] = field(default_factory=list)
    more: int = 0
    """The number of omissions beyond the listed ones."""
    origins: dict[str, DraftOrigin] = field(default_factory=dict)
    """The origins of carried-over parts, by key of the task file."""

    def leave(self, subject: str, reason: str, *, matters: bool = True, variable: str = "") -> None:
        """Note an omission."""
        # Counted apart, so that a thousand harmless omissions cannot push one that matters out of the list.
        if sum(omission.matters == matters for omission in self.left_out) < SAID_MAX:
            self.left_out.append(LeftOut(shown(subject), reason, matters, variable))
        else:
            self.more += 1

    def drop_given(self, variables: Collection[str]) -> None:
        """Drop the omissions of variables that the user gives."""
        self.left_out = [omission for omission in self.left_out if omission.variable not in variables]

    def place(self, name: str, words: str, line: int | None) -> None:
        """Note the origin of a field of the draft."""
        self.origins[SPEC_KEYS[name]] = DraftOrigin(words, line)

    def variables(self, given: Mapping[str, str], where: str, lines: Mapping[str, int | None]) -> dict[str, str]:
        """Return the variables that a container accepts; `where` is the file's word for them.

        A value that looks like a secret is left out: every bidder reads the task file.
        """
        kept_variables: dict[str, str] = {}
        for name, value in given.items():
            if name in GPU_VARIABLES:
                self.leave(f"{where} {name}", "the task's GPU is visible anyway", matters=False)
            elif is_loader_variable(name):
                self.leave(f"{where} {name}", "loaders act on it, and no provider sets it: set it in the program")
            elif VARIABLE_FORM.fullmatch(name) is None:
                self.leave(f"{where} {name}", "use only letters, digits and _ in its name, or set it in the program")
            elif looks_secret(name, value):
                self.leave(f"{where} {name}", HANDED_OVER.format(name), variable=name)
            else:
                kept_variables[name] = value
                self.origins[variable_key(name)] = DraftOrigin(f"{where}.{name}", lines.get(name))
        return kept_variables

    @contextmanager
    def named_beside_errors(self) -> Iterator[None]:
        """Attach the omissions so far to a ForeignFileError."""
        try:
            yield
        except ForeignFileError as error:
            error.left_out = self
            raise

    @property
    def losses(self) -> list[LeftOut]:
        """The omissions that change the program's behaviour."""
        return [omission for omission in self.left_out if omission.matters]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A carried-over file."""

    draft: ProgramDraft
    carrying: Carrying
    hints: tuple[str, ...] = ()
    """Options of `ogpu task submit`, with their values, for content that the task file cannot express."""


def refuse_other(file_bytes: bytes, *own: OtherFile) -> None:
    """Raise ForeignFileError for a known file of another kind than `own`."""
    other = other_file(file_bytes)
    if other is not None and other not in own:
        raise ForeignFileError(f"this is {other.value}", 1, code="other_kind")


def looks_secret(name: str, value: str) -> bool:
    """Return True if a variable holds a secret, by its name or by a password in an address."""
    parted = re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
    words = frozenset(re.split("[^A-Z0-9]+", parted))
    is_named = any(_SECRET_WORD.fullmatch(word) for word in words) and not words & _NO_SECRET_WORDS
    # `$NAME` refers to a value elsewhere, so it gives nothing away.
    is_value = value.lower() not in _PLAIN_VALUES and not value.startswith("$")
    return (is_named and is_value) or _PASSWORD_IN_ADDRESS.search(value) is not None


def image_for(given: str | None, named: str, *, is_archived: bool = False) -> str:
    """Return the image: the option's, or the file's if it names a digest; else ForeignFileError.

    `is_archived`: the image comes from an archive, so its id names it.
    """
    image = given or named
    if is_archived:
        return _archived_image(given)
    if not image:
        raise ForeignFileError("the file names no image. Pass --image NAME@sha256:…", code="no_image")
    if _IMAGE_ID.fullmatch(image) is not None:
        raise ForeignFileError(
            "--image: this is an image id. Add --archive FILE, written by `docker save`, or name an image of a "
            "registry by its digest, NAME@sha256:…",
            code="no_archive",
        )
    if "@" in image and "@sha256:" not in image:
        raise ForeignFileError(f"the image {shown(image)} has no SHA-256 digest. Use NAME@sha256:…", code="no_digest")
    if "@sha256:" not in image:
        # The user may paste this command, and the name comes from any file.
        name = shlex.quote(image[:IMAGE_SHOWN_MAX])
        reason = f"the image {shown(image)} is named by a tag, which can change. {DIGEST_HELP.format(name, name)}"
        raise ForeignFileError(reason, code="image_tag")
    repository, _, digest = image.partition("@")
    # Only the last part has a tag: a colon before it begins the port of a registry.
    image_folder, _, image_part = repository.rpartition("/")
    return f"{image_folder}{'/' if image_folder else ''}{image_part.partition(':')[0]}@{digest}"


def _archived_image(given: str | None) -> str:
    if given is None or _IMAGE_ID.fullmatch(given) is None:
        raise ForeignFileError(
            "--archive: name its image with --image sha256:…. `docker image inspect --format '{{.Id}}'` shows the id",
            code="no_image_id",
        )
    return given if given.startswith("sha256:") else f"sha256:{given}"


DEPTH_MAX = 14
"""The greatest depth of Akash's files: the model of a GPU stands eleven deep."""


Tree = str | None | list["Tree"] | dict[str, "Tree"]
"""A value of the file. None is an empty key, such as `~` or `null` without quotes."""


def tree_of(file_bytes: bytes, file: str, unanchored: str = UNANCHORED) -> dict[str, Tree]:
    """Return a file's keys.

    Raise TaskFileError if the file is no YAML or exceeds the limits, or ForeignFileError for other shapes.
    """
    return table_at(_plain_tree(parse(file_bytes, file, DEPTH_MAX, unanchored)), file)


def line_of(tree: Tree) -> int | None:
    """Return the line of a text, or of the first text in a list or a table."""
    match tree:
        case Scalar():
            return tree.line
        case list() | dict():
            return line_of(next(iter(tree), None))
        case _:
            return None


def table_at(tree: Tree, where: str) -> dict[str, Tree]:
    """Return a table, empty for no value. Raise ForeignFileError for another shape."""
    if tree is None or tree == "":
        return {}
    if not isinstance(tree, dict):
        raise ForeignFileError(f"{where} is not a table. Is this another kind of file?", line_of(tree), code="no_table")
    return tree


def text_at(tree: Tree, where: str) -> str:
    """Return a text, empty for no value. Raise ForeignFileError for another shape."""
    if tree is None:
        return ""
    if not isinstance(tree, str):
        raise ForeignFileError(f"{where} is not a single value", line_of(tree), code="no_value")
    return tree


def texts_at(tree: Tree, where: str) -> list[str]:
    """Return the texts of a list, or a single text as a list. Raise ForeignFileError for another shape."""
    if tree is None or tree == "":
        return []
    items = tree if isinstance(tree, list) else [tree]
    return [text_at(item, where) for item in items]


def pairs_at(tree: Tree, where: str) -> Iterator[tuple[str, str | None]]:
    """Yield names with values, from a table or a list of NAME=VALUE.

    None: the value comes from the environment.
    """
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield name, None if value is None else text_at(value, f"{where}.{name}")
        return
    for text in texts_at(tree, where):
        name, is_set, value = text.partition("=")
        yield placed_like(name, text), value if is_set else None


def placed_like(part: str, text: str) -> str:
    """Return a part of a text, with the line of the whole."""
    return Scalar(part, text.line) if isinstance(text, Scalar) else part


def only_key(table: dict[str, Tree], named: str | None, where: str, option: str) -> str:
    """Return the requested key, or the only one. Raise ForeignFileError if there is no such key."""
    if named is not None and named not in table:
        raise ForeignFileError(f"{where} has no {shown(named)}. It has {_names_text(table)}", code="unknown_name")
    if named is None and len(table) != 1:
        raise ForeignFileError(
            f"{where} has {len(table)} entries, and a task is made of one. Choose with {option}: {_names_text(table)}",
            code="several",
        )
    return named if named is not None else next(iter(table))


def _names_text(table: dict[str, Tree]) -> str:
    return ", ".join(shown(name) for name in list(table)[:20]) or "none"


def _plain_tree(node: FileNode) -> Tree:
    match node:
        case Scalar():
            # In YAML's core schema, `null` in quotes is a text.
            return None if node.is_plain and node in {"", "~", "null"} else node
        case Listing():
            return [_plain_tree(item) for item in node]
        case Table():
            return {key: _plain_tree(value) for key, value in node.items()}


MIB = 1 << 20
DIGITS_MAX = 20
_SIZE = re.compile(r"([0-9]+)(?:\.([0-9]+))? ?([kmgtKMGT]?)(i?)[bB]?", re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_CPU = re.compile(r"([0-9]{1,6})(m?)|([0-9]{0,3})\.([0-9]{1,9})", re.ASCII)
_SLURM_TIME = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?", re.ASCII)


def size_of(text: str, where: str, *, unit: str = "", is_decimal: bool = False) -> str:
    """Return whole mebibytes, rounded up; empty for 0, which means all memory or no limit.

    `unit` is the unit of a bare number. With `is_decimal`, K without an i is 1,000. Raise ForeignFileError for other
    texts.
    """
    match = _SIZE.fullmatch(text)
    is_milli = match is not None and is_decimal and match[3] == "m"  # to Kubernetes and Akash no million
    if match is None or is_milli or len(text) > DIGITS_MAX:
        raise ForeignFileError(f"{where}: {shown(text)} is not a size", line_of(text), code="invalid_size")
    whole, part, letter, binary = match.groups(default="")
    power = _POWERS[(letter or unit).lower()]
    # Kubernetes and Akash count K as 1,000 and Ki as 1,024. Docker and Slurm count both as 1,024.
    base = 1_000 if is_decimal and not binary and power else 1_024
    size = int(whole + part) * base**power
    return f"{-(-size // (MIB * 10 ** len(part)))}Mi" if size else ""


def cores_of(text: str, where: str) -> str:
    """Return cores, rounded up to thousandths: `2`, `0.5`, `.5`, `500m`; empty for 0, which means no limit."""
    match = _CPU.fullmatch(text)
    if match is None:
        raise ForeignFileError(f"{where}: {shown(text)} is not a number of cores", line_of(text), code="invalid_cores")
    number, milli, whole, part = match.groups(default="")
    if number:
        thousandths = int(number) if milli else int(number) * 1_000
    else:
        thousandths = int(whole or 0) * 1_000 + -(-int(part.ljust(9, "0")) // 1_000_000)
    return f"{thousandths // 1_000}.{thousandths % 1_000:03}".rstrip("0").rstrip(".") if thousandths else ""


def size_for_cores(size: str, cores: str) -> str:
    """Return the memory for all cores. `size` is for each core."""
    whole, _, part = cores.partition(".")
    thousandths = int(whole) * 1_000 + int(part.ljust(3, "0"))
    return f"{-(-int(size.removesuffix('Mi')) * thousandths // 1_000)}Mi"


def slurm_seconds(text: str) -> int:
    """Return the seconds of a time in the forms of sbatch's manual page, `--time`.

    The forms are `90` (minutes), `90:00`, `2:00:00`, `1-12`, `1-12:30` and `1-12:30:00`. 0 and Slurm's words for it
    mean no limit.
    """
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return 0
    match = _SLURM_TIME.fullmatch(text)
    if match is None:
        reason = f"--time: {shown(text)} is not a time. Slurm writes minutes, H:M:S or D-H:M:S"
        raise ForeignFileError(reason, code="invalid_time")
    days, *parts = match.groups()
    numbers = [int(each) for each in parts if each is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def written_time(seconds: int) -> str:
    """Return a time as task files write it."""
    try:
        return written_span(seconds * 1_000)
    except QuantityError:
        raise ForeignFileError("a time must be at least one second", code="invalid_time") from None
