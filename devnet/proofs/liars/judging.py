"""The requirements on a program that hears a lie, and the failed ones. Pure.

The program may fail, wait, or show wrong data. It must not move money without a command, act twice, die, hang, print
terminal commands, or overlook a lie that a proof refutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from devnet.proofs.liars.catalogue import LIES_BY_NAME, PROOF_WORDS
from devnet.proofs.liars.lie import Noticed, Program
from devnet.proofs.liars.money import AccountMoves
from devnet.proofs.liars.people import CommandOutput

EXIT_STATUSES = (0, 1, 2)
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
    under_lie: list[CommandOutput]
    repeats: list[CommandOutput] = field(default_factory=list)  # the same command again, at an honest node
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
        return "\n".join(output.text for output in self.under_lie)

    @property
    def verdict(self) -> str:
        """The result in one word."""
        if self.misses:
            return "missed"
        if self.is_named:
            return "named"
        return "harmless" if LIES_BY_NAME[self.lie].noticed is Noticed.HARMLESS else "unnoticed"


def judge_output(hearing: Hearing) -> None:
    """Judge the requirements on a program's output."""
    told_lie = LIES_BY_NAME[hearing.lie]
    telling_words = (*told_lie.words, *PROOF_WORDS) if told_lie.noticed is not Noticed.HARMLESS else PROOF_WORDS
    hearing.is_named = any(word in hearing.text for word in telling_words)
    if not hearing.told:
        hearing.misses.append("the node never lied: nothing was tested")
    if told_lie.noticed is Noticed.NAMED and not hearing.is_named:
        hearing.misses.append(f"not named: {shown_text(hearing.text)}")
    for output in (*hearing.under_lie, *hearing.repeats):
        if TRACEBACK in output.text:
            hearing.misses.append(f"dead: {shown_text(output.text)}")
        if output.status is None:
            hearing.misses.append(f"hung for {output.seconds} s")
        elif output.status not in EXIT_STATUSES:
            hearing.misses.append(f"dead, with status {output.status}: {shown_text(output.text)}")
        if any(shell_code in output.text for shell_code in SHELL_CODES):
            hearing.misses.append(f"prints a command for the terminal: {shown_text(output.text)}")


def judge_actions(
    hearing: Hearing, moves: AccountMoves, expected_transfers: Sequence[tuple[bytes, int]], unit_count: int
) -> None:
    """Judge the requirements on the chain: each commanded action once, and no other.

    `expected_transfers` and `units` are those of the command.
    """
    told_lie = LIES_BY_NAME[hearing.lie]
    is_customer = hearing.program is Program.CUSTOMER
    hearing.wanted = unit_count if is_customer else len(expected_transfers)
    hearing.done = len(moves.units) if is_customer else len(moves.transfers)
    # Each amount is unique, so a transfer that is sent twice remains as one too many.
    remaining_transfers = list(expected_transfers)
    for transfer in moves.transfers:
        if transfer in remaining_transfers:
            remaining_transfers.remove(transfer)
        else:
            hearing.misses.append(f"moved: {transfer[1]} grains to 0x{transfer[0].hex()} without a command")
    if len(moves.units) > unit_count:
        hearing.misses.append(f"posted twice: {len(moves.units)} units instead of {unit_count}")
    # A program that sends again with a new nonce acts twice, once the first extrinsic is included too.
    if moves.extrinsics > 1:
        hearing.misses.append(f"sent {moves.extrinsics} extrinsics instead of 1")
    if hearing.done < hearing.wanted and not (hearing.is_deceived and told_lie.noticed is Noticed.UNPROVABLE):
        last = (hearing.repeats or hearing.under_lie)[-1]
        hearing.misses.append(f"never done, although the node answered honestly again: {shown_text(last.text)}")
    if told_lie.noticed is Noticed.HARMLESS and any(output.status != 0 for output in hearing.under_lie):
        hearing.misses.append(f"failed under a lie that cannot matter: {shown_text(hearing.text)}")


def judge_money(hearing: Hearing, moves: AccountMoves, cost_of_units: int) -> None:
    """Judge that commands and fees explain every lost grain."""
    explained_grains = sum(transferred_grains for _, transferred_grains in moves.transfers) + moves.fees + cost_of_units
    # To the grain: any difference is money that moved without a command.
    if moves.lost_grains != explained_grains:
        hearing.misses.append(
            f"moved: {moves.lost_grains} grains are gone, commands and fees come to {explained_grains}"
        )


def shown_text(output: str) -> str:
    """Return the end of a text on one line."""
    return " ".join("".join(character if character.isprintable() else " " for character in output).split())[
        -TEXT_SHOWN:
    ]
