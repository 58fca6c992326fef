"""Declared origins and call filters: the allowed calls of each origin, at any nesting."""

from enum import IntEnum

import pytest

from public_client import PublicClient
from runtime.encoding.codec import U8, U32, DecodeError, named
from runtime.encoding.types import AccountId, RuntimeVersion
from runtime.frame.api import Apis, with_apis
from runtime.frame.call import Call
from runtime.frame.context import ExecutionContext
from runtime.frame.errors import BadOrigin, CallFiltered, DispatchError, ErrorValue
from runtime.frame.origins import RuntimeOrigin
from runtime.frame.pallet import (
    Origin,
    Pallet,
    PalletOrigin,
    Root,
    Signed,
    StorageMap,
    StorageValue,
    Unsigned,
    call,
    event,
    origin,
)
from runtime.frame.runtime import Bound, Runtime
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import METADATA_V14, METADATA_V15, VariantDef
from runtime.interface.standard_apis import STANDARD_APIS
from runtime.pallets.balances import Balances
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import ExtrinsicFailed, System
from runtime.pallets.utility import ItemCompleted, ItemFailed, Utility
from small_chain import ALICE, BOB, SmallChain, runtime_of
from wallet.client import describe_error

SEND = Balances.transfer_keep_alive(dest=BOB.account, value=10**8)
BURN = Balances.burn(value=1, keep_alive=True)


@origin
class AtLeast(PalletOrigin):
    """At least `ayes` members of a council."""

    ayes: U32


@origin
class Member(PalletOrigin):
    """One of a council."""

    who: AccountId


class Assembly(Pallet, index=150):
    """Makes its own origins."""

    origins = (AtLeast, Member)

    @call(index=0)
    def speak(self, origin: Signed, ayes: U32, inner: Call) -> None:
        """Call with this number of ayes."""
        self.dispatch(inner, AtLeast(ayes))

    @call(index=1)
    def alone(self, origin: Signed, inner: Call) -> None:
        """Call as one member."""
        self.dispatch(inner, Member(origin.account))


class Chest(Pallet, index=151):
    """Requires other pallets' origins, and stores the caller."""

    heard: StorageValue[RuntimeOrigin | None] = StorageValue(doc="Who came last.")
    open_for: StorageMap[U8, RuntimeOrigin | None] = StorageMap(doc="Who may come.")

    @call(index=0)
    def spend(self, origin: AtLeast | Root) -> None:
        """Require the council or Root."""
        self.heard.set(origin)

    @call(index=1)
    def promise(self, origin: Signed, to: RuntimeOrigin) -> None:
        """An origin as an argument."""
        self.open_for[1] = to


@named("test::Trust")
class Trust(IntEnum):
    """Sets of calls, as a proxy's kind names them."""

    Any = 0
    NoMoney = 1
    MoneyOnly = 2

    def allows(self, asked: Call) -> bool:
        """Return True if the filter allows the call."""
        is_money = asked.method.pallet is Balances
        if asked.method.pallet in (Utility, Deputies):
            return True
        return {Trust.Any: True, Trust.NoMoney: not is_money, Trust.MoneyOnly: is_money}[self]


class Deputies(Pallet, index=152):
    """Lends origins, as far as a filter allows."""

    @call(index=0)
    def act(self, origin: Signed, real: AccountId, trust: Trust, inner: Call) -> None:
        """Call as another account."""
        self.dispatch(inner, Signed(real).within(trust))

    @call(index=1)
    def narrow(self, origin: Signed, trust: Trust, inner: Call) -> None:
        """Call as the own account, with a narrower filter."""
        self.dispatch(inner, origin.within(trust))


@event
class Closed:
    """No money moves."""


class Quiet(Pallet, index=153):
    """The chain's present filter."""

    is_quiet: StorageValue[U8] = StorageValue(default=0, doc="Whether money rests.")
    events = (Closed,)

    @call(index=0)
    def close(self, origin: Root) -> None:
        """Let money rest."""
        self.is_quiet.set(1)
        self.emit(Closed())


def no_money_while_quiet(context: ExecutionContext, asked: Call) -> bool:
    quiet: Quiet = context.members[Quiet]
    return not quiet.is_quiet.get() or asked.method.pallet is not Balances


RUNTIME = Runtime((*runtime_of().pallets, Assembly, Chest, Deputies, Quiet), runtime_of().version)
GUARDED = Runtime(RUNTIME.pallets, RUNTIME.version, base_filter=no_money_while_quiet)


@pytest.fixture
def bound() -> Bound:
    return SmallChain(RUNTIME).bound


def outcome(bound: Bound, made: Call, by: Origin) -> type[DispatchError] | None:
    try:
        with bound.overlay.transaction():
            bound.dispatch(made, by)
    except DispatchError as error:
        return type(error)
    return None


# ------------------------------------------------------------------------------------------------ declared origins


@pytest.mark.parametrize(
    ("made", "by", "error"),
    [
        (Chest.spend(), Root(), None),
        (Chest.spend(), AtLeast(3), None),
        (Chest.spend(), Signed(ALICE.account), BadOrigin),
        (Chest.spend(), Member(ALICE.account), BadOrigin),
        (Chest.spend(), Unsigned(), BadOrigin),
        (SEND, AtLeast(3), BadOrigin),
        (Assembly.speak(ayes=2, inner=Chest.spend()), Signed(ALICE.account), None),
        (Assembly.speak(ayes=2, inner=SEND), Signed(ALICE.account), BadOrigin),
        (Assembly.alone(inner=Chest.spend()), Signed(ALICE.account), BadOrigin),
        (Assembly.speak(ayes=2, inner=Utility.batch_all(calls=(Chest.spend(),))), Signed(ALICE.account), None),
        (Utility.batch_all(calls=(Chest.spend(),)), Signed(ALICE.account), BadOrigin),
        (Utility.batch_all(calls=()), Unsigned(), BadOrigin),
        (Utility.batch_all(calls=(Chest.spend(),)), Member(ALICE.account), BadOrigin),
    ],
)
def test_a_call_asks_for_the_origin_of_another_pallet(
    bound: Bound, made: Call, by: Origin, error: type[DispatchError] | None
) -> None:
    assert outcome(bound, made, by) is error


def test_the_pallet_says_what_its_origin_carries(bound: Bound) -> None:
    bound.dispatch(Assembly.speak(ayes=7, inner=Chest.spend()), Signed(ALICE.account))
    assert bound[Chest].heard.get() == AtLeast(7)


WHO = ALICE.account
ENCODED = [
    (Root(), bytes((0, 0))),
    (Signed(WHO), bytes((0, 1)) + WHO),
    (Unsigned(), bytes((0, 2))),
    (AtLeast(7), bytes((150, 0)) + (7).to_bytes(4, "little")),
    (Member(WHO), bytes((150, 1)) + WHO),
]


@pytest.mark.parametrize(("made", "raw"), ENCODED)
def test_origins_are_one_enum(made: Origin, raw: bytes) -> None:
    codec = RUNTIME.codecs.of(RuntimeOrigin)
    assert codec.encode(made) == raw
    assert codec.decode(raw) == made
    asked = Chest.promise(to=made)
    assert RUNTIME.call_codec.decode(RUNTIME.call_codec.encode(asked)) == asked


def test_what_is_no_origin_does_not_decode() -> None:
    codec = RUNTIME.codecs.of(RuntimeOrigin)
    for raw in (b"", b"\0", b"\0\3", b"\1\0", bytes((150, 2)), bytes((151, 0)), bytes((0, 1)) + b"w" * 31, b"\0\0\0"):
        with pytest.raises(DecodeError):
            codec.decode(raw)


def test_what_an_origin_is_narrowed_to_is_not_stored() -> None:
    codec = RUNTIME.codecs.of(RuntimeOrigin)
    assert codec.decode(codec.encode(Signed(WHO).within(Trust.NoMoney))) == Signed(WHO)


def test_a_public_client_reads_and_writes_origins() -> None:
    apis = Apis(
        Runtime(RUNTIME.pallets, with_apis(RuntimeVersion("small", "test", 1, 1, 1, (), 1, 2), ())), STANDARD_APIS
    )
    client = PublicClient(metadata(apis, 14))
    raw = RUNTIME.codecs.of(RuntimeOrigin).encode(AtLeast(7))
    assert client.storage("Chest", "Heard", raw) == {"Assembly": {"AtLeast": {"ayes": 7}}}
    assert client.storage("Chest", "Heard", bytes((0, 0))) == {"system": "Root"}
    theirs = client.call("Chest", "promise", {"to": {"system": {"Signed": "0x" + WHO.hex()}}})
    assert theirs == RUNTIME.call_codec.encode(Chest.promise(to=Signed(WHO)))
    for described in (METADATA_V14.decode(metadata(apis, 14)[5:]), METADATA_V15.decode(metadata(apis, 15)[5:])):
        types = {"::".join(entry.path): entry.definition for entry in described.types}
        outer, raw_origin = types["ogpu_runtime::OriginCaller"], types["frame_support::dispatch::RawOrigin"]
        assert isinstance(outer, VariantDef)
        assert [(each.name, each.index) for each in outer.variants] == [("system", 0), ("Assembly", 150)]
        assert isinstance(raw_origin, VariantDef)
        assert [(each.name, each.index) for each in raw_origin.variants] == [("Root", 0), ("Signed", 1), ("None", 2)]
        assert "pallet_assembly::pallet::Origin" in types


def test_declarations_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Chest\.spend: .* AtLeast"):
        Runtime((System, Chest), RUNTIME.version)

    class Usurper(Pallet, index=154):
        origins = (AtLeast,)

    with pytest.raises(ValueError, match="Usurper: an origin"):
        Runtime((*RUNTIME.pallets, Usurper), RUNTIME.version)

    class Odd(Pallet, index=155):
        @call(index=0)  # type: ignore[type-var]
        def odd(self, origin: int) -> None:
            """Use an undeclared origin."""

    with pytest.raises(TypeError, match="not an origin"):
        Runtime((System, Odd), RUNTIME.version)
    with pytest.raises(TypeError, match="its storage base"):
        type("Voting", (Pallet,), {"origins": (AtLeast,)})


# ------------------------------------------------------------------------------------------------ filters


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (SEND, None),
        (Deputies.act(real=WHO, trust=Trust.Any, inner=SEND), None),
        (Deputies.act(real=WHO, trust=Trust.MoneyOnly, inner=SEND), None),
        (Deputies.act(real=WHO, trust=Trust.NoMoney, inner=SEND), CallFiltered),
        (Deputies.act(real=WHO, trust=Trust.NoMoney, inner=Utility.batch_all(calls=(SEND,))), CallFiltered),
        (
            Deputies.act(
                real=WHO,
                trust=Trust.NoMoney,
                inner=Utility.batch_all(calls=(Utility.batch_all(calls=()),)),
            ),
            CallFiltered,
        ),
        (Deputies.act(real=WHO, trust=Trust.MoneyOnly, inner=System.remark(remark=b"")), CallFiltered),
        # narrowed twice: both hold, in either order
        (Deputies.narrow(trust=Trust.NoMoney, inner=Deputies.narrow(trust=Trust.MoneyOnly, inner=SEND)), CallFiltered),
        (Deputies.narrow(trust=Trust.MoneyOnly, inner=Deputies.narrow(trust=Trust.NoMoney, inner=SEND)), CallFiltered),
        (Deputies.narrow(trust=Trust.Any, inner=Deputies.narrow(trust=Trust.MoneyOnly, inner=SEND)), None),
        # a new origin starts afresh, as in the SDK: the outer filter allowed this call and its acting account
        (Deputies.narrow(trust=Trust.NoMoney, inner=Deputies.act(real=WHO, trust=Trust.Any, inner=SEND)), None),
        # the filter comes before the origin
        (Deputies.narrow(trust=Trust.MoneyOnly, inner=Quiet.close()), CallFiltered),
        (Deputies.narrow(trust=Trust.NoMoney, inner=Quiet.close()), BadOrigin),
    ],
)
def test_an_origin_is_narrowed_to_what_all_its_filters_allow(
    bound: Bound, made: Call, error: type[DispatchError] | None
) -> None:
    assert outcome(bound, made, Signed(ALICE.account)) is error


def test_a_batch_goes_on_behind_a_filtered_call(bound: Bound) -> None:
    batch = Utility.force_batch(calls=(SEND, System.remark(remark=b"")))
    bound.dispatch(Deputies.narrow(trust=Trust.NoMoney, inner=batch), Signed(WHO))
    items = [told for _, told in bound.overlay.events if isinstance(told, ItemFailed | ItemCompleted)]
    assert items == [ItemFailed(CallFiltered.value), ItemCompleted()]


@pytest.mark.parametrize(
    ("inner", "error"),
    [
        (Utility.batch_all(calls=(SEND,)), CallFiltered),
        (Utility.batch(calls=(SEND,)), None),
        (Utility.force_batch(calls=(SEND,)), None),
    ],
)
def test_a_batch_all_holds_no_other(bound: Bound, inner: Call, error: type[DispatchError] | None) -> None:
    nested = Utility.batch_all(calls=(inner,))
    assert outcome(bound, nested, Signed(WHO)) is error
    assert outcome(bound, Utility.batch(calls=(Utility.batch_all(calls=(SEND,)),)), Signed(WHO)) is None
    assert outcome(bound, Utility.batch_all(calls=(Utility.batch_all(calls=()),)), Root()) is None, "Root is not asked"


def test_a_batch_all_deep_in_another_is_found(bound: Bound) -> None:
    deep = Utility.batch_all(calls=(Utility.force_batch(calls=(Utility.batch_all(calls=()),)),))
    bound.dispatch(deep, Signed(WHO))
    assert ItemFailed(CallFiltered.value) in [told for _, told in bound.overlay.events]


def test_the_chain_takes_what_its_base_filter_allows_in_this_state() -> None:
    bound = SmallChain(GUARDED).bound
    batch = Utility.batch_all(calls=(System.remark(remark=b""), SEND))
    alice = Signed(ALICE.account)
    assert [outcome(bound, made, alice) for made in (SEND, batch)] == [None, None]
    bound.dispatch(Quiet.close(), Root())
    assert [outcome(bound, made, alice) for made in (SEND, batch)] == [CallFiltered, CallFiltered]
    assert outcome(bound, System.remark(remark=b""), alice) is None
    assert outcome(bound, BURN, AtLeast(3)) is CallFiltered, "origins of pallets are asked too"
    assert outcome(bound, Utility.batch_all(calls=(SEND,)), Root()) is BadOrigin, "Root is not"
    assert outcome(bound, Deputies.act(real=WHO, trust=Trust.Any, inner=SEND), alice) is CallFiltered
    assert outcome(bound, Sudo.sudo_as(who=BOB.account, call=SEND), alice) is None
    failed = bound.overlay.events[-1][1]
    assert failed.sudo_result == CallFiltered.value, "who acts as an account by the sudo key is asked"


def test_a_filtered_extrinsic_pays_and_fails_and_inherents_pass() -> None:
    only_root = Runtime(RUNTIME.pallets, RUNTIME.version, base_filter=lambda _context, _call: False)
    chain = SmallChain(only_root)
    before = chain.balance(ALICE)
    chain.author(chain.signed(ALICE, SEND))  # the block's own timestamp is an inherent
    (failed,) = [told for told in chain.happened() if isinstance(told, ExtrinsicFailed)]
    assert failed.dispatch_error == CallFiltered.value
    assert (chain.nonce(ALICE), chain.balance(ALICE) < before) == (1, True)
    assert chain.balance(BOB) == SmallChain(only_root).balance(BOB)


def test_the_error_is_the_sdks() -> None:
    assert CallFiltered.value == ErrorValue(3, bytes((0, 5, 0, 0, 0)))
    assert describe_error(RUNTIME, CallFiltered.value).startswith("System.CallFiltered: ")
    assert describe_error(RUNTIME, ErrorValue(3, bytes(5))) == "error 0 of pallet 0"
    described = METADATA_V14.decode(metadata(Apis(RUNTIME, STANDARD_APIS), 14)[5:])
    (errors,) = [entry.definition for entry in described.types if entry.path == ("frame_system", "pallet", "Error")]
    assert isinstance(errors, VariantDef)
    assert [(each.name, each.index) for each in errors.variants] == [("CallFiltered", 5)]


def test_two_errors_of_a_pallet_have_two_numbers() -> None:
    first = type("First", (DispatchError,), {"place": 0})
    second = type("Second", (DispatchError,), {})
    with pytest.raises(TypeError, match="errors have one"):
        type("Doubled", (Pallet,), {"errors": (second, first)}, index=156)
