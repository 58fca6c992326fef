"""The life of a session: opened, drawn, claimed, handed over, closed, settled.

    WAITING ──no place──> the end
       │
     OPEN ──hand_over──> OPEN (the former leg claims its period)
       │
    CLOSING ──every leg is released──> the end

The spare's leg begins with the draw. It ends by a hand-over, a close, or a refuted proof.

Invariants: a leg is released once, when it claims nothing more and none of its claims is open. A session ends once,
when it is closing and every leg is released. Nothing is held for it then.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.batches.sum_tree import Totals, batch_root
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimTerms
from gpu_tasks.market.claims.collateral import check_share, game_rate, item_rate
from gpu_tasks.market.devices.checkers import in_office
from gpu_tasks.market.devices.events import UnsafeSealKey
from gpu_tasks.market.devices.records import DeviceClass, is_safe_seal_key
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference.checkers_left import is_checked_set
from gpu_tasks.market.inference.money import earned
from gpu_tasks.market.inference.services import pace_of
from gpu_tasks.market.sessions import events as ev
from gpu_tasks.market.sessions import money, places, spares
from gpu_tasks.market.sessions.places import Places
from gpu_tasks.market.sessions.records import (
    CLAIMS_OPEN_MAX,
    SESSION_DEPOSIT,
    SESSION_MONEY,
    SESSIONS_MAX,
    SESSIONS_PER_CUSTOMER_MAX,
    SPARE_LEG,
    SPARE_PERIOD,
    TERM_MAX,
    TERM_MIN,
    Leg,
    PeriodClaim,
    SessionEnd,
    SessionRecord,
    SessionRules,
    SessionState,
    all_legs,
    claimed,
    claims_until,
    closed,
    handed_over,
    is_released,
    left_of,
    leg_at,
    leg_of,
    may_release,
    over,
    period_of,
    session_id_of,
    spare_of,
    waits_for_former,
    with_leg,
)
from gpu_tasks.market.sessions.storage import SessionsStorage
from gpu_tasks.market.sessions.vouchers import Voucher, amount_of, session_claim_id, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography.signatures import verify
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import Share


def open_session(
    room: SessionsStorage,
    customer: bytes,
    *,
    service_number: int,
    deposit: int,
    term: int,
    rate: int,
    signer: bytes,
    customer_key: bytes,
) -> None:
    """Hold the customer's money, and let the session wait for its draw."""
    terms = room.inference.open_service(service_number).terms
    pace, rules = pace_of(terms, DeviceClass.CPU), _rules(room, terms.check_ppm)
    ensure(pace > 0, ev.NoSessions)
    ensure(terms.price_min <= rate <= terms.price_max, ev.RateOutOfBounds)
    ensure(TERM_MIN <= term <= TERM_MAX, ev.TermOutOfBounds)
    ensure(deposit > money.fees_of(rules, 1), ev.SessionDepositTooSmall)
    # With a key of small order, any account could read the tunnel.
    ensure(is_safe_seal_key(customer_key), UnsafeSealKey)
    mine = sum(1 for _ in room.customer_sessions.under(customer))
    count, number = room.session_count.get(), room.opening_counts[customer]
    ensure(mine < SESSIONS_PER_CUSTOMER_MAX and count < SESSIONS_MAX, ev.TooManySessions)
    session_id, height = session_id_of(room.system.block_hash[0], customer, number), room.height
    session = SessionRecord(
        customer=customer,
        signer=signer,
        customer_key=customer_key,
        service=service_number,
        workload=terms.workload,
        model=terms.model,
        rate=rate,
        input_share=terms.input_share,
        pace=pace,
        rules=rules,
        place_rate=money.place_rate_of(rate, pace),
        exposure=money.exposure_of(deposit, rate, pace),
        deposit=deposit,
        record_deposit=room.session_deposit,
        opened_at=height,
        recorded_at=height,
        expires_at=height + term,
    )
    room.lock.lock(customer, Hold(SESSION_MONEY, session_id), deposit)
    room.lock.lock(customer, Hold(SESSION_DEPOSIT, session_id), session.record_deposit)
    room.opening_counts[customer] = number + 1
    room.session_count.set(count + 1)
    room.customer_sessions[customer, session_id] = True
    room.put(session_id, session)
    room.draws.put(height + BEACON_DELAY, session_id)
    room.emit(ev.SessionOpened(session_id, customer, service_number, deposit, rate, session.expires_at))


def draw(room: SessionsStorage, session_id: bytes, free_places: Places) -> None:
    """Seat a session whose beacon is final, or end it if no device has a place for it."""
    session = _recorded(room, session_id)
    assert session.state is SessionState.WAITING, "a session is drawn once"
    beacon = room.beacon.value_at(session.recorded_at + BEACON_DELAY)
    if beacon is None:
        # Finality halted for longer than the beacon remembers.
        room.put(session_id, replace(session, recorded_at=room.height))
        room.draws.put(room.height + BEACON_DELAY, session_id)
        return
    drawn = free_places.draw(session, beacon) if room.height < session.expires_at else []
    if not drawn:
        _end(room, session_id, session, SessionEnd.NO_PLACE)
        return
    first, spare = drawn[0], None
    if len(drawn) > 1:
        _, second = drawn
        spare = Leg(second.owner, second.device, since=room.height, first_period=SPARE_PERIOD, collateral=0)
    for slot in drawn:
        places.occupy(room, slot.device, session_id)
    leg = _seated(room, session_id, session, first.owner, first.device)
    seated = replace(
        session,
        state=SessionState.OPEN,
        legs=(leg,),
        spare=spare,
        spare_seed=spares.seed_of(session_id, beacon),
    )
    room.put(session_id, seated)
    room.emit(
        ev.SessionSeated(session_id, leg.owner, leg.device, leg.collateral, None if spare is None else spare.device)
    )


def claim(
    room: SessionsStorage, session_id: bytes, owner: bytes, voucher: Voucher, signed: MultiSignature, *, is_last: bool
) -> None:
    """Let a provider claim a period by a voucher."""
    session = room.session(session_id)
    number, leg = _claiming(room, session, owner)
    ensure(not waits_for_former(session, number, room.height), ev.FormerClaimsFirst)
    ensure(voucher.session == session_id and voucher.period == period_of(session, number), ev.WrongVoucher)
    totals = voucher.totals
    ensure(totals.requests <= REQUESTS_MAX, ev.VoucherTooLarge)
    ensure(money.run_blocks_of(session, totals) <= money.RUN_BLOCKS_MAX, ev.VoucherTooLarge)
    amount = amount_of(session.rate, session.input_share, totals)
    ensure(totals.requests > 0 and amount > 0, ev.EmptyVoucher)
    fees = money.fees_of(session.rules, amount)
    ensure(amount + fees <= left_of(session), ev.VoucherUnfunded)
    collateral = money.collateral_of(session.rules, amount, totals.requests)
    has_room = leg.claims < CLAIMS_OPEN_MAX and leg.engaged + collateral <= leg.collateral
    ensure(has_room, ev.TooManyUnchecked)
    # The dearest check comes last.
    payload = voucher_payload(room.system.block_hash[0], voucher)
    ensure(verify(signed.scheme, session.signer, payload, signed.signature), ev.BadVoucherSignature)
    period_claim = PeriodClaim(session_id, number, voucher.period, amount, fees, collateral)
    room.put(session_id, claimed(session, period_claim, room.height, is_last=is_last))
    _open_claim(room, session, period_claim, totals)


def prove_spare(room: SessionsStorage, session_id: bytes, owner: bytes, top: bytes) -> None:
    """Open the claim of the spare's answer to its standard request."""
    session = room.session(session_id)
    _ensure_open(room, session)
    spare = spare_of(session)
    ensure(spare is not None and spare.owner == owner, ev.NotSessionParty)
    assert spare is not None, "checked above"
    ensure(not spare.is_over and room.height <= spares.proof_until(spare), ev.ClaimsOver)
    totals = spares.proof_totals(top)
    amount = spares.proof_amount(session)
    fees = money.fees_of(session.rules, amount)
    ensure(amount + fees <= left_of(session), ev.VoucherUnfunded)
    collateral = money.collateral_of(session.rules, spares.spare_exposure(session, spare, amount))
    _ensure_able(room, spare.device, collateral)
    # Its serving leg may secure the session by the same bond later, so the proof has a hold of its own.
    room.devices.secure(spare.device, session_claim_id(session_id, SPARE_PERIOD), collateral)
    proving = replace(spare, collateral=collateral, engaged=collateral, claims=1, claimed=amount, is_over=True)
    reserved = session.reserved + amount + fees
    room.put(session_id, replace(session, spare=proving, reserved=reserved))
    _open_claim(room, session, PeriodClaim(session_id, SPARE_LEG, SPARE_PERIOD, amount, fees, collateral), totals)


def leave(room: SessionsStorage, session_id: bytes, owner: bytes) -> None:
    """Let a provider claim nothing more. Its leg is released once none of its claims is open."""
    session = room.session(session_id)
    number, leg = _claiming(room, session, owner)
    room.put(session_id, with_leg(session, number, over(leg, min(room.height, session.expires_at))))


def close(room: SessionsStorage, session_id: bytes, who: bytes) -> None:
    """Close a session: return the deposit before the draw, or let the provider claim for a while."""
    session = room.session(session_id)
    is_customers = who in (session.customer, session.signer)
    if session.state is SessionState.WAITING:
        ensure(is_customers, ev.NotSessionParty)
        _end(room, session_id, session, SessionEnd.WITHDRAWN)
        return
    ensure(is_customers or room.devices.operator(who) == session.legs[-1].owner, ev.NotSessionParty)
    _ensure_open(room, session)
    _close(room, session_id, session, room.height)


def hand_over(room: SessionsStorage, session_id: bytes, who: bytes) -> None:
    """Let the spare go on with a session. The former provider may claim its present period."""
    session, height = room.session(session_id), room.height
    ensure(who in (session.customer, session.signer), ev.NotSessionParty)
    _ensure_open(room, session)
    spare = spare_of(session)
    ensure(spare is not None, ev.SpareUnable)
    assert spare is not None, "checked above"
    _ensure_able(room, spare.device, money.collateral_of(session.rules, session.exposure))
    leg = _seated(room, session_id, session, spare.owner, spare.device)
    session = handed_over(session, leg, height)
    room.put(session_id, session)
    until = claims_until(session, session.legs[0])
    room.emit(ev.SessionHandedOver(session_id, spare.owner, spare.device, until))


def step(room: SessionsStorage, session_id: bytes) -> None:
    """Take the steps that are due: the end of the term, the release of legs, the end of the session."""
    session = _recorded(room, session_id)
    if session.state is SessionState.WAITING:
        _end(room, session_id, session, SessionEnd.NO_PLACE)
        return
    if session.state is SessionState.OPEN and room.height >= session.expires_at:
        session = _close(room, session_id, session, session.expires_at)
    for number, _ in all_legs(session):
        if may_release(session, number, room.height):
            session = _release(room, session_id, session, number)
    if session.state is SessionState.CLOSING and is_released(session):
        _end(room, session_id, session, SessionEnd.SETTLED)
    else:
        room.put(session_id, session)


# ------------------------------------------------------------------------------------------------------------- claims


def charge_provider(room: SessionsStorage, claim_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the collateral of the claim's leg."""
    period_claim, session = room.period_claim(claim_id)
    leg, spent = leg_at(session, period_claim.leg), sum(share.amount for share in shares)
    room.devices.charge(leg.device, claim_id if period_claim.leg == SPARE_LEG else period_claim.session, shares)
    room.period_claims[claim_id] = replace(period_claim, collateral=period_claim.collateral - spent)
    charged = replace(leg, collateral=leg.collateral - spent, engaged=leg.engaged - spent)
    room.put(period_claim.session, with_leg(session, period_claim.leg, charged))


def charge_customer(room: SessionsStorage, claim_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the deposit's part for the claim's checks."""
    period_claim, session = room.period_claim(claim_id)
    spent = sum(share.amount for share in shares)
    assert spent <= period_claim.fees, "checks cost no more than the claim reserves for them"
    room.lock.pay_out(session.customer, Hold(SESSION_MONEY, period_claim.session), shares)
    room.period_claims[claim_id] = replace(period_claim, fees=period_claim.fees - spent)
    spent_session = replace(session, paid=session.paid + spent, reserved=session.reserved - spent)
    room.put(period_claim.session, spent_session)


def conclude(room: SessionsStorage, claim_id: bytes, outcome: ClaimOutcome) -> None:
    """Pay for a period, or return its amount to the deposit. A refuted provider's device pauses."""
    period_claim, session = room.period_claim(claim_id)
    del room.period_claims[claim_id]
    session_id, leg = period_claim.session, leg_at(session, period_claim.leg)
    session = replace(session, reserved=session.reserved - period_claim.amount - period_claim.fees)
    is_refuted = outcome is ClaimOutcome.REFUTED
    if outcome is ClaimOutcome.PASSED:
        session = _pay(room, session_id, session, leg.owner, period_claim.amount)
    elif is_refuted:
        room.devices.halt(leg.device, session_id)
    leg = replace(
        leg,
        claims=leg.claims - 1,
        engaged=leg.engaged - period_claim.collateral,
        is_refuted=leg.is_refuted or is_refuted,
    )
    if period_claim.leg == SPARE_LEG:
        leg = _proof_over(room, claim_id, period_claim, leg, outcome)
    room.put(session_id, with_leg(session, period_claim.leg, leg))


def _proof_over(
    room: SessionsStorage, claim_id: bytes, period_claim: PeriodClaim, spare: Leg, outcome: ClaimOutcome
) -> Leg:
    """Free the collateral of a spare's proof. Return its leg: a refuted spare leaves, an undecided one has no proof."""
    room.devices.unsecure(spare.device, claim_id)
    room.devices.end_collateral(claim_id)
    if outcome is ClaimOutcome.RETURNED:
        spare = replace(spare, claimed=spare.claimed - period_claim.amount)
    if spare.is_refuted and not spare.left_at:
        places.vacate(room, spare.device, period_claim.session)
        spare = over(spare, room.height)
    return replace(spare, collateral=0)


def _open_claim(room: SessionsStorage, session: SessionRecord, period_claim: PeriodClaim, totals: Totals) -> None:
    """Record the claim of a period, and open its checks."""
    session_id, period = period_claim.session, period_claim.period
    claim_id, owner = session_claim_id(session_id, period), leg_at(session, period_claim.leg).owner
    room.period_claims[claim_id] = period_claim
    room.emit(ev.PeriodClaimed(session_id, period, claim_id, owner, period_claim.amount))
    room.inference.result_claims.open(claim_id, _terms(room, session, period_claim, totals))


def _terms(room: SessionsStorage, session: SessionRecord, period_claim: PeriodClaim, totals: Totals) -> ClaimTerms:
    rules, leg = session.rules, leg_at(session, period_claim.leg)
    weight = money.weight_of(session, totals)
    owners = (each.owner for _, each in all_legs(session))
    others = (session.signer, room.devices.operator(session.signer), *owners)
    return ClaimTerms(
        handler=room.index,
        provider=leg.owner,
        customer=session.customer,
        root=batch_root(totals),
        items=totals.requests,
        weight=weight,
        # One request may have nearly all tokens.
        item_weight_max=weight,
        price=period_claim.amount,
        collateral=period_claim.collateral,
        rate_ppm=item_rate(totals.requests, rules.check_rate_ppm),
        check_ppm=rules.check_ppm,
        fee_min=rules.check_fee_min,
        fees_held=period_claim.fees,
        # The provider seals its transcript to the drawn checker itself, so any checker of this block can read it.
        sealed_at=room.height,
        run_blocks=money.run_blocks_of(session, totals),
        excluded=tuple(who for who in dict.fromkeys(others) if who != leg.owner),
    )


# ------------------------------------------------------------------------------------------------------------ the steps


def _rules(room: SessionsStorage, check_ppm: int) -> SessionRules:
    """Return the rules of a session that opens now."""
    is_checked = is_checked_set(len(in_office(room.devices)))
    return SessionRules(
        settle_blocks=room.session_settle_blocks,
        settlement_fee=room.inference.settlement_fee,
        check_rate_ppm=game_rate(room.session_check_rate) if is_checked else 0,
        check_ppm=check_share(check_ppm),
        check_fee_min=room.inference.result_claims.check_fee_min,
    )


def _recorded(room: SessionsStorage, session_id: bytes) -> SessionRecord:
    session = room.sessions[session_id]
    assert session is not None, "a session on a schedule has a record"
    return session


def _ensure_open(room: SessionsStorage, session: SessionRecord) -> None:
    """Raise SessionNotOpen before the draw, after a close, and after the term, however late a hook closes it."""
    ensure(session.state is SessionState.OPEN and room.height < session.expires_at, ev.SessionNotOpen)


def _ensure_able(room: SessionsStorage, device_id: bytes, collateral: int) -> None:
    """Raise SpareUnable unless a device is in service and has so much free bond."""
    record = room.devices.devices[device_id]
    is_able = record is not None and room.inference.capacity.can_serve(device_id, record)
    ensure(is_able and record is not None and record.bond - record.secured >= collateral, ev.SpareUnable)


def _claiming(room: SessionsStorage, session: SessionRecord, owner: bytes) -> tuple[int, Leg]:
    """Return the leg of a provider that may claim, with its number."""
    number = leg_of(session, owner)
    ensure(number is not None, ev.NotSessionParty)
    assert number is not None, "checked above"
    leg = session.legs[number]
    ensure(not leg.is_over and room.height <= claims_until(session, leg), ev.ClaimsOver)
    return number, leg


def _seated(room: SessionsStorage, session_id: bytes, session: SessionRecord, owner: bytes, device: bytes) -> Leg:
    """Secure a session by a device's bond. Return its leg."""
    collateral = money.collateral_of(session.rules, session.exposure)
    room.devices.secure(device, session_id, collateral)
    return Leg(owner, device, since=room.height, first_period=0, collateral=collateral)


def _close(room: SessionsStorage, session_id: bytes, session: SessionRecord, height: int) -> SessionRecord:
    """Close an open session in a block. Return its record."""
    spare = spare_of(session)
    if spare is not None:
        places.vacate(room, spare.device, session_id)
    session = closed(session, height)
    room.put(session_id, session)
    room.emit(ev.SessionClosing(session_id, claims_until(session, session.legs[-1])))
    return session


def _pay(room: SessionsStorage, session_id: bytes, session: SessionRecord, owner: bytes, amount: int) -> SessionRecord:
    """Pay a provider out of the deposit. Return the session's record."""
    shares = earned(amount, session.rules.settlement_fee, owner, TREASURY)
    room.lock.pay_out(session.customer, Hold(SESSION_MONEY, session_id), shares)
    return replace(session, paid=session.paid + amount)


def _release(room: SessionsStorage, session_id: bytes, session: SessionRecord, number: int) -> SessionRecord:
    """Pay for the place of a leg, and free its device. Return the session's record.

    A spare's place is free, or its serving leg has it, from the block in which the spare left.
    """
    leg = leg_at(session, number)
    assert not leg.engaged, "no collateral stands behind ended claims"
    amount = money.place_pay(session, number)
    session = _pay(room, session_id, session, leg.owner, amount)
    if number != SPARE_LEG:
        room.devices.unsecure(leg.device, session_id)
        places.vacate(room, leg.device, session_id)
    room.emit(ev.PlacePaid(session_id, number, leg.owner, leg.device, amount))
    return with_leg(session, number, replace(leg, is_over=True, is_released=True))


def _end(room: SessionsStorage, session_id: bytes, session: SessionRecord, end: SessionEnd) -> None:
    """Return the rest of the customer's money, and drop the record."""
    assert not session.reserved, "no claim is open"
    money_hold, deposit_hold = Hold(SESSION_MONEY, session_id), Hold(SESSION_DEPOSIT, session_id)
    room.lock.unlock(session.customer, money_hold, left_of(session))
    room.lock.unlock(session.customer, deposit_hold, session.record_deposit)
    room.lock.end(money_hold)
    room.lock.end(deposit_hold)
    room.devices.end_collateral(session_id)
    room.due.drop(session_id)
    room.draws.drop(session_id)
    room.session_count.set(room.session_count.get() - 1)
    del room.customer_sessions[session.customer, session_id]
    del room.sessions[session_id]
    room.emit(ev.SessionEnded(session_id, end, session.paid))


def close_revoked(room: SessionsStorage, customer: bytes, signer: bytes, blocks: int) -> int:
    """Close a customer's sessions whose vouchers an account signs. Their providers may claim for some blocks.

    Return the number of the customer's sessions.
    """
    session_ids, until = [session_id for session_id, _ in room.customer_sessions.under(customer)], room.height + blocks
    for session_id in session_ids:
        session = room.session(session_id)
        if session.signer != signer:
            continue
        if session.state is SessionState.WAITING:
            _end(room, session_id, session, SessionEnd.WITHDRAWN)
            continue
        # A second revocation of the same key must not open a window again.
        session = replace(session, claims_end=min(session.claims_end or until, until))
        if session.state is SessionState.OPEN:
            _close(room, session_id, session, min(room.height, session.expires_at))
        else:
            room.put(session_id, session)
            room.emit(ev.SessionClosing(session_id, claims_until(session, session.legs[-1])))
    return len(session_ids)
