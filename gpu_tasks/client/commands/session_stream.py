"""The stream of a session at its customer, built from the chain's record, a key and a file of this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cli.session import WalletSession
from gpu_tasks.client.sessions.session_client import NextProvider, SessionClient
from gpu_tasks.client.sessions.session_line import SessionLines
from gpu_tasks.client.sessions.session_reads import KnownSession, SessionError
from gpu_tasks.client.sessions.session_store import SessionFile, SessionFileError, session_file
from gpu_tasks.data.sealing import SealKey
from gpu_tasks.market.sessions.records import SessionState
from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from gpu_tasks.models.catalogue import install_advice
from gpu_tasks.workloads import model_forms
from gpu_tasks.workloads.form import WorkloadForm
from runtime.blocks.extrinsic import MULTI_SIGNATURE, MultiSignature
from wallet.keypair import Keypair


def form_of_session(found: KnownSession) -> WorkloadForm:
    """Return the workload of a session. Raise SessionError if its model is not on this machine."""
    form = model_forms.form_of(found.record.workload, found.record.model)
    if form is None:
        raise SessionError(
            f"the model 0x{found.record.model.hex()} is not on this machine. {install_advice(found.record.model)}",
            code="model_unknown",
        )
    return form


def signer_of(genesis: bytes, keypair: Keypair) -> Callable[[Voucher], bytes]:
    """Return the function that signs vouchers with a key."""

    def sign(voucher: Voucher) -> bytes:
        signature = keypair.sign(voucher_payload(genesis, voucher))
        encoded: bytes = MULTI_SIGNATURE.encode(MultiSignature(keypair.scheme, signature))
        return encoded

    return sign


def present_provider(session: WalletSession, found: KnownSession, keypair: Keypair) -> NextProvider:
    """Return the provider of the newest leg."""
    leg = found.record.legs[-1]
    lines = SessionLines(found.id, leg.owner, SealKey.of(keypair), session.connect)
    return NextProvider(len(found.record.legs) - 1, leg.first_period, lines.dial)


async def send_last_voucher(
    session: WalletSession, found: KnownSession, keypair: Keypair, genesis: bytes, folder: Path
) -> None:
    """Send the newest voucher of this machine to the provider of an open session, in case it is lost.

    A session that another program has open, or without a file or model here, stays as it is.
    """
    record, form = found.record, model_forms.form_of(found.record.workload, found.record.model)
    is_open = record.state is SessionState.OPEN and record.signer == keypair.account
    if form is None or not is_open or not session_file(folder, found.id).exists():
        return
    # The file may be in use or damaged, and the session can be closed all the same.
    with suppress(SessionFileError), SessionFile(folder, found.id) as store:
        provider = present_provider(session, found, keypair)
        stream = SessionClient(found.terms(genesis), form, store, signer_of(genesis, keypair), provider, _no_other)
        await stream.settle()
        await stream.close()


async def _no_other(leg: int, reason: str) -> None:
    """Hand nothing over."""
