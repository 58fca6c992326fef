"""The commands of `ogpu`: about units, about services, and how one is sent.

In reading order:

* `sending`: how a command sends a call: what it costs is shown, people are asked, and what became of it is shown
* `units`: units that were posted: follow them, read their results, take one back, appeal about one
* `showing`: what the chain says of a unit: how it stands, why it ended, who was paid what
* `post`: post units: what it costs and who could take it is known before anything is sent
* `offering`: the market as it stands: a search, prices
* `tasks`: task files: what one comes to, and the schema of all
* `planning`: what would become of a task
* `services`: what is sold and who offers it, a service of one's own and its end
"""
