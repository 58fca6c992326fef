"""The behaviours of the game of claims (`simulation/claims_game.py`), played on the real pallets with a toy market.

In reading order:

* `habits`: the behaviours of providers, checkers, voters, disputers and their coalitions
* `network`: validators with a coalition among them, and claims that are about to be checked
* `play`: one claim from the draw of its first checker to its end
* `results`: gains over honest behaviour, with their errors, and the losses of honest parties
"""
