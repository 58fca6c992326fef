"""The data plane: sealed blobs, addressed by hash, kept off chain.

In reading order:

* `sealing`: content encrypted once, its key sealed to each reader
* `unit_input`: what a customer seals for the racers of a unit, and how a result is named on chain
* `placement`: which blob stores keep a blob
* `blob_client`: blobs over HTTP: store one, fetch one
* `market_reads`: what providers and customers ask a node about the market, typed
"""
