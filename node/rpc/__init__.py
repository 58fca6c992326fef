"""The JSON-RPC process: its own replica of the chain, and every method of the public interface.

In reading order:

* `jsonrpc`: requests and answers as values
* `callers`: which requests come from one caller, and how many calls it may make
* `work`: what one message costs, step by step
* `subscriptions`: what one writer tells many clients
* `past_states`: states after recent final blocks
* `replica`: the chain as this process knows it, fed by the node
* `block_reads`: how parameters find blocks, and blocks as JSON
* `runtime_calls`: the chain's runtime over the replica's states
* `registry`: which methods exist, and their parameters
* `questions`: who asks the node next
* `long_calls`: what is worked out beside the loop that answers everybody
* `methods`: the methods
* `access`: who may ask at all
* `held_bytes`: the memory that clients make this process hold
* `freed_memory`: goes back to the system
* `connection`: one WebSocket
* `server`: HTTP and WebSocket
* `__main__`: the process
* `supervisor`: starts it beside the node, and again when it dies or hangs
"""
