"""What a test judge does with its seat: commits and opens, each when it may."""

from collections.abc import Iterator

from gpu_tasks.market import rounds
from gpu_tasks.market.courts.cases import sitting
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable, opinion_commitment
from runtime.cryptography.hashing import blake2_256
from scripts.chains.market_chain import GENESIS_HASH, Keys, Step, salt_of, signed


def opens(keys: Keys, case_id: bytes, opinion: Answered | Unanswerable) -> Statement:
    """What a test judge says; its probe is made up, since nothing is computed here."""
    return Statement(opinion, blake2_256(b"probe" + keys.stash + case_id))


def commit_step(keys: Keys, case_id: bytes, bench: int, said: Statement) -> Step:
    """A step: a judge commits to a statement."""
    commitment = opinion_commitment(GENESIS_HASH, case_id, bench, keys.stash, said, salt_of(keys, case_id))
    return signed(keys.provider, Courts.commit_opinion(case_id=case_id, commitment=commitment))


def open_step(keys: Keys, case_id: bytes, said: Statement) -> Step:
    """A step: a judge opens the statement that it committed to."""
    return signed(keys.provider, Courts.open_opinion(case_id=case_id, statement=said, salt=salt_of(keys, case_id)))


def judge_commit(keys: Keys, case_id: bytes, bench: int, opinion: Answered | Unanswerable) -> Step:
    """A step: a judge commits to an opinion."""
    return commit_step(keys, case_id, bench, opens(keys, case_id, opinion))


def judge_open(keys: Keys, case_id: bytes, opinion: Answered | Unanswerable) -> Step:
    """A step: a judge opens its opinion."""
    return open_step(keys, case_id, opens(keys, case_id, opinion))


def due_of(
    courts: Courts, case_id: bytes, keys: Keys, said: Statement, *, height: int, final: int, is_opened: bool = True
) -> Iterator[Step]:
    """What a judge who says this does in the block of a height, which refers to that final height: at most one step."""
    case, seat = courts.cases[case_id], courts.seats[keys.stash, case_id]
    if case is None or case.round is None or seat is None or seat.bench != sitting(case).kind:
        return
    windows = courts.windows(case)
    now = rounds.advanced(case.round, windows, height, final)
    if seat.commitment is None and rounds.can_commit(now, windows, height):
        yield commit_step(keys, case_id, seat.bench, said)
    elif seat.commitment and seat.statement is None and is_opened and rounds.can_reveal(now, windows, height):
        yield open_step(keys, case_id, said)
