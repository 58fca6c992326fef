"""Every known way to cheat the market, on real devnets: `make cheats`.

In reading order:

* `units`: cheats about units, one mode after the other; findings
* `batch_judgement`: lies about batches, what final blocks say of them, and what must have come of each
* `batches`: all these lies on one devnet
* `differing`: batches that two answer differently
* `task_strangers`: cheats about tasks by transactions alone
* `task_judgement`: cheats about tasks, and what must have come of each
* `tasks`: these cheats one after the other; many honest tasks
* `__main__`: all of them, and the line of figures
"""
