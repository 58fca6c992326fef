"""What is wrong with something that a person wrote: every problem with its place, its reason and what to do.

Always: all that is wrong is said at once, up to a limit, in the order of the lines; nothing of what was written is
repeated at length.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from wallet.errors import WalletError

PROBLEMS_SHOWN_MAX = 8
SHOWN_MAX = 40
NEAR = 0.6
"""How alike a name must be to be offered instead: difflib's own measure and default."""
SHORT = 3
"""A name of so few letters is none that is misspelt: gpu is not cpu."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to set right: in which line, at which key, what it is and what helps."""

    line: int
    where: str
    """The keys that lead to it, such as `spec.market.maxPrice`; empty for the file as a whole."""
    text: str


class TaskFileError(WalletError):
    """A task file that cannot be used."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        """`file` is how the user named it."""
        self.file, self.problems = file, tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(self._lines()))

    def _lines(self) -> Iterable[str]:
        for problem in self.problems[:PROBLEMS_SHOWN_MAX]:
            where = f"{problem.where}: " if problem.where else ""
            yield f"{self.file}:{problem.line}: {where}{problem.text}"
        if len(self.problems) > PROBLEMS_SHOWN_MAX:
            yield f"{self.file}: and {len(self.problems) - PROBLEMS_SHOWN_MAX} more"


def unknown(kind: str, name: str, names: Sequence[str]) -> str:
    """A sentence for a name that is none: which was meant, perhaps, and which there are."""
    plain = {known.lower(): known for known in names}
    near = get_close_matches(name[:SHOWN_MAX].lower(), plain, n=1, cutoff=NEAR) if len(name) > SHORT else ()
    meant = f"did you mean {plain[near[0]]}? " if near else ""
    return f"there is no {kind} {shown(name)}; {meant}there are: {', '.join(names)}"


def shown(text: str) -> str:
    """A text of a file as a message repeats it: quoted, and cut where it is long."""
    return repr(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…")
