"""The requirements on a program that hears a lie, and the failed ones. Pure.

The program may fail, wait, or show wrong data. It must not move money without a command, act twice, die, hang, print
terminal commands, or overlook a lie that a proof refutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from devnet.proofs.liars.catalogue import LIES, PROOF_WORDS
from devnet.proofs.liars.lie import Noticed, Program
from devnet.proofs.liars.money import Moves
from devnet.proofs.liars.people import Said

STATUSES = (0, 1, 2)
SHELL_CODES = ("\x1b", "\x07", "\r\x1b")
TRACEBACK = "Traceback (most recent call last)"
TEXT_SHOWN = 300


@dataclass(slots=True)
class Hearing:
    """One program under one lie: its output, and its actions on the chain."""

    lie: str
    program: Program
    who: str
    told: int
    under_lie: list[Said]
    repeats: list[Said] = field(default_factory=list)  # the same command again, at an honest node
    wanted: int = 0  # transfers, or units, of the command
    done: int = 0  # those on the chain
    is_named: bool = False
    misses: list[str] = field(default_factory=list)

    @property
    def is_deceived(self) -> bool:
        """True if the program reported success for something that the chain does not have."""
        return bool(self.wanted) and self.under_lie[-1].status == 0 and self.done < self.wanted

    @property
    def text(self) -> str:
        """All output of the program during the lie."""
        return "\n".join(said.text for said in self.under_lie)

    @property
    def verdict(self) -> str:
        """The result in one word."""
        if self.misses:
            return "missed"
        if self.is_named:
            return "named"
        return "harmless" if LIES[self.lie].noticed is Noticed.HARMLESS else "unnoticed"


def judge_telling(hearing: Hearing) -> None:
    """Judge the requirements on a program's output."""
    lie = LIES[hearing.lie]
    arguments = (*lie.words, *PROOF_WORDS) if lie.noticed is not Noticed.HARMLESS else PROOF_WORDS
    hearing.is_named = any(word in hearing.text for word in arguments)
    if not hearing.told:
        hearing.misses.append("the lie was never told: nothing was tested")
    if lie.noticed is Noticed.NAMED and not hearing.is_named:
        hearing.misses.append(f"not named: {shown(hearing.text)}")
    for said in (*hearing.under_lie, *hearing.repeats):
        if TRACEBACK in said.text:
            hearing.misses.append(f"dead: {shown(said.text)}")
        if said.status is None:
            hearing.misses.append(f"hung for {said.seconds} s")
        elif said.status not in STATUSES:
            hearing.misses.append(f"dead, with status {said.status}: {shown(said.text)}")
        if any(code in said.text for code in SHELL_CODES):
            hearing.misses.append(f"prints what a terminal takes for a command: {shown(said.text)}")


def judge_doing(hearing: Hearing, moves: Moves, expected_transfers: Sequence[tuple[bytes, int]], units: int) -> None:
    """Judge the requirements on the chain: each commanded action once, and no other.

    `expected_transfers` and `units` are those of the command.
    """
    lie = LIES[hearing.lie]
    is_customer = hearing.program is Program.CUSTOMER
    hearing.wanted = units if is_customer else len(expected_transfers)
    hearing.done = len(moves.units) if is_customer else len(moves.transfers)
    left = list(expected_transfers)
    for transfer in moves.transfers:
        if transfer in left:
            left.remove(transfer)
        else:
            hearing.misses.append(f"moved: {transfer[1]} grains to 0x{transfer[0].hex()} that no command said")
    if len(moves.units) > units:
        hearing.misses.append(f"posted twice: {len(moves.units)} units instead of {units}")
    if moves.extrinsics > 1:
        hearing.misses.append(f"sent {moves.extrinsics} extrinsics instead of 1")
    if hearing.done < hearing.wanted and not (hearing.is_deceived and lie.noticed is Noticed.UNPROVABLE):
        last = (hearing.repeats or hearing.under_lie)[-1]
        hearing.misses.append(f"never done, though told again honestly: {shown(last.text)}")
    if lie.noticed is Noticed.HARMLESS and any(said.status != 0 for said in hearing.under_lie):
        hearing.misses.append(f"failed under a lie that cannot matter: {shown(hearing.text)}")


def judge_money(hearing: Hearing, moves: Moves, cost_of_units: int) -> None:
    """Judge that commands and fees explain every lost grain."""
    explained = sum(amount for _, amount in moves.transfers) + moves.fees + cost_of_units
    if moves.gone != explained:
        hearing.misses.append(f"moved: {moves.gone} grains are gone, commands and fees come to {explained}")


def shown(text: str) -> str:
    """Return the end of a text on one line."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[-TEXT_SHOWN:]
