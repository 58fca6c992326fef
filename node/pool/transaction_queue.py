"""Extrinsics that wait for a block, in order.

Invariants:

* There is one extrinsic for each (sender, nonce). A sender's extrinsics without a gap after the account's nonce are
  *ready*, the rest *future*.
* Count, bytes, and count per sender stay within the limits below, for any input. The sender of the lowest priority
  loses an extrinsic first, the one with its highest nonce, so that no gap opens.
* If an extrinsic fails or expires, its sender keeps no more extrinsics behind it than may wait for a nonce at all.
  Otherwise extrinsics that can never pay would fill the pool, at the price of one.
* The fees of a sender's extrinsics together, tips included, are at most its spendable balance. Otherwise a sender could
  occupy room that it cannot pay for.
* If too many extrinsics wait for a nonce, the sender with the most of them loses one to a better newcomer. That is one
  with a higher priority, or with a sender that has fewer. A few accounts therefore cannot keep an honest one out.
* A nonce can be replaced a few times only: each replacement costs every node its work, and the sender only the last
  fee.
* An extrinsic that was refused as invalid is banned for a while, and costs one look-up when it comes again.

Pure: the caller checks signature and validity first, and passes the accounts' nonces, the height and the time.
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
_ALONE = {status: Admitted(status) for status in (READY, FUTURE)}  # the frequent case: nothing else moved
UNBOUNDED = 1 << 128  # more than any account's balance
REPLACEMENT_PERCENT = 10  # the percentage by which a replacement's priority must exceed the old one


# Expiry times by height: a new block costs nothing for the extrinsics that stay.
# Invariant: each extrinsic that was added and not discarded is found once, by the first height above its last one.
class Expiry:
    """Extrinsics by the last height of a block that may hold them."""

    def __init__(self) -> None:
        self._by_height: dict[int, dict[bytes, PooledExtrinsic]] = {}

    def add(self, candidate: PooledExtrinsic) -> None:
        """Add an extrinsic of the pool."""
        self._by_height.setdefault(candidate.expires_at, {})[candidate.extrinsic_hash] = candidate

    def discard(self, candidate: PooledExtrinsic) -> None:
        """Remove an extrinsic that left the pool."""
        same_height = self._by_height[candidate.expires_at]
        del same_height[candidate.extrinsic_hash]
        if not same_height:
            del self._by_height[candidate.expires_at]

    def below(self, height: int) -> list[PooledExtrinsic]:
        """Return the extrinsics that no block from `height` on may hold, the earliest first."""
        expired_heights = sorted(expiry_height for expiry_height in self._by_height if expiry_height < height)
        return [candidate for expiry_height in expired_heights for candidate in self._by_height[expiry_height].values()]


class TransactionQueue:
    """The extrinsics in the pool of one node."""

    def __init__(self) -> None:
        self._senders_by_account: dict[bytes, Sender] = {}
        self._candidates_by_hash: dict[bytes, PooledExtrinsic] = {}
        self._expiry = Expiry()
        # A heap of (priority, -arrival, hash). It may hold entries of extrinsics that left.
        self._cheapest: list[tuple[int, int, bytes]] = []
        self._arrivals = 0
        self._ban_list = BanList()
        self._total_bytes = 0
        self._future_count = 0
        self._future_accounts: dict[
            bytes, None
        ] = {}  # accounts whose extrinsics waited for a nonce; some may no longer wait

    def __len__(self) -> int:
        return len(self._candidates_by_hash)

    def __contains__(self, extrinsic_hash: bytes) -> bool:
        return extrinsic_hash in self._candidates_by_hash

    @property
    def ready_count(self) -> int:
        """The number of extrinsics that could enter a block."""
        return len(self._candidates_by_hash) - self._future_count

    @property
    def future_count(self) -> int:
        """The number of extrinsics that wait for a lower nonce."""
        return self._future_count

    @property
    def bytes_used(self) -> int:
        """The sum of the extrinsics' lengths."""
        return self._total_bytes

    def hashes(self) -> list[bytes]:
        """Return the hash of every extrinsic in the pool, oldest first."""
        return list(self._candidates_by_hash)

    def refuse_known(self, extrinsic_hash: bytes, now: Callable[[], float]) -> None:
        """Raise `PoolRefusalError` if an extrinsic is in the pool or banned.

        This check comes first: it costs two look-ups, a signature check 40 us. `now` is called only for a hash
        in the ban list.
        """
        if extrinsic_hash in self._candidates_by_hash:
            raise PoolRefusalError(ALREADY_KNOWN, "Transaction is already in the pool", "0x" + extrinsic_hash.hex())
        self._ban_list.refuse(extrinsic_hash, now)

    def ban(self, extrinsic_hash: bytes, now: float) -> None:
        """Ban an invalid extrinsic for a while."""
        self._ban_list.add(extrinsic_hash, now)

    def is_sender(self, account: bytes) -> bool:
        """Return whether the pool holds an extrinsic of this account."""
        return account in self._senders_by_account

    def get(self, extrinsic_hash: bytes) -> PooledExtrinsic | None:
        """Return the extrinsic with a hash."""
        return self._candidates_by_hash.get(extrinsic_hash)

    def next_nonce(self, account: bytes, nonce: int) -> int:
        """Return the first nonce from `nonce` on without an extrinsic of the account in the pool."""
        sender = self._senders_by_account.get(account)
        while sender is not None and nonce in sender.by_nonce:
            nonce += 1
        return nonce

    def refuse_hopeless(self, account: bytes, nonce: int, priority_max: int) -> None:
        """Raise `PoolRefusalError` if an extrinsic with at most this priority has no chance.

        The caller asks before the signature check.
        """
        sender = self._senders_by_account.get(account)
        if sender is None:
            return
        usurped = sender.by_nonce.get(nonce)
        if usurped is not None:
            _refuse_replacement(priority_max, usurped, sender)
        elif len(sender.by_nonce) >= PER_SENDER_LIMIT:
            raise _pool_full(f"the sender has {PER_SENDER_LIMIT} extrinsics in the pool already")

    def add(self, candidate: PooledExtrinsic, account_nonce: int, spendable: int = UNBOUNDED) -> Admitted:
        """Add a valid extrinsic; its account is at `account_nonce` and can spend `spendable` grains.

        Raise `PoolRefusalError` if its nonce is used, it cannot be paid, or it finds no room.
        """
        if candidate.nonce < account_nonce:
            raise PoolRefusalError(
                INVALID, "Invalid Transaction", f"nonce {candidate.nonce} is used, the account is at {account_nonce}"
            )
        sender = self._senders_by_account.get(candidate.sender) or Sender(account_nonce, ready_end=account_nonce)
        usurped = sender.by_nonce.get(candidate.nonce)
        if sender.fees + candidate.fee - (usurped.fee if usurped else 0) > spendable:
            raise _pool_full("the sender cannot pay for this one and its others in the pool")
        crowded_out = None
        if usurped is None:
            crowded_out = self._refuse_over_limit(candidate, sender)
        else:
            _refuse_replacement(candidate.priority, usurped, sender)
            self._take_out(usurped)
            sender.replaced[candidate.nonce] = sender.replaced.get(candidate.nonce, 0) + 1
        self._senders_by_account[candidate.sender] = sender
        self._insert_candidate(candidate, sender)
        if sender.account_nonce == account_nonce:
            promoted = self._extend_ready(sender)
        else:
            promoted, _ = self._settle_sender(candidate.sender, account_nonce)
        dropped_hashes = () if crowded_out is None else self._drop_candidate(crowded_out)
        if len(self._candidates_by_hash) > READY_LIMIT or self._total_bytes > BYTES_LIMIT:
            dropped_hashes = (*dropped_hashes, *self._evict_cheapest())
        entry_status = READY if candidate.nonce < sender.ready_end else FUTURE
        if usurped is None and not dropped_hashes and len(promoted) == (entry_status is READY):
            return _ALONE[entry_status]
        other_promoted = tuple(
            [promoted_hash for promoted_hash in promoted if promoted_hash != candidate.extrinsic_hash]
        )
        return Admitted(
            entry_status,
            usurped.extrinsic_hash if usurped else None,
            other_promoted,
            dropped_hashes,
        )

    def remove(self, extrinsic_hash: bytes) -> Settled:
        """Remove one invalid extrinsic; the sender's later ones become future."""
        candidate = self._candidates_by_hash.get(extrinsic_hash)
        if candidate is None:
            return Settled()
        self._take_out(candidate)
        promoted, demoted_hashes = self._settle_sender(candidate.sender)
        trimmed_hashes = self._trim_future(candidate.sender)
        self._assert_sums([candidate.sender])
        return Settled(tuple(promoted), tuple(self._still_here(demoted_hashes)), (extrinsic_hash, *trimmed_hashes))

    def settle(self, nonces: Mapping[bytes, int], height: int) -> Settled:
        """Apply a new best block at `height` with the accounts' `nonces`: remove used and expired extrinsics."""
        promoted: list[bytes] = []
        demoted_hashes: list[bytes] = []
        trimmed_hashes: list[bytes] = []
        expired = self._expiry.below(height)
        for candidate in expired:
            self._take_out(candidate)
        moved_accounts = [account for account in nonces if account in self._senders_by_account]
        used_hashes: list[bytes] = []
        for account in moved_accounts:
            used_hashes += self._take_out_used(self._senders_by_account[account], nonces[account])
        losing_accounts = dict.fromkeys(candidate.sender for candidate in expired)
        for account in dict.fromkeys([*moved_accounts, *losing_accounts]):
            promoted_now, demoted_now = self._settle_sender(account, nonces.get(account))
            promoted += promoted_now
            demoted_hashes += demoted_now
        # Only senders of an expired extrinsic: a reverted block demotes honest extrinsics that the next one makes ready
        # again.
        for account in losing_accounts:
            trimmed_hashes += self._trim_future(account)
        self._assert_sums([*moved_accounts, *losing_accounts])
        dropped_hashes = [candidate.extrinsic_hash for candidate in expired]
        return Settled(
            tuple(promoted),
            tuple(self._still_here(demoted_hashes)),
            (*dropped_hashes, *trimmed_hashes),
            tuple(used_hashes),
        )

    def ready(self) -> Iterator[PooledExtrinsic]:
        """Yield the ready extrinsics, highest priority first and each sender's in the order of their nonces."""
        order_by_hash = {extrinsic_hash: position for position, extrinsic_hash in enumerate(self._candidates_by_hash)}
        candidate_heads: list[tuple[int, int, PooledExtrinsic]] = []
        for sender in self._senders_by_account.values():
            if sender.ready_end > sender.account_nonce:
                first = sender.by_nonce[sender.account_nonce]
                candidate_heads.append((-first.priority, order_by_hash[first.extrinsic_hash], first))
        heapq.heapify(candidate_heads)
        while candidate_heads:
            _, _, best = candidate_heads[0]
            yield best
            sender = self._senders_by_account[best.sender]
            if best.nonce + 1 < sender.ready_end:
                following = sender.by_nonce[best.nonce + 1]
                heapq.heapreplace(
                    candidate_heads, (-following.priority, order_by_hash[following.extrinsic_hash], following)
                )
            else:
                heapq.heappop(candidate_heads)

    def future(self) -> Iterator[PooledExtrinsic]:
        """Yield the extrinsics that wait for a lower nonce, oldest first."""
        for candidate in self._candidates_by_hash.values():
            sender = self._senders_by_account[candidate.sender]
            if not sender.account_nonce <= candidate.nonce < sender.ready_end:
                yield candidate

    # --- inside

    def _refuse_over_limit(self, candidate: PooledExtrinsic, sender: Sender) -> PooledExtrinsic | None:
        """Raise if there is no room; return an extrinsic that leaves because too many wait for a nonce."""
        # Without the limits per sender, one funded account could fill the pool, or all places for future extrinsics.
        if len(sender.by_nonce) >= PER_SENDER_LIMIT:
            raise _pool_full(f"the sender has {PER_SENDER_LIMIT} extrinsics in the pool already")
        crowded_out = None
        if candidate.nonce != sender.ready_end:
            if sender.future_count() >= FUTURE_PER_SENDER_LIMIT:
                raise _pool_full("too many extrinsics wait for a lower nonce")
            if self._future_count >= FUTURE_LIMIT:
                crowded_out = self._crowded_out(candidate, sender)
        if len(self._candidates_by_hash) >= READY_LIMIT or self._total_bytes + len(candidate.raw) > BYTES_LIMIT:
            # The lowest priority leaves, its sender's last nonce first. Within one sender that could be the newcomer
            # itself.
            cheapest = self._least_priority()
            if cheapest is None or candidate.priority <= cheapest.priority or cheapest.sender == candidate.sender:
                raise _pool_full("the pool is full of extrinsics that pay more")
        return crowded_out

    def _crowded_out(self, candidate: PooledExtrinsic, sender: Sender) -> PooledExtrinsic:
        """Return the last extrinsic of the sender with the most future ones.

        Raise `PoolRefusalError` if the candidate has no better claim than that extrinsic.
        """
        counts_by_account = {
            account: self._senders_by_account[account].future_count()
            for account in self._future_accounts
            if account in self._senders_by_account
        }
        self._future_accounts = {account: None for account, future_count in counts_by_account.items() if future_count}
        crowded_account = max(self._future_accounts, key=counts_by_account.__getitem__)
        by_nonce = self._senders_by_account[crowded_account].by_nonce
        last = by_nonce[max(by_nonce)]
        if sender.future_count() + 1 >= counts_by_account[crowded_account] and (
            candidate.priority <= last.priority or crowded_account == candidate.sender
        ):
            raise _pool_full("too many extrinsics wait for a lower nonce")
        return last

    def _drop_candidate(self, candidate: PooledExtrinsic) -> tuple[bytes, ...]:
        self._take_out(candidate)
        self._settle_sender(candidate.sender)
        return (candidate.extrinsic_hash,)

    def _insert_candidate(self, candidate: PooledExtrinsic, sender: Sender) -> None:
        sender.by_nonce[candidate.nonce] = candidate
        self._candidates_by_hash[candidate.extrinsic_hash] = candidate
        self._expiry.add(candidate)
        self._total_bytes += len(candidate.raw)
        sender.fees += candidate.fee
        self._arrivals += 1
        if candidate.nonce >= sender.ready_end or candidate.nonce < sender.account_nonce:
            self._future_count += 1
            self._future_accounts[candidate.sender] = None
        heapq.heappush(self._cheapest, (candidate.priority, -self._arrivals, candidate.extrinsic_hash))
        # Entries of removed extrinsics are swept out from time to time: a search for each one would cost too much.
        if len(self._cheapest) > 2 * READY_LIMIT + len(self._candidates_by_hash):
            self._cheapest = [heap_entry for heap_entry in self._cheapest if heap_entry[2] in self._candidates_by_hash]
            heapq.heapify(self._cheapest)

    def _take_out_used(self, sender: Sender, account_nonce: int) -> list[bytes]:
        used = [candidate for nonce, candidate in sender.by_nonce.items() if nonce < account_nonce]
        for candidate in used:
            self._take_out(candidate)
            sender.replaced.pop(candidate.nonce, None)
        return [candidate.extrinsic_hash for candidate in used]

    def _still_here(self, hashes: list[bytes]) -> list[bytes]:
        return [extrinsic_hash for extrinsic_hash in hashes if extrinsic_hash in self._candidates_by_hash]

    def _assert_sums(self, accounts: Iterable[bytes]) -> None:
        """Check the totals against the senders; only the touched senders are counted again."""
        assert 0 <= self._future_count <= len(self._candidates_by_hash), "the waiting extrinsics are part of the pool"
        assert self._total_bytes >= 0, "no extrinsic leaves the pool twice"
        assert self._candidates_by_hash or not (self._total_bytes or self._senders_by_account), (
            "an empty pool has no bytes and no senders"
        )
        for account in accounts:
            sender = self._senders_by_account.get(account)
            if sender is not None:
                ready_count = sum(sender.account_nonce <= nonce < sender.ready_end for nonce in sender.by_nonce)
                assert ready_count == sender.ready_end - sender.account_nonce, "ready nonces have no gap"

    def _take_out(self, candidate: PooledExtrinsic) -> None:
        """Remove an extrinsic from the maps; `_settle_sender` must follow."""
        sender = self._senders_by_account[candidate.sender]
        del sender.by_nonce[candidate.nonce]
        del self._candidates_by_hash[candidate.extrinsic_hash]
        self._expiry.discard(candidate)
        self._total_bytes -= len(candidate.raw)
        sender.fees -= candidate.fee
        self._future_count -= candidate.nonce >= sender.ready_end or candidate.nonce < sender.account_nonce

    def _extend_ready(self, sender: Sender) -> list[bytes]:
        """Return the extrinsics that an addition made ready: a short form of `_settle_sender` for the common case."""
        first_nonce = sender.ready_end
        while sender.ready_end in sender.by_nonce:
            sender.ready_end += 1
        self._future_count -= sender.ready_end - first_nonce
        return [sender.by_nonce[nonce].extrinsic_hash for nonce in range(first_nonce, sender.ready_end)]

    def _settle_sender(self, account: bytes, account_nonce: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """Compute again which of a sender's extrinsics are ready.

        Return (hashes that became ready, hashes that are no longer ready).
        """
        sender = self._senders_by_account[account]
        was_ready = {nonce for nonce in sender.by_nonce if sender.account_nonce <= nonce < sender.ready_end}
        if account_nonce is not None:
            sender.account_nonce = account_nonce
        sender.ready_end = sender.account_nonce
        while sender.ready_end in sender.by_nonce:
            sender.ready_end += 1
        is_ready = set(range(sender.account_nonce, sender.ready_end))
        self._future_count += len(was_ready) - len(is_ready)
        if sender.future_count():
            self._future_accounts[account] = None
        if not sender.by_nonce:
            self._forget_sender(account)
        elif len(sender.replaced) > PER_SENDER_LIMIT:
            sender.replaced = {
                nonce: replaced_count for nonce, replaced_count in sender.replaced.items() if nonce in sender.by_nonce
            }
        promoted = [sender.by_nonce[nonce].extrinsic_hash for nonce in sorted(is_ready - was_ready)]
        demoted_hashes = [sender.by_nonce[nonce].extrinsic_hash for nonce in sorted(was_ready - is_ready)]
        return promoted, demoted_hashes

    def _trim_future(self, account: bytes) -> list[bytes]:
        """Remove and return a sender's highest nonces until the limits for future extrinsics hold."""
        trimmed_hashes: list[bytes] = []
        sender = self._senders_by_account.get(account)
        if sender is None:
            return trimmed_hashes
        # A thousand ready extrinsics behind a first one that fails or expires become future at once, past the limits at
        # admission. Kept, they would fill the pool with extrinsics that can never pay, for the price of one.
        for nonce in sorted(sender.by_nonce, reverse=True):
            is_within = sender.future_count() <= FUTURE_PER_SENDER_LIMIT and self._future_count <= FUTURE_LIMIT
            if is_within or nonce < sender.ready_end:
                break
            trimmed_hashes.append(sender.by_nonce[nonce].extrinsic_hash)
            self._take_out(sender.by_nonce[nonce])
        if not sender.by_nonce:
            self._forget_sender(account)
        return trimmed_hashes

    def _forget_sender(self, account: bytes) -> None:
        del self._senders_by_account[account]
        self._future_accounts.pop(account, None)

    def _least_priority(self) -> PooledExtrinsic | None:
        """Return the extrinsic with the lowest priority; its sender loses an extrinsic next."""
        while self._cheapest and self._cheapest[0][2] not in self._candidates_by_hash:
            heapq.heappop(self._cheapest)
        if not self._cheapest:
            return None
        return self._candidates_by_hash[self._cheapest[0][2]]

    def _evict_cheapest(self) -> list[bytes]:
        dropped_hashes: list[bytes] = []
        while len(self._candidates_by_hash) > READY_LIMIT or self._total_bytes > BYTES_LIMIT:
            cheapest = self._least_priority()
            if cheapest is None:
                break
            # The sender's highest nonce leaves, so that no gap opens among its extrinsics.
            by_nonce = self._senders_by_account[cheapest.sender].by_nonce
            last = by_nonce[max(by_nonce)]
            self._take_out(last)
            self._settle_sender(last.sender)
            dropped_hashes.append(last.extrinsic_hash)
        return dropped_hashes


def _refuse_replacement(priority: int, old: PooledExtrinsic, sender: Sender) -> None:
    needed_priority = (old.priority * (100 + REPLACEMENT_PERCENT) + 99) // 100
    if priority < max(needed_priority, old.priority + 1):
        refusal_detail = f"({priority} vs {needed_priority} needed to replace nonce {old.nonce})"
        raise PoolRefusalError(PRIORITY_TOO_LOW, "Priority is too low", refusal_detail)
    if sender.replaced.get(old.nonce, 0) >= REPLACEMENTS_MAX:
        refusal_detail = f"(nonce {old.nonce} was replaced {REPLACEMENTS_MAX} times already)"
        raise PoolRefusalError(PRIORITY_TOO_LOW, "Priority is too low", refusal_detail)


def _pool_full(refusal_detail: str) -> PoolRefusalError:
    return PoolRefusalError(NO_ROOM, "Immediately dropped", refusal_detail)
