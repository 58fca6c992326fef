"""The Simplex finality gadget: checkpoints proposed, notarised, finalised or skipped.

In reading order:

* `rounds`: certificates of the gadget by round
* `ballotbox`: votes of the gadget, counted and watched
* `hearing`: what is said in one epoch: verified, counted, watched for offences
* `aftermath`: what is still said of the epoch before, for evidence alone
* `voting`: which checkpoint is proposed, and which deserves a vote
* `roundclock`: since when a round has had work
* `relay`: ballots and certificates for those whom their makers do not reach
* `gadget`: one epoch of the finality gadget
* `catchup`: certificates for whoever is behind
"""
