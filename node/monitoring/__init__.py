"""The view of a node for people: log lines, Prometheus figures, the last polls. No code here changes the node.

In reading order:

* `metrics`: the figures by name
* `metrics_server`: the thread that answers Prometheus
* `figures`: log lines and figures about blocks
* `check_figures`: checks of batches and disputes of racers: the open ones by status, the ended ones by outcome
* `seat_figures`: the weight of the own seat, and its missed slots and votes
* `poll_log`: the last polls: the asked validators, and their answers
* `monitoring`: the parts above, put together
"""
