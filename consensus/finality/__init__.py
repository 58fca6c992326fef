"""The Simplex finality gadget: checkpoints proposed, notarised, finalised or skipped.

In reading order:

* `rounds`: certificates of the gadget by round
* `hearing`: what is said in one epoch: verified, counted, watched for offences
* `relay`: ballots and certificates for those whom their makers do not reach
* `gadget`: one epoch of the finality gadget
* `catchup`: certificates for whoever is behind
"""
