"""Every workload as the market uses it: on a chain, by the providers' real worker processes, checked after a lie."""

from dataclasses import replace
from pathlib import Path

import pytest

from devnet.stage.cheating.executors import FlippedBit
from fake_work import FakeExecutor, FakeForm
from gpu_tasks.batches.outcomes import Completed, decode_outcomes
from gpu_tasks.data.unit_output import output_of
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.race_results import result
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.execution.executor import Executor
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.form import WorkloadForm
from nightly_but import nightly_but
from provider_chain import CUSTOMER_SEAL, INPUT_SALT, Village
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, signed
from workload_samples import SAMPLES

PROVIDERS, COST_MAX = 5, 12
VOTERS = 3


def village_with(form: WorkloadForm, folder: Path) -> Village:
    """Return five machines that compute in separate processes. The first one flips a bit of every output."""
    village, honest = Village(folder, PROVIDERS), workers_with("numpy")
    liar = village.node.chain.validators[0]

    def make(hardware: Hardware, asked: WorkloadForm) -> Executor:
        if asked is not form:
            return FakeExecutor(asked)
        executor = honest(hardware, asked)
        return FlippedBit(executor) if hardware.uuid.endswith(liar.name) else executor

    village.forms, village.make = [FakeForm(), form], make
    return village


async def sell(village: Village, form: WorkloadForm) -> None:
    """Create service 1 for this workload, offered by the liar and one other."""
    chain = village.node.chain
    known = (await village.miners[0].chain.service(0)).terms
    terms = replace(known, workload=form.workload_id, model=form.model_id, name=form.name.encode())
    chain.block(
        signed(CUSTOMER.stash, InferenceMarket.create_service(terms=terms)),
        *(
            signed(keys.stash, InferenceMarket.offer(device=keys.device, service=1, ask=1))
            for keys in chain.validators[:2]
        ),
    )
    chain.blocks(3)


@pytest.mark.parametrize("form", nightly_but(1, model_forms.PACKAGE_FORMS), ids=lambda form: form.name)
async def test_a_unit_of_every_workload_is_raced_for_and_voted_about(form: WorkloadForm, tmp_path: Path) -> None:
    request = form.encode(SAMPLES[form.name], COST_MAX, {}, bytes(32))
    right = form.open("numpy").run(request)
    async with village_with(form, tmp_path) as village:
        await sell(village, form)
        unit = await village.post(request, service=1, tokens_max=COST_MAX, tokens_in=form.cost_in(request))
        ended = (await village.run(unit)).unit
        assert ended.state is UnitState.SETTLED
        outcomes = [Completed(right, form.cost_in(request), form.cost(right))]
        assert ended.output_root == output_of(GENESIS_HASH, unit, INPUT_SALT, outcomes).root
        liar, other = village.miners[:2]
        assert [slash.provider for slash in village.node.chain.happened(ProviderSlashed)] == [liar.keys.stash]
        outcome = result(ended.racers, ended.output_root)
        assert outcome is not None
        assert outcome.winner.owner == other.keys.stash
        assert outcome.winner.reveal is not None
        assert outcome.winner.reveal.output_tokens == form.cost(right)
        blob = other.daemon.parts.store.get(outcome.winner.reveal.output_blob)
        assert decode_outcomes(CUSTOMER_SEAL.open(blob or b"")) == tuple(outcomes)
        assert [miner.heard.names().count("statement_reveal") for miner in village.miners] == [0, 0] + VOTERS * [1]
