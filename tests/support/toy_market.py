"""A third market: sums for any customer by one provider, the smallest possible work source."""

from dataclasses import dataclass

from gpu_tasks.market.attestations.attestations import ATTACH_WEIGHT
from gpu_tasks.market.attestations.kinds import BAD_SIGNATURE, AnyAttestation
from gpu_tasks.market.attestations.work_source import OpenWork
from runtime.cryptography.signatures import verify_ed25519
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U32, codec, struct, variant
from runtime.encoding.types import AccountId, Hash, Signature, Weight
from runtime.frame.pallet import Pallet, Signed, StorageMap, StorageValue, call, event
from runtime.frame.weights import work
from runtime.pallets.system import System
from simulation.chains.market_chain import GENESIS_HASH, Keys


@struct
class Sum:
    """The total of a job, as its provider states it."""

    job: Hash
    provider_key: Hash
    total: U32


@variant(7, name="Sum")
class SignedSum(AnyAttestation):
    statement: Sum
    signature: Signature

    @property
    def subject(self) -> bytes:
        return self.statement.job

    @property
    def step(self) -> tuple[int, int, int]:
        return 0, 0, 0


@event
class Summed:
    """A job is done."""

    job: Hash
    total: U32


class ToyMarket(Pallet, index=60):
    system: System

    jobs: StorageMap[Hash, AccountId | None] = StorageMap(doc="The key that does an open job.")
    open_jobs: StorageValue[U32] = StorageValue(default=0, doc="Open jobs.")

    events = (Summed,)
    variants = (SignedSum,)
    open_work = OpenWork(open_jobs, "ogpu_open_sums", "Sums in work")

    @call(index=0, weight=work(writes=2))
    def ask(self, origin: Signed, job: Hash, provider_key: AccountId) -> None:
        """Ask for a sum."""
        del origin
        self.jobs[job] = provider_key
        self.open_jobs.set(self.open_jobs.get() + 1)

    def attestation_problem(self, signed: SignedSum) -> str:
        return self.lasting_problem(signed)

    def lasting_problem(self, signed: SignedSum) -> str:
        if self.jobs[signed.subject] != signed.statement.provider_key:
            return "not the job's key"
        payload = _payload(self.system.block_hash[0], signed.statement)
        return "" if verify_ed25519(signed.statement.provider_key, payload, signed.signature) else BAD_SIGNATURE

    def is_overtaken(self, signed: SignedSum) -> bool:
        return signed.subject not in self.jobs

    def attaching_weight(self, signed: SignedSum) -> Weight:
        del signed
        return ATTACH_WEIGHT

    def attach_work(self, signed: SignedSum) -> None:
        del self.jobs[signed.subject]
        self.open_jobs.set(self.open_jobs.get() - 1)
        self.emit(Summed(signed.subject, signed.statement.total))


@dataclass(frozen=True)
class Summer:
    """A provider of the toy market."""

    keys: Keys

    def states(self, job: bytes, total: int) -> SignedSum:
        statement = Sum(job, self.keys.provider, total)
        return SignedSum(statement, self.keys.sign("provider", _payload(GENESIS_HASH, statement)))


def _payload(genesis: bytes, statement: Sum) -> bytes:
    return domain(b"sum", genesis, codec(Sum).encode(statement))
