"""Every known way to cheat the market, on real devnets: `make cheats`.

In reading order:

* `findings`: the findings of a scene
* `unit_scenes`: cheats about units, as one table
* `unit_money`: the payments that the money tables state for a unit
* `unit_judgement`: the required outcomes of a unit
* `units`: these scenes on one devnet
* `task_strangers`: cheats about tasks by transactions alone
* `task_judgement`: cheats about tasks, and the required outcomes
* `tasks`: these cheats one after the other; many honest tasks
* `session_scenes`: cheats in sessions, and hostile customers
* `session_judgement`: the required outcomes of a session
* `sessions`: these scenes on one devnet
* `models`: a language model computed wrongly, alone, beside a rival and in batches; with `MODEL=NAME` only
* `__main__`: all others, and the line of figures
"""
