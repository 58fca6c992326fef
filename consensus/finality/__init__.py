"""The Simplex finality gadget: checkpoints proposed, notarised, finalised or skipped.

In reading order:

* `rounds`: certificates of the gadget by round
* `hearing`: the proposals and votes of one epoch: verified, counted, watched for offences
* `relay`: ballots and certificates for peers without a link to their signers
* `gadget`: one epoch of the finality gadget
* `catchup`: certificates for peers that are behind
"""
