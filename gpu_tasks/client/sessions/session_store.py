"""A session on the customer's disk: its legs, the exchanges of the present period, vouchers, and the turns of a chat.

A turn is a question with its whole answer. After a break it consists of several exchanges: the question's request, and
requests for the rest of the answer.

Invariants:

* A voucher, the exchanges up to it and the tokens that it pays are one commit. The caller sends the voucher after it.
* One process at a time has a session open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from durable.database import Database, Schema, checked_table
from gpu_tasks.market.sessions.vouchers import SECRET_BYTES, VOUCHER, Voucher
from gpu_tasks.sessions.transcript import Exchange, packed_tokens, unpacked_tokens
from wallet.errors import WalletError

SUFFIX = ".db"
_SCHEMA = Schema(
    "session",
    1,
    (
        checked_table(
            "legs", ["number INTEGER NOT NULL", "first_period INTEGER NOT NULL", "secret BLOB NOT NULL"],
            "PRIMARY KEY (number)",
        ),
        # The exchanges of the newest period, whose totals its vouchers sign.
        checked_table(
            "exchanges", ["place INTEGER NOT NULL", "request BLOB NOT NULL", "tokens BLOB NOT NULL"],
            "PRIMARY KEY (place)",
        ),
        checked_table(
            "vouchers",
            ["leg INTEGER NOT NULL", "period INTEGER NOT NULL", "voucher BLOB NOT NULL", "signature BLOB NOT NULL"],
            "PRIMARY KEY (leg, period)",
        ),
        checked_table(
            "turns",
            [
                "place INTEGER NOT NULL", "question TEXT NOT NULL", "request BLOB NOT NULL", "tokens BLOB NOT NULL",
                "is_over INTEGER NOT NULL",
            ],
            "PRIMARY KEY (place)",
        ),
        checked_table("facts", ["name TEXT NOT NULL", "value TEXT NOT NULL"], "PRIMARY KEY (name)"),
    ),
    "Move it away. The session can then be closed, and not continued",
)  # fmt: skip


class SessionFileError(WalletError):
    """The file of a session cannot be used."""


@dataclass(frozen=True, slots=True)
class SessionLeg:
    """A part of a session that one provider serves."""

    number: int
    first_period: int
    secret: bytes
    """It salts the leaves of the leg's items."""


@dataclass(slots=True)
class ChatTurn:
    """A question and its answer so far."""

    question: str
    request: bytes
    tokens: list[int] = field(default_factory=list)
    is_over: bool = False


class SessionFile:
    """The file of one session."""

    def __init__(self, folder: Path, session: bytes, *, is_reader: bool = False) -> None:
        """Open the file of a session, or create it. A reader needs an existing file, and shares it with its owner.

        Raise SessionFileError if another program has it or it is damaged, and for a reader FileNotFoundError.
        """
        self.session = session
        self._database = Database(
            session_file(folder, session), _SCHEMA, SessionFileError, is_sole=not is_reader, is_reader=is_reader
        )
        self._stored: list[tuple[bytes, int]] = []
        """The requests and the numbers of tokens of the exchanges in the file."""
        self.turns = [
            ChatTurn(question, request, unpacked_tokens(tokens), bool(is_over))
            for question, request, tokens, is_over in self._database.rows(
                "SELECT question, request, tokens, is_over FROM turns ORDER BY place"
            )
        ]

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file, and leave the session to another process."""
        self.close()

    def close(self) -> None:
        """Close the file, and leave the session to another process."""
        self._database.close()

    # ---------------------------------------------------------------------------------------------- legs and vouchers

    def leg(self) -> SessionLeg | None:
        """Return the newest leg, or None before the first entry."""
        rows = self._database.rows("SELECT number, first_period, secret FROM legs ORDER BY number DESC LIMIT 1")
        return SessionLeg(*rows[0]) if rows else None

    def begin_leg(self, leg: SessionLeg) -> None:
        """Keep a leg with its secret, before the provider gets the secret. Its period has no exchanges."""
        assert len(leg.secret) == SECRET_BYTES
        with self._database.transaction():
            self._database.execute("DELETE FROM exchanges")
            self._database.execute("INSERT INTO legs VALUES (?, ?, ?)", leg.number, leg.first_period, leg.secret)
        self._stored = []

    def begin_period(self) -> None:
        """Forget the exchanges of the former period. Its provider has claimed it, or has no voucher of it."""
        self._database.execute("DELETE FROM exchanges")
        self._stored = []

    def exchanges(self) -> list[Exchange]:
        """Return the exchanges of the newest period up to its newest voucher."""
        rows = self._database.rows("SELECT request, tokens FROM exchanges ORDER BY place")
        found = [Exchange(request, unpacked_tokens(tokens), is_over=True) for request, tokens in rows]
        self._stored = [(exchange.request, len(exchange.tokens)) for exchange in found]
        return found

    def newest_period(self, leg: int) -> int | None:
        """Return the newest period of a leg with a voucher."""
        [(period,)] = self._database.rows("SELECT max(period) FROM vouchers WHERE leg = ?", leg)
        return None if period is None else int(period)

    def keep(self, exchanges: Sequence[Exchange], voucher: Voucher, signature: bytes) -> None:
        """Keep a voucher before it is sent, with the exchanges that it pays and the last turn."""
        with self._database.transaction():
            self._keep_exchanges(exchanges)
            self._database.execute(
                "INSERT OR REPLACE INTO vouchers SELECT max(number), ?, ?, ? FROM legs",
                voucher.period, VOUCHER.encode(voucher), signature,
            )  # fmt: skip
            self._keep_turn()
        self._stored = [(exchange.request, len(exchange.tokens)) for exchange in exchanges]

    def _keep_exchanges(self, exchanges: Sequence[Exchange]) -> None:
        """Write the exchanges that changed: the last one, and after a break those behind it."""
        if len(self._stored) > len(exchanges):
            self._database.execute("DELETE FROM exchanges WHERE place >= ?", len(exchanges))
        for place, exchange in enumerate(exchanges):
            if self._stored[place : place + 1] != [(exchange.request, len(exchange.tokens))]:
                self._database.execute(
                    "INSERT OR REPLACE INTO exchanges VALUES (?, ?, ?)",
                    place, exchange.request, packed_tokens(exchange.tokens),
                )  # fmt: skip

    def vouchers(self) -> list[tuple[Voucher, bytes]]:
        """Return the newest voucher of each leg and period with its signature."""
        rows = self._database.rows("SELECT voucher, signature FROM vouchers ORDER BY leg, period")
        return [(VOUCHER.decode(encoded), signature) for encoded, signature in rows]

    # ------------------------------------------------------------------------------------------------ turns and facts

    def begin_turn(self, question: str, request: bytes) -> ChatTurn:
        """Keep a question. Its answer is in `ChatTurn.tokens`, which the next `keep` or `keep_turn` writes."""
        assert not self.turns or self.turns[-1].is_over, "one question at a time"
        turn = ChatTurn(question, request)
        self._database.execute("INSERT INTO turns VALUES (?, ?, ?, ?, 0)", len(self.turns), question, request, b"")
        self.turns.append(turn)
        return turn

    def keep_turn(self) -> None:
        """Write the last turn."""
        with self._database.transaction():
            self._keep_turn()

    def drop_turn(self) -> None:
        """Forget the last turn, which has no answer."""
        self._database.execute("DELETE FROM turns WHERE place = ?", len(self.turns) - 1)
        self.turns.pop()

    def _keep_turn(self) -> None:
        if self.turns:
            turn = self.turns[-1]
            self._database.execute(
                "UPDATE turns SET tokens = ?, is_over = ? WHERE place = ?",
                packed_tokens(turn.tokens), turn.is_over, len(self.turns) - 1,
            )  # fmt: skip

    def fact(self, name: str) -> str | None:
        """Return a fact of the chat, such as its system text."""
        rows = self._database.rows("SELECT value FROM facts WHERE name = ?", name)
        return rows[0][0] if rows else None

    def keep_fact(self, name: str, value: str) -> None:
        """Keep a fact of the chat."""
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", name, value)


def session_file(folder: Path, session: bytes) -> Path:
    """Return the file of a session. `folder` is the folder of one chain."""
    return folder / f"{session.hex()}{SUFFIX}"
