"""The JSON-RPC process: its own replica of the chain, and every method of the public interface.

In reading order:

* `jsonrpc`: requests and answers as values
* `callers`: the callers behind requests, and their limits of calls
* `work`: the cost of one message, step by step
* `subscriptions`: items from one writer to many clients
* `past_states`: states after recent final blocks
* `replica`: this process's copy of the chain, fed by the node
* `block_reads`: blocks for parameters, and blocks as JSON
* `runtime_calls`: the chain's runtime over the replica's states
* `registry`: the declared methods, and their parameters
* `questions`: the order of callers' questions to the node
* `long_calls`: calls with long arguments, computed beside the loop
* `methods`: the methods
* `access`: the rules of allowed hosts and origins
* `held_bytes`: the memory that this process holds for clients
* `freed_memory`: the return of freed memory to the system
* `connection`: one WebSocket
* `server`: HTTP and WebSocket
* `__main__`: the process
* `supervisor`: the start of the process beside the node, and its restarts
"""
