"""The behaviours of a coalition around a claim. Every account outside of it is honest, except a lone liar."""

from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.claims.findings import Verdict
from simulation.chains.claim_chain import Checks

FALSE, FRAMING = b"false", b"framing"
"""The labels of samples of a false item, and of false samples of a right item."""


class Party(Enum):
    """The deviating party. It is in the coalition, with its friends among the validators."""

    PROVIDER = "provider"
    CHECKER = "checker"
    VOTER = "voter"
    DISPUTER = "disputer"


class Voting(Enum):
    """The votes of a coalition's members."""

    HONEST = "as honest validators"
    FRIENDLY = "for their friends: provider, checker or disputer"
    OTHER_ANSWER = "the right verdict with a false answer, all the same one"
    GUESS = "the right verdict with a guessed answer, each another one"
    UNSEEN = "unavailable, without an attempt to fetch"
    AWAY = "not at all"


@dataclass(frozen=True)
class Habit:
    """One behaviour of a coalition."""

    name: str
    says: str
    party: Party
    is_false: bool = False
    """True if an item is false: the provider of the coalition lies, or a lone liar outside of it."""
    items: int = 1
    false_every: int = 1
    """One in so many items is false, evenly spaced: the spacing that is found least often."""
    shown: bytes | None = b""
    """The label of the samples that the provider shows to strangers, or None for silence."""
    serves_checkers: bool = True
    """False if strangers that check cannot fetch the item."""
    served_voters: int = 100
    """The percentage of strangers among the voters that can fetch the item."""
    check: Checks | None = None
    """The behaviour of the first checker. None for an honest one, or for a friend of the provider."""
    computes: bool = False
    """True if that checker computes."""
    voting: Voting = Voting.HONEST
    disputes: bool = False
    """True if an account outside of the active set disputes the item once a stranger is drawn to check it."""
    exempt: str = ""
    """The reason of a gain that the bar allows."""


def _provider(name: str, says: str, **changed: object) -> Habit:
    return Habit(name, says, Party.PROVIDER, voting=Voting.FRIENDLY, **changed)  # type: ignore[arg-type]


def _checker(name: str, says: str, check: Checks, **changed: object) -> Habit:
    return Habit(name, says, Party.CHECKER, check=check, voting=Voting.FRIENDLY, **changed)  # type: ignore[arg-type]


def _voter(name: str, says: str, voting: Voting) -> Habit:
    return Habit(name, says, Party.VOTER, is_false=True, shown=FALSE, voting=voting)


def honest(habit: Habit) -> Habit:
    """Return the honest behaviour of a habit's coalition, around the same lone liar if there is one."""
    if habit.is_false and habit.party is not Party.PROVIDER:
        return Habit("honest", "", habit.party, is_false=True, shown=FALSE)
    return Habit("honest", "", habit.party, items=habit.items)


HABITS = (
    Habit("honest", "acts as all others do", Party.PROVIDER),
    _provider("lies", "the item is false; its friends confirm it", is_false=True, shown=FALSE),
    _provider(
        "serves friends", "and only its friends can fetch it",
        is_false=True, shown=FALSE, serves_checkers=False, served_voters=0,
    ),
    _provider(
        "serves voters", "and only friends and voters can fetch it", is_false=True, shown=FALSE, serves_checkers=False
    ),
    _provider(
        "serves half", "and only friends and half of the voters can fetch it",
        is_false=True, shown=FALSE, serves_checkers=False, served_voters=50,
    ),
    _provider(
        "disputes itself", "and a friend disputes the false item before a stranger finds it",
        is_false=True, shown=FALSE, disputes=True,
    ),
    _provider("lies in a tenth", "four of 40 items are false", is_false=True, items=40, false_every=10),
    _provider("lies in one", "one of 40 items is false", is_false=True, items=40, false_every=40),
    _provider("frames", "the item is right; it shows false fingerprints to strangers", shown=FRAMING),
    _provider("shows nothing", "the item is right; it is silent in place of showing", shown=None),
    _provider("withholds", "the item is right; only friends can fetch it", serves_checkers=False, served_voters=0),
    _provider("withholds half", "and only friends and half of the voters", serves_checkers=False, served_voters=50),
    _provider("spites", "and only friends and voters can fetch it", serves_checkers=False),
    _checker("guesses", "invents a fingerprint, and concedes", Checks(label=b"guess", is_conceded=True)),
    _checker("insists", "invents a fingerprint, and does not concede", Checks(label=b"guess")),
    _checker("copies", "commits to samples at another seed, and concedes", Checks(label=b"seed", is_conceded=True)),
    _checker("is silent", "does not commit", Checks(None)),
    _checker("does not open", "commits, and does not open", Checks(is_opened=False)),
    _checker("says wrong", "calls a right item wrong, and concedes", Checks(Verdict.WRONG, is_conceded=True)),
    _checker("insists on wrong", "and does not concede; its friends vote so", Checks(Verdict.WRONG)),
    _checker("says unavailable", "about an item that everybody can fetch", Checks(Verdict.UNAVAILABLE)),
    _checker("buys true", "gets the true fingerprint from the provider", Checks(), exempt="computing saved"),
    _checker("buys false", "gets a false one, and concedes", Checks(label=FRAMING, is_conceded=True)),
    _checker("confirms", "buys the fingerprint of a lone liar's false item", Checks(label=FALSE), is_false=True,
             shown=FALSE),
    _voter("dissents", "votes for a lone liar", Voting.FRIENDLY),
    _voter("other answer", "all members give one false answer with the right verdict", Voting.OTHER_ANSWER),
    _voter("votes a guess", "each member invents an answer", Voting.GUESS),
    _voter("votes unseen", "votes `unavailable` without an attempt to fetch", Voting.UNSEEN),
    _voter("stays away", "does not vote", Voting.AWAY),
    Habit(
        "disputes falsely", "disputes a right item; its friends vote `wrong`",
        Party.DISPUTER, voting=Voting.FRIENDLY, disputes=True,
    ),
)  # fmt: skip
