"""The status of one devnet validator, as its node reports it."""

from devnet.launcher.status import MemberStatus

ALICE = MemberStatus(
    name="Alice", is_validator=True, is_up=True, is_rpc_up=True, accepted=9, final=8, peers=3, ready=0, units=0,
    attested=0, stash="5alice", stake=100, seat=90, next_seat=90, is_jailed=False, queue=0, starts_at=1,
    rpc="ws://127.0.0.1:1",
)  # fmt: skip
