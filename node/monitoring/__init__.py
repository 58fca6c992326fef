"""What people watch of a node: log lines, Prometheus figures, the last polls. Nothing here moves anything.

In reading order:

* `metrics`: the figures by name
* `metrics_server`: the thread that answers Prometheus
* `figures`: what happens to blocks, as log lines and figures
* `check_figures`: checks of batches and disputes of racers: how many wait for what, how they ended
* `seat_figures`: what the own seat weighs, and which slots and votes of it are missing
* `poll_log`: the last polls: who was asked, what each answered
* `monitoring`: all of it, put together
"""
