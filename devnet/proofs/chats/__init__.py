"""`python -m devnet.proofs.chats`: chats in sessions on a devnet, by the programs that people use.

A devnet of four validators, three of which sell sessions of a language model. One session is one `ogpu chat`. Parts:

* Speed: four chats at once at one provider, in turns with the bare engine. The slowest first token comes at most a
  second after the engine's 95th percentile. The chats reach eight tenths of the engine's tokens a second.
* Killed provider: the provider is killed amid an answer, and the spare goes on. The answer is that of one run in one
  process, and both providers are paid.
* Killed customer: `ogpu chat` is killed amid answers, and started again. Each answer is that of one run. The claims are
  the customer's newest vouchers.
* Settled: every session ends, and each grain of the deposits is where the rules state.

The proof writes `out/chats.json`. In reading order:

* `sold_sessions`: the sale of the model, opened sessions, and their files at the customer
* `chat_program`: `ogpu chat` at a terminal or with a pipe, with the time of each piece of text
* `network`: the devnet, with the ledger of all sessions
* `bare`: the engine without a network
* `speed`: four chats beside the engine
* `kills`: killed providers and customers
* `__main__`: the parts, and the end of every session
"""
