"""Problems of a user's text, each with its place, its reason and its remedy.

Invariant: an error lists all problems at once, up to a limit, in the order of the lines. It never repeats the text at
length.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wallet.errors import WalletError
from wallet.suggestions import suggestion

PROBLEMS_SHOWN_MAX = 8
SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its line, its key, the reason and the remedy."""

    line: int
    where: str
    """The keys that lead to it, such as `spec.market.maxPrice`. Empty for the file as a whole."""
    text: str
    code: str = "invalid_value"
    """The cause, for programs and tests. The text may change."""


class TaskFileError(WalletError):
    """The task file cannot be used."""

    def __init__(self, name: str, problems: Sequence[Problem]) -> None:
        """Take the user's name of the file, and its problems."""
        self.file, self.problems = name, tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(self._message_lines()))

    def _message_lines(self) -> Iterable[str]:
        for problem in self.problems[:PROBLEMS_SHOWN_MAX]:
            place = f"{problem.where}: " if problem.where else ""
            yield f"{self.file}:{problem.line}: {place}{problem.text}"
        if len(self.problems) > PROBLEMS_SHOWN_MAX:
            yield f"{self.file}: and {len(self.problems) - PROBLEMS_SHOWN_MAX} more"


def unknown(kind: str, name: str, known: Sequence[str]) -> str:
    """Return a sentence for an unknown name, with a similar name, if any, and all valid ones."""
    return f"there is no {kind} {shown(name)}; {choices(name, known)}"


def choices(name: str, known: Sequence[str]) -> str:
    """Return a similar name, if any, and all valid ones."""
    similar = suggestion(name, known)
    advice = f"did you mean {similar}? " if similar else ""
    return f"{advice}there are: {', '.join(known)}"


def shown(text: str) -> str:
    """Return a text of a file for a message: quoted, and cut if it is long."""
    return repr(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "…")
