// @polkadot/api, unmodified, against a development node: node proof.mjs ws://HOST:PORT
import { randomBytes } from 'node:crypto';
import { ApiPromise, Keyring, WsProvider } from '@polkadot/api';

const OGPU = 10n ** 8n;
const say = (step, facts) => console.log(JSON.stringify({ step, ...facts }));
const check = (holds, what) => {
  if (!holds) {
    console.error(`not as it should be: ${what}`);
    process.exit(1);
  }
};

// Sign, hand in, and wait until it is final. Most programs wait for `isInBlock`: one that never comes hangs them.
const submit = (call, who) =>
  new Promise((resolve, reject) => {
    let inBlock = false;
    call.signAndSend(who, (result) => {
      if (result.status.isInBlock) inBlock = true;
      if (result.status.isFinalized) {
        check(inBlock, 'in a block before it is final');
        resolve(result);
      }
      else if (result.isError) reject(new Error(`the extrinsic is ${result.status.type}`));
    }).catch(reject);
  });

const transfer = async (api, kind, sender, receiver, amount) => {
  const result = await submit(api.tx.balances.transferKeepAlive(receiver.address, amount), sender);
  const sent = result.events.map(({ event }) => event).filter((event) => api.events.balances.Transfer.is(event));
  check(!result.dispatchError && sent.length === 1, `transfer by ${kind}`);
  const [from, to, value] = sent[0].data;
  check(from.toString() === sender.address && to.toString() === receiver.address, 'who is in the event');
  check(value.toBigInt() === amount, 'the amount in the event');
  const block = (await api.rpc.chain.getHeader(result.status.asFinalized)).number.toNumber();
  const final = (await api.rpc.chain.getHeader(await api.rpc.chain.getFinalizedHead())).number.toNumber();
  check(final >= block, 'the block is final');
  say('transfer', { kind, block, final });
};

const api = await ApiPromise.create({ provider: new WsProvider(process.argv[2]), noInitWarn: true });
const alice = new Keyring({ type: 'sr25519', ss58Format: 42 }).addFromUri('//Alice');
const newcomer = new Keyring({ type: 'ed25519', ss58Format: 42 }).addFromSeed(randomBytes(32));
say('connected', { chain: api.runtimeChain.toString(), metadata_pallets: api.runtimeMetadata.asLatest.pallets.length });

const { data } = await api.query.system.account(alice.address);
const deposit = api.consts.balances.existentialDeposit.toBigInt();
const accounts = (await api.query.system.account.entriesPaged({ args: [], pageSize: 10 })).length;
check(data.free.toBigInt() > 0n && deposit > 0n && accounts > 1, 'Alice has money, there are accounts');
const stash = (await api.query.session.validators())[0];
const reserved = (await api.query.system.account(stash)).data.reserved.toBigInt();
const held = await api.query.balances.holds(stash);
check(reserved > 0n && held.reduce((sum, entry) => sum + entry.amount.toBigInt(), 0n) === reserved, 'holds are what is reserved');
check(held.some((entry) => entry.id.isTrustStake && entry.id.asTrustStake.isStake), 'a stake among the holds');
say('read', { free: data.free.toString(), existential_deposit: deposit.toString(), accounts });

const call = api.tx.balances.transferKeepAlive(newcomer.address, OGPU);
const fee = (await call.paymentInfo(alice)).partialFee.toBigInt();
const nonce = (await api.call.accountNonceApi.accountNonce(alice.address)).toNumber();
check(fee > 0n && nonce === (await api.rpc.system.accountNextIndex(alice.address)).toNumber(), 'fee and nonce');
check((await api.query.balances.locks(alice.address)).length === 0, 'no locks');
say('fee', { fee: fee.toString(), nonce });

const freeAt = async (block) => (await (await api.at(block)).query.system.account(alice.address)).data.free.toBigInt();
const old = await api.rpc.chain.getFinalizedHead();
const before = await freeAt(old);

await transfer(api, 'sr25519', alice, newcomer, 50n * OGPU);
await transfer(api, 'ed25519', newcomer, alice, OGPU);

// A bond of one's own, a delegation; and what the state and a runtime API say of them, all by metadata.
const [bond, delegated] = [10n * OGPU, 2n * OGPU];
check(!(await submit(api.tx.trustStake.bond(bond), newcomer)).dispatchError, 'a bond');
const behind = await submit(api.tx.trustStake.delegate(stash, delegated), newcomer);
const said = behind.events.map(({ event }) => event).filter((event) => api.events.trustStake.Delegated.is(event));
check(said.length === 1 && said[0].data.amount.toBigInt() === delegated, 'the event of the delegation');
const pool = (await api.query.trustStake.pools(stash)).stake;
const position = (await api.query.trustStake.positions(newcomer.address, stash)).unwrap();
const worth = (position.shares.toBigInt() * pool.value.toBigInt()) / pool.shares.toBigInt();
check((await api.query.trustStake.bonds(newcomer.address)).toBigInt() === bond, 'the bond in the state');
check(worth === delegated, `the delegation by its shares: ${worth}`);
check((await api.query.trustStake.positions.keys(newcomer.address)).length === 1, 'what an account has by a prefix');
const summary = await api.call.ogpuApi.stakes(newcomer.address);
const total = summary.stakes.reduce((sum, stake) => sum + stake.value.toBigInt(), 0n);
check(total === bond + delegated, `what the runtime says: ${summary}`);
say('stake', { bond: bond.toString(), delegated: worth.toString() });

const refused = await submit(api.tx.sudo.sudo(api.tx.system.remark('0x00')), newcomer);
check(refused.dispatchError?.isModule, 'a call that must fail fails with a module error');
const error = api.registry.findMetaError(refused.dispatchError.asModule);
check(error.name === 'RequireSudo', `error: ${error.name}`);
say('module error', { name: error.name, docs: error.docs });

const now = await freeAt(await api.rpc.chain.getFinalizedHead());
check((await freeAt(old)) === before && before !== now, 'the balance at an old block');
const unknown = await freeAt(`0x${'11'.repeat(32)}`).then((found) => ({ found }), (problem) => ({ problem }));
check(unknown.problem, `a balance of ${unknown.found} at a block that is not there`);
say('old block', { free: before.toString(), unknown: unknown.problem.message });
await api.disconnect();
