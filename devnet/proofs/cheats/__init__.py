"""Every known way to cheat the market, on real devnets: `make cheats`.

In reading order:

* `units`: cheats about units, one mode after the other; findings
* `batch_scenes`: lies about batches, and their traces in final blocks
* `batch_judgement`: the required outcomes of their checks
* `batches`: all these lies on one devnet
* `differing`: batches with two different answers
* `task_strangers`: cheats about tasks by transactions alone
* `task_judgement`: cheats about tasks, and the required outcomes
* `tasks`: these cheats one after the other; many honest tasks
* `models`: a language model computed wrongly, alone, beside a rival and in batches; with `MODEL=NAME` only
* `__main__`: all others, and the line of figures
"""
