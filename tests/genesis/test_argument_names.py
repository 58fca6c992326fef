"""Names for code generators: none is a reserved word of JavaScript, TypeScript, Rust or Python.

Generators of typed clients (papi, dedot, subxt) make parameters and functions of them, and fail on a reserved word.
"""

import keyword
from collections.abc import Iterator

from genesis.chain import apis_for
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import METADATA_V15, VariantDef

JAVASCRIPT = frozenset(
    """
    abstract arguments as async await boolean break byte case catch char class const constructor continue debugger
    default delete do double else enum eval export extends false final finally float for from function get goto if
    implements import in instanceof int interface let long native new null package private protected public return set
    short static super switch synchronized this throw throws transient true try typeof undefined var void volatile
    while with yield
    """.split()
)
"""Words that ECMAScript reserves always, in strict mode, in modules or in its third edition, and predefined names."""
RUST = frozenset(
    """
    abstract as async auto await become box break const continue crate default do dyn else enum extern false final fn
    for gen if impl in let loop macro macro_rules match mod move mut override priv pub raw ref return safe self Self
    static struct super trait true try type typeof union unsafe unsized use virtual where while yield
    """.split()
)
"""Strict, reserved and weak keywords of all editions."""
PYTHON = frozenset([*keyword.kwlist, *keyword.softkwlist, "self", "cls"])
RESERVED = JAVASCRIPT | RUST | PYTHON
NAMED_BY_THE_SDK = {("Sudo.set_key", "new")}
"""Names of the SDK, which every generator already handles."""

METADATA = METADATA_V15.decode(metadata(apis_for("devnet", is_development=True), 15)[5:])


def arguments() -> Iterator[tuple[str, str]]:
    """Each argument of a call or a runtime API, with where it is."""
    for pallet, name, fields in calls():
        yield from ((f"{pallet}.{name}", str(field)) for field in fields)
    for api in METADATA.apis:
        for method in api.methods:
            yield from ((f"{api.name}.{method.name}", parameter.name) for parameter in method.inputs)


def calls() -> Iterator[tuple[str, str, list[str | None]]]:
    """Each call: its pallet, its name, its arguments."""
    for pallet in (described.pallet for described in METADATA.pallets):
        if pallet.calls is None:
            continue
        definition = METADATA.types[pallet.calls].definition
        assert isinstance(definition, VariantDef)
        for variant in definition.variants:
            yield pallet.name, variant.name, [field.name for field in variant.fields]


def test_there_are_arguments_to_look_at() -> None:
    found = {where for where, _ in arguments()}
    assert {"Balances.transfer_keep_alive", "Disputes.appeal", "DisputesApi.ballots"} <= found


def test_no_argument_is_a_reserved_word() -> None:
    for where, name in arguments():
        assert name.isidentifier(), where
        assert name not in RESERVED or (where, name) in NAMED_BY_THE_SDK, where


def test_no_call_and_no_api_is_a_keyword() -> None:
    """JavaScript allows every word as the name of a property. Rust and Python allow no reserved word."""
    names = {name for _, name, _ in calls()} | {method.name for api in METADATA.apis for method in api.methods}
    assert not names & (RUST | frozenset(keyword.kwlist))
