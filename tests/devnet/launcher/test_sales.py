"""The offers of a new devnet: every workload, by several providers, and tasks."""

from pathlib import Path
from typing import Any

from devnet.launcher import layout
from genesis import dev_accounts
from genesis.chain import genesis_state
from genesis.presets import RATE_MAX, load_spec
from gpu_tasks.provider.commands.containers import bidding_kinds, offers_containers
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from gpu_tasks.provider.tasks.policy_file import read_policy
from gpu_tasks.workloads.model_forms import PACKAGE_FORMS
from gpu_tasks.workloads.registry import SALE_TERMS, USUAL_TERMS, form_of
from runtime.cryptography import ss58
from runtime.encoding.types import GRAINS_PER_OGPU as OGPU


def market(net: layout.Devnet) -> dict[str, Any]:
    spec = load_spec(net.chain_spec.read_bytes())
    assert genesis_state(spec), "the chain takes it"
    assert spec.patch is not None
    found: dict[str, Any] = spec.patch["inferenceMarket"]
    return found


def test_every_workload_is_sold_by_several_providers(tmp_path: Path) -> None:
    sold = market(layout.create(tmp_path / "net", 4, providers=True, any_ports=True, sells_all=True))
    workloads = [bytes.fromhex(service["workload"][2:]) for service in sold["services"]]
    assert sorted(workloads) == sorted(form.workload_id for form in PACKAGE_FORMS)
    assert workloads[0] == PACKAGE_FORMS[0].workload_id, "service 0 stays what every example buys"
    for number in range(len(workloads)):
        sellers = {offer["device"] for offer in sold["offers"] if offer["service"] == number}
        assert len(sellers) == (3 if number else 4), "two race, and another judges"
    for number, service in enumerate(sold["services"][1:], 1):
        form = form_of(workloads[number])
        assert form is not None
        ask, cost_max = SALE_TERMS.get(form.name, USUAL_TERMS)
        assert bytes.fromhex(service["model"][2:]) == form.model_id
        assert (service["name"], service["owner"]) == (form.name, ss58.encode(dev_accounts.stash("Alice")))
        assert (service["price_min"], service["price_max"], service["tokens_max"]) == (ask, RATE_MAX, cost_max)
        assert (service["ramp"], service["commit_window"]) == (layout.RAMP_BLOCKS, layout.COMMIT_WINDOW_BLOCKS)
        assert {offer["ask"] for offer in sold["offers"] if offer["service"] == number} == {ask}
    assert tuple(USUAL_TERMS) == (OGPU // 100, 10_000)
    assert SALE_TERMS == {"render-tile": (OGPU // 1_000, 4_000_000_000)}


def test_its_providers_bid_for_every_kind_of_task(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 4, providers=True, any_ports=True, sells_all=True)
    for member in net.members:
        policy = read_policy(net.home(member) / "provider", bidding_kinds())
        assert set(policy.kinds) == set(bidding_kinds())
        assert offers_containers(policy)
        assert policy.least_price == price_of(layout.LEAST_PRICE)
        assert policy.gangs
        assert policy.containers.any_archive
        assert policy.containers.images == layout.IMAGES


def test_other_devnets_are_sold_what_their_own_programs_offer(tmp_path: Path) -> None:
    net = layout.create(tmp_path / "net", 4, providers=True, any_ports=True)
    assert len(market(net)["services"]) == 1
    assert read_policy(net.home(net.members[0]) / "provider", bidding_kinds()) == BidPolicy()
