"""`python -m devnet.proofs.chats`: chats in sessions on a devnet, by the programs that people use.

A devnet of four validators, three of which sell sessions of a language model. One session is one `ogpu chat`. Parts:

* `speed`: four chats at once at one provider, in turns with the bare engine. The slowest first token comes at most a
  second after the engine's 95th percentile, and the chats reach eight tenths of its tokens a second.
* `killed-provider`: the provider is killed amid an answer, and the spare goes on. The answer is that of one run in one
  process. Both providers are paid.
* `killed-customer`: `ogpu chat` is killed amid answers, and started again. Each answer is that of one run. The claims
  are the customer's newest vouchers.
* `settled`: every session ends, and each grain of the deposits is where the rules state.

In reading order: `seats`, `chat_program`, `session_book`, `network`, then the parts: `bare` and `speed`, `kills`. The
proof writes `out/chats.json`.
"""
