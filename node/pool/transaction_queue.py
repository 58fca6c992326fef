"""Extrinsics that wait for a block, in order.

Invariant:
* one extrinsic for each (sender, nonce); of one sender those without a gap from the account's nonce on are *ready*,
  the rest *future*;
* count, bytes, and count per sender stay within the limits below, whoever sends what: the lowest priority leaves
  first, and of its sender the highest nonce, so that no gap opens;
* who lets one of its extrinsics fail or expire keeps no more of those behind it than may wait for a nonce at all: else
  extrinsics that can never be paid would fill the pool, at the price of the one before them;
* the fees of a sender's extrinsics together, tips included, are no more than it can spend: room is never held by what
  its holder could not pay for;
* when too many wait for a nonce, one leaves of the sender that has the most of them, for one that pays more or whose
  sender has fewer: no number of extrinsics of a few accounts keeps an honest one out;
* a nonce is replaced a few times: each replacement costs every node its work and its sender only the last fee;
* what was refused as invalid is banned for a while and costs one look-up when it comes again.

Pure: the caller checks signature and validity first, and says what the accounts' nonces are, which height and what
time it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping

from node.pool.bans import BanList
from node.pool.pooled import FUTURE, READY, Admitted, PooledExtrinsic, Sender, Settled
from node.pool.refusal import ALREADY_KNOWN, INVALID, NO_ROOM, PRIORITY_TOO_LOW, PoolRefusalError

READY_LIMIT = 20_000
FUTURE_LIMIT = 2_048
BYTES_LIMIT = 20 * 1024 * 1024
PER_SENDER_LIMIT = 1_024
FUTURE_PER_SENDER_LIMIT = 64
REPLACEMENTS_MAX = 8  # of one nonce of one sender
_ALONE = {status: Admitted(status) for status in (READY, FUTURE)}  # nothing else moved: mostly so
UNBOUNDED = 1 << 128  # more than any account can spend
REPLACEMENT_PERCENT = 10  # how much more than the old priority a replacement must offer


# When the extrinsics in the pool expire: found by height, so that a new block costs nothing for those that stay.
#
# Always: what was added and not discarded since is found once, by the first height above its last one.
class Expiry:
    """Extrinsics by the last height that they may be in."""

    def __init__(self) -> None:
        self._by_height: dict[int, dict[bytes, PooledExtrinsic]] = {}

    def add(self, candidate: PooledExtrinsic) -> None:
        """It is in the pool."""
        self._by_height.setdefault(candidate.expires_at, {})[candidate.extrinsic_hash] = candidate

    def discard(self, candidate: PooledExtrinsic) -> None:
        """It left."""
        same = self._by_height[candidate.expires_at]
        del same[candidate.extrinsic_hash]
        if not same:
            del self._by_height[candidate.expires_at]

    def below(self, height: int) -> list[PooledExtrinsic]:
        """Those that no block from `height` on may hold, the earliest first."""
        past = sorted(last for last in self._by_height if last < height)
        return [candidate for last in past for candidate in self._by_height[last].values()]


class TransactionQueue:
    """What is in the pool of one node."""

    def __init__(self) -> None:
        self._senders: dict[bytes, Sender] = {}
        self._by_hash: dict[bytes, PooledExtrinsic] = {}
        self._expiry = Expiry()
        # A heap of (priority, -arrival, hash); it may hold some that left.
        self._cheapest: list[tuple[int, int, bytes]] = []
        self._arrivals = 0
        self._banned = BanList()
        self._bytes = 0
        self._future = 0
        self._waiters: dict[bytes, None] = {}  # accounts of which something waited for a nonce; some may be done

    def __len__(self) -> int:
        return len(self._by_hash)

    def __contains__(self, extrinsic_hash: bytes) -> bool:
        return extrinsic_hash in self._by_hash

    @property
    def ready_count(self) -> int:
        """How many could go into a block now."""
        return len(self._by_hash) - self._future

    @property
    def future_count(self) -> int:
        """How many wait for a lower nonce."""
        return self._future

    @property
    def bytes_used(self) -> int:
        """The sum of the extrinsics' lengths."""
        return self._bytes

    def hashes(self) -> list[bytes]:
        """Return every extrinsic in the pool, oldest first."""
        return list(self._by_hash)

    def refuse_known(self, extrinsic_hash: bytes, now: Callable[[], float]) -> None:
        """Raise when an extrinsic is in the pool or banned.

        Asked first, because it costs two look-ups and a signature 40 us; what time it is, only where it matters.
        """
        if extrinsic_hash in self._by_hash:
            raise PoolRefusalError(ALREADY_KNOWN, "Transaction is already in the pool", "0x" + extrinsic_hash.hex())
        self._banned.refuse(extrinsic_hash, now)

    def ban(self, extrinsic_hash: bytes, now: float) -> None:
        """Remember an invalid extrinsic for a while."""
        self._banned.add(extrinsic_hash, now)

    def is_sender(self, account: bytes) -> bool:
        """Return whether something of this account is here."""
        return account in self._senders

    def get(self, extrinsic_hash: bytes) -> PooledExtrinsic | None:
        """Return the one with that hash."""
        return self._by_hash.get(extrinsic_hash)

    def next_nonce(self, account: bytes, nonce: int) -> int:
        """Return the first nonce from `nonce` on that nothing of an account has here."""
        sender = self._senders.get(account)
        while sender is not None and nonce in sender.by_nonce:
            nonce += 1
        return nonce

    def refuse_hopeless(self, account: bytes, nonce: int, priority_max: int) -> None:
        """Raise when one with that nonce and at most that priority has no chance: asked before its signature is."""
        sender = self._senders.get(account)
        if sender is None:
            return
        usurped = sender.by_nonce.get(nonce)
        if usurped is not None:
            _refuse_replacement(priority_max, usurped, sender)
        elif len(sender.by_nonce) >= PER_SENDER_LIMIT:
            raise _full(f"the sender has {PER_SENDER_LIMIT} extrinsics in the pool already")

    def add(self, candidate: PooledExtrinsic, account_nonce: int, spendable: int = UNBOUNDED) -> Admitted:
        """Take a valid extrinsic whose account is at `account_nonce` and can spend so much.

        Raise `PoolRefusalError`.
        """
        if candidate.nonce < account_nonce:
            raise PoolRefusalError(
                INVALID, "Invalid Transaction", f"nonce {candidate.nonce} is used, the account is at {account_nonce}"
            )
        sender = self._senders.get(candidate.sender) or Sender(account_nonce, ready_end=account_nonce)
        usurped = sender.by_nonce.get(candidate.nonce)
        if sender.fees + candidate.fee - (usurped.fee if usurped else 0) > spendable:
            raise _full("the sender cannot pay for this one and for those it has in the pool")
        crowded_out = None
        if usurped is None:
            crowded_out = self._refuse_over_limit(candidate, sender)
        else:
            _refuse_replacement(candidate.priority, usurped, sender)
            self._take_out(usurped)
            sender.replaced[candidate.nonce] = sender.replaced.get(candidate.nonce, 0) + 1
        self._senders[candidate.sender] = sender
        self._insert(candidate, sender)
        if sender.account_nonce == account_nonce:
            promoted = self._extend(sender)
        else:
            promoted, _ = self._settle(candidate.sender, account_nonce)
        dropped = () if crowded_out is None else self._drop(crowded_out)
        if len(self._by_hash) > READY_LIMIT or self._bytes > BYTES_LIMIT:
            dropped = (*dropped, *self._evict())
        status = READY if candidate.nonce < sender.ready_end else FUTURE
        if usurped is None and not dropped and len(promoted) == (status is READY):
            return _ALONE[status]
        others = tuple([other for other in promoted if other != candidate.extrinsic_hash])
        return Admitted(status, usurped.extrinsic_hash if usurped else None, others, dropped)

    def remove(self, extrinsic_hash: bytes) -> Settled:
        """Take one extrinsic out (it turned out to be invalid); those behind it become future."""
        candidate = self._by_hash.get(extrinsic_hash)
        if candidate is None:
            return Settled()
        self._take_out(candidate)
        promoted, demoted = self._settle(candidate.sender)
        trimmed = self._trim_future(candidate.sender)
        self._assert_sums([candidate.sender])
        return Settled(tuple(promoted), tuple(self._still_here(demoted)), (extrinsic_hash, *trimmed))

    def settle(self, nonces: Mapping[bytes, int], height: int) -> Settled:
        """A new best block at `height`, after which accounts have these `nonces`: used and expired extrinsics leave."""
        promoted: list[bytes] = []
        demoted: list[bytes] = []
        trimmed: list[bytes] = []
        expired = self._expiry.below(height)
        for candidate in expired:
            self._take_out(candidate)
        moved = [account for account in nonces if account in self._senders]
        used = [gone for account in moved for gone in self._take_out_used(self._senders[account], nonces[account])]
        losers = dict.fromkeys(candidate.sender for candidate in expired)
        for account in dict.fromkeys([*moved, *losers]):
            up, down = self._settle(account, nonces.get(account))
            promoted += up
            demoted += down
        # Only whose extrinsic expired: a reverted block demotes honest extrinsics that the next one makes ready again.
        for account in losers:
            trimmed += self._trim_future(account)
        self._assert_sums([*moved, *losers])
        dropped = [candidate.extrinsic_hash for candidate in expired]
        return Settled(tuple(promoted), tuple(self._still_here(demoted)), (*dropped, *trimmed), tuple(used))

    def ready(self) -> Iterator[PooledExtrinsic]:
        """In the order of a block: highest priority first, each sender's in the order of their nonces."""
        order = {extrinsic_hash: position for position, extrinsic_hash in enumerate(self._by_hash)}
        heads: list[tuple[int, int, PooledExtrinsic]] = []
        for sender in self._senders.values():
            if sender.ready_end > sender.account_nonce:
                first = sender.by_nonce[sender.account_nonce]
                heads.append((-first.priority, order[first.extrinsic_hash], first))
        heapq.heapify(heads)
        while heads:
            _, _, best = heads[0]
            yield best
            sender = self._senders[best.sender]
            if best.nonce + 1 < sender.ready_end:
                following = sender.by_nonce[best.nonce + 1]
                heapq.heapreplace(heads, (-following.priority, order[following.extrinsic_hash], following))
            else:
                heapq.heappop(heads)

    def future(self) -> Iterator[PooledExtrinsic]:
        """Those that wait for a lower nonce, oldest first."""
        for candidate in self._by_hash.values():
            sender = self._senders[candidate.sender]
            if not sender.account_nonce <= candidate.nonce < sender.ready_end:
                yield candidate

    # --- inside

    def _refuse_over_limit(self, candidate: PooledExtrinsic, sender: Sender) -> PooledExtrinsic | None:
        """Raise when there is no room; what leaves for it because too many wait for a nonce."""
        # Without the limits per sender a single funded account could fill the pool, or all that waits for a nonce.
        if len(sender.by_nonce) >= PER_SENDER_LIMIT:
            raise _full(f"the sender has {PER_SENDER_LIMIT} extrinsics in the pool already")
        crowded_out = None
        if candidate.nonce != sender.ready_end:
            if sender.future_count() >= FUTURE_PER_SENDER_LIMIT:
                raise _full("too many extrinsics wait for a lower nonce")
            if self._future >= FUTURE_LIMIT:
                crowded_out = self._crowded_out(candidate, sender)
        if len(self._by_hash) >= READY_LIMIT or self._bytes + len(candidate.raw) > BYTES_LIMIT:
            # Who pays least leaves, its last nonce first: among a sender's own that may be the newcomer itself.
            cheapest = self._least()
            if cheapest is None or candidate.priority <= cheapest.priority or cheapest.sender == candidate.sender:
                raise _full("the pool is full of extrinsics that pay more")
        return crowded_out

    def _crowded_out(self, candidate: PooledExtrinsic, sender: Sender) -> PooledExtrinsic:
        """The last extrinsic of the sender that has the most waiting; raises when the candidate has no better claim."""
        counts = {
            account: self._senders[account].future_count() for account in self._waiters if account in self._senders
        }
        self._waiters = {account: None for account, count in counts.items() if count}
        crowd = max(self._waiters, key=counts.__getitem__)
        by_nonce = self._senders[crowd].by_nonce
        last = by_nonce[max(by_nonce)]
        if sender.future_count() + 1 >= counts[crowd] and (
            candidate.priority <= last.priority or crowd == candidate.sender
        ):
            raise _full("too many extrinsics wait for a lower nonce")
        return last

    def _drop(self, candidate: PooledExtrinsic) -> tuple[bytes, ...]:
        self._take_out(candidate)
        self._settle(candidate.sender)
        return (candidate.extrinsic_hash,)

    def _insert(self, candidate: PooledExtrinsic, sender: Sender) -> None:
        sender.by_nonce[candidate.nonce] = candidate
        self._by_hash[candidate.extrinsic_hash] = candidate
        self._expiry.add(candidate)
        self._bytes += len(candidate.raw)
        sender.fees += candidate.fee
        self._arrivals += 1
        if candidate.nonce >= sender.ready_end or candidate.nonce < sender.account_nonce:
            self._future += 1
            self._waiters[candidate.sender] = None
        heapq.heappush(self._cheapest, (candidate.priority, -self._arrivals, candidate.extrinsic_hash))
        # Those that left are swept out once in a while: looking for each of them would cost a search.
        if len(self._cheapest) > 2 * READY_LIMIT + len(self._by_hash):
            self._cheapest = [entry for entry in self._cheapest if entry[2] in self._by_hash]
            heapq.heapify(self._cheapest)

    def _take_out_used(self, sender: Sender, account_nonce: int) -> list[bytes]:
        used = [candidate for nonce, candidate in sender.by_nonce.items() if nonce < account_nonce]
        for candidate in used:
            self._take_out(candidate)
            sender.replaced.pop(candidate.nonce, None)
        return [candidate.extrinsic_hash for candidate in used]

    def _still_here(self, hashes: list[bytes]) -> list[bytes]:
        return [extrinsic_hash for extrinsic_hash in hashes if extrinsic_hash in self._by_hash]

    def _assert_sums(self, accounts: Iterable[bytes]) -> None:
        """The totals are what the senders say; of each sender only those that were touched are looked through."""
        assert 0 <= self._future <= len(self._by_hash), "what waits for a nonce is part of what is in the pool"
        assert self._bytes >= 0, "no extrinsic left the pool twice"
        assert self._by_hash or not (self._bytes or self._senders), "an empty pool holds nothing"
        for account in accounts:
            sender = self._senders.get(account)
            if sender is not None:
                ready = sum(sender.account_nonce <= nonce < sender.ready_end for nonce in sender.by_nonce)
                assert ready == sender.ready_end - sender.account_nonce, "ready nonces have no gap"

    def _take_out(self, candidate: PooledExtrinsic) -> None:
        """Remove it from the maps; `_settle` must follow."""
        sender = self._senders[candidate.sender]
        del sender.by_nonce[candidate.nonce]
        del self._by_hash[candidate.extrinsic_hash]
        self._expiry.discard(candidate)
        self._bytes -= len(candidate.raw)
        sender.fees -= candidate.fee
        self._future -= candidate.nonce >= sender.ready_end or candidate.nonce < sender.account_nonce

    def _extend(self, sender: Sender) -> list[bytes]:
        """Return an extrinsic was added: those that became ready. The short way of `_settle`, for the common case."""
        start = sender.ready_end
        while sender.ready_end in sender.by_nonce:
            sender.ready_end += 1
        self._future -= sender.ready_end - start
        return [sender.by_nonce[nonce].extrinsic_hash for nonce in range(start, sender.ready_end)]

    def _settle(self, account: bytes, account_nonce: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """Work out again which of a sender's extrinsics are ready.

        (hashes that became ready, hashes that no longer are).
        """
        sender = self._senders[account]
        was_ready = {nonce for nonce in sender.by_nonce if sender.account_nonce <= nonce < sender.ready_end}
        if account_nonce is not None:
            sender.account_nonce = account_nonce
        sender.ready_end = sender.account_nonce
        while sender.ready_end in sender.by_nonce:
            sender.ready_end += 1
        is_ready = set(range(sender.account_nonce, sender.ready_end))
        self._future += len(was_ready) - len(is_ready)
        if sender.future_count():
            self._waiters[account] = None
        if not sender.by_nonce:
            self._forget_sender(account)
        elif len(sender.replaced) > PER_SENDER_LIMIT:
            sender.replaced = {nonce: count for nonce, count in sender.replaced.items() if nonce in sender.by_nonce}
        promoted = [sender.by_nonce[nonce].extrinsic_hash for nonce in sorted(is_ready - was_ready)]
        demoted = [sender.by_nonce[nonce].extrinsic_hash for nonce in sorted(was_ready - is_ready)]
        return promoted, demoted

    def _trim_future(self, account: bytes) -> list[bytes]:
        """Take out a sender's highest nonces until no more of them wait than may; what was taken out."""
        trimmed: list[bytes] = []
        sender = self._senders.get(account)
        if sender is None:
            return trimmed
        # A thousand ready extrinsics behind a first one that fails or expires become future at once, past the limits
        # that hold at the door. Kept, they would fill the pool with what can never be paid, for the price of one.
        for nonce in sorted(sender.by_nonce, reverse=True):
            is_within = sender.future_count() <= FUTURE_PER_SENDER_LIMIT and self._future <= FUTURE_LIMIT
            if is_within or nonce < sender.ready_end:
                break
            trimmed.append(sender.by_nonce[nonce].extrinsic_hash)
            self._take_out(sender.by_nonce[nonce])
        if not sender.by_nonce:
            self._forget_sender(account)
        return trimmed

    def _forget_sender(self, account: bytes) -> None:
        del self._senders[account]
        self._waiters.pop(account, None)

    def _least(self) -> PooledExtrinsic | None:
        """What leaves next: the last extrinsic of the sender of the cheapest one."""
        while self._cheapest and self._cheapest[0][2] not in self._by_hash:
            heapq.heappop(self._cheapest)
        if not self._cheapest:
            return None
        return self._by_hash[self._cheapest[0][2]]

    def _evict(self) -> list[bytes]:
        dropped: list[bytes] = []
        while len(self._by_hash) > READY_LIMIT or self._bytes > BYTES_LIMIT:
            cheapest = self._least()
            if cheapest is None:
                break
            by_nonce = self._senders[cheapest.sender].by_nonce
            last = by_nonce[max(by_nonce)]
            self._take_out(last)
            self._settle(last.sender)
            dropped.append(last.extrinsic_hash)
        return dropped


def _refuse_replacement(priority: int, old: PooledExtrinsic, sender: Sender) -> None:
    needed = (old.priority * (100 + REPLACEMENT_PERCENT) + 99) // 100
    if priority < max(needed, old.priority + 1):
        why = f"({priority} vs {needed} needed to replace nonce {old.nonce})"
        raise PoolRefusalError(PRIORITY_TOO_LOW, "Priority is too low", why)
    if sender.replaced.get(old.nonce, 0) >= REPLACEMENTS_MAX:
        why = f"(nonce {old.nonce} was replaced {REPLACEMENTS_MAX} times already)"
        raise PoolRefusalError(PRIORITY_TOO_LOW, "Priority is too low", why)


def _full(why: str) -> PoolRefusalError:
    return PoolRefusalError(NO_ROOM, "Immediately dropped", why)
