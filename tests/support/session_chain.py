"""A chain with sessions: a customer that signs vouchers, and checkers that follow the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import (
    FINGERPRINT_BYTES,
    Finding,
    ItemSample,
    Samples,
    Verdict,
    finding_commitment,
)
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.sessions.records import Leg, SessionRecord, SessionState, session_id_of
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography.signatures import Scheme
from runtime.frame.pallet import Pallet
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    PALLETS,
    Keys,
    MarketChain,
    named_keys,
    per_thousand,
    salt_of,
    signed,
)

SIGNER = CUSTOMER.provider
"""The account whose key signs the customer's vouchers."""
RATE = per_thousand(OGPU // 100)
PACE, INPUT_SHARE = 10, 250_000
DEPOSIT, TERM = 2 * OGPU, 300
ALWAYS = {"Sessions.session_check_rate": 1_000_000}
"""With it, every claim is checked in a set of four or more."""
Step = Callable[[Bound], None]


@dataclass
class SessionChain(MarketChain):
    """The chain. Its only service has a pace, and each validator offers two places of its device."""

    pallets: tuple[type[Pallet], ...] = (*PALLETS, Sessions)
    places: int = 2
    mute: frozenset[bytes] = frozenset()
    """Providers that show no samples."""
    verdict: Verdict = Verdict.RIGHT
    """The finding of every checker."""

    def __post_init__(self) -> None:
        """Make block 0, and a block in which the devices offer their places."""
        super().__post_init__()
        if self.places:
            self.block(*(signed(one.provider, offers(one, self.places)) for one in self.validators))

    def config(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of block 0."""
        config = super().config()
        config["InferenceMarket"]["services"][0] |= {"pace": PACE, "input_share": INPUT_SHARE}
        return config

    @property
    def room(self) -> Sessions:
        """The pallet over the newest state."""
        return self.now()[Sessions]

    def open(self, keys: Keys = CUSTOMER, **changed: Any) -> bytes:
        """Make a block in which a customer opens a session, and return its id."""
        number = self.room.opening_counts[keys.stash]
        self.block(signed(keys.stash, opening(**changed)))
        return session_id_of(GENESIS_HASH, keys.stash, number)

    def seated(self, **changed: Any) -> bytes:
        """Open a session, and make blocks until a device is drawn for it. Return its id."""
        session_id = self.open(**changed)
        while self.session(session_id).state is SessionState.WAITING:
            self.block()
        return session_id

    def session(self, session_id: bytes) -> SessionRecord:
        """Return a session."""
        return self.room.session(session_id)

    def leg(self, session_id: bytes) -> Leg:
        """Return the newest leg of a session."""
        return self.session(session_id).legs[-1]

    def provider(self, session_id: bytes) -> Keys:
        """Return the keys of the newest leg's owner."""
        return self.keys_of(self.leg(session_id).owner)

    def is_over(self, session_id: bytes) -> bool:
        """Return whether a session has ended."""
        return session_id not in self.room.sessions

    def claim(self, session_id: bytes, tokens: int = 64, **changed: Any) -> Step:
        """Return a step: the provider of the newest leg claims its period."""
        period = self.session(session_id).period
        return signed(self.provider(session_id).provider, claims(session_id, period, tokens, **changed))

    def play(self, count: int = 1) -> None:
        """Make blocks in which checkers and providers do their duties."""
        for _ in range(count):
            self.block(*self.duties())

    def play_out(self, session_id: bytes, blocks: int = 1_500) -> None:
        """Make such blocks until a session has ended."""
        for _ in range(blocks):
            if self.is_over(session_id):
                return
            self.play()
        raise AssertionError("a session without end")

    def duties(self) -> Iterator[Step]:
        """Yield the next steps in all open claims."""
        for claim_id, claim in self.now()[ResultClaims].claims.items():
            check = None if claim is None else open_check(claim)
            if claim is None or check is None:
                continue
            keys, finding = self.keys_of(check.checker), self._finding(claim)
            if claim.stage is ClaimStage.COMMITTING:
                number, salt = len(claim.checks) - 1, salt_of(keys, claim_id)
                sealed = finding_commitment(GENESIS_HASH, claim_id, number, keys.stash, finding, salt)
                yield signed(keys.provider, ResultClaims.commit_finding(claim=claim_id, commitment=sealed))
            elif claim.stage is ClaimStage.SHOWING and claim.terms.provider not in self.mute:
                yield signed(claim.terms.provider, ResultClaims.show_samples(claim=claim_id, samples=samples(claim)))
            elif claim.stage is ClaimStage.OPENING and check.finding is None:
                salt = salt_of(keys, claim_id)
                yield signed(keys.provider, ResultClaims.open_finding(claim=claim_id, finding=finding, salt=salt))

    def decide_nothing(self, claim_id: bytes) -> None:
        """Make a block that ends the open dispute of a claim without a decision."""

        def step(bound: Bound) -> None:
            disputes, claims_room = bound[Disputes], bound[ResultClaims]
            dispute_id = next(each for each, of in claims_room.claim_of_dispute.items() if of == claim_id)
            disputes.agenda.drop(dispute_id)
            disputes.final_agenda.drop(dispute_id)
            del disputes.disputes[dispute_id]
            claims_room.rule(dispute_id, Ruling(None, is_appealed=False, voters=()))

        self.block(step)

    def _finding(self, claim: ResultClaim) -> Finding:
        return Finding(self.verdict, 0, samples(claim) if self.verdict is Verdict.RIGHT else ())


def session_chain(size: int = 3, **changed: Any) -> SessionChain:
    """Return a chain of `size` validators. Sets of fewer than four check nothing."""
    return SessionChain(named_keys(size), **changed)


def samples(claim: ResultClaim) -> Samples:
    """Return the samples of a claim's points, as if all items had the same weight."""
    mean, last = claim.terms.weight // claim.terms.items, claim.terms.items - 1
    return tuple(ItemSample(min(point // mean, last), mean, bytes(FINGERPRINT_BYTES)) for point in claim.points)


def offers(keys: Keys, places: int) -> Any:
    """Return the call by which a device offers places."""
    return Sessions.offer_places(device=keys.device, service=0, places=places)


def opening(**changed: Any) -> Any:
    """Return the call that opens a session."""
    terms = {
        "service": 0, "deposit": DEPOSIT, "term": TERM, "rate": RATE, "signer": SIGNER, "customer_key": b"k" * 32,
    }  # fmt: skip
    return Sessions.open(**{**terms, **changed})


def totals(tokens: int = 64, requests: int = 1, tokens_in: int = 0) -> Totals:
    """Return the totals of a period."""
    return Totals(requests, tokens_in, tokens, b"t" * 32)


def signature_of(voucher: Voucher, keys: Keys = CUSTOMER, genesis: bytes = GENESIS_HASH) -> MultiSignature:
    """Return the signature of a provider key of this name over a voucher."""
    return MultiSignature(Scheme.ED25519, keys.sign("provider", voucher_payload(genesis, voucher)))


def claims(session_id: bytes, period: int, tokens: int = 64, *, is_last: bool = False, **changed: Any) -> Any:
    """Return the call that claims a period by a right voucher."""
    voucher = Voucher(session_id, period, totals(tokens, **changed))
    return Sessions.claim(session=session_id, voucher=voucher, signature=signature_of(voucher), is_last=is_last)


def proves(session_id: bytes) -> Any:
    """Return the call by which the spare sends its proof."""
    return Sessions.prove_spare(session=session_id, top=b"t" * 32)


def secured(chain: SessionChain, keys: Keys) -> int:
    """Return the part of a device's bond that is collateral."""
    record = chain.now()[Devices].devices[keys.device]
    return 0 if record is None else record.secured
