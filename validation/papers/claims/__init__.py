"""The ledger of claims: what our source papers say, and whether it holds here.

``validation/papers/claims/claims.toml`` lists the claims. A claim names *quantities*, registered functions
that compute a number from the simulator, from the models or by arithmetic on published tables, and the range
in which each number would confirm it; or it names the *capability* that is missing here. The verdict follows
from both, by code, in the run that prints it.
"""

from smlab.validation.papers.claims.ledger import (
    Claim,
    JudgedClaim,
    Ledger,
    judge,
    judge_all,
    load_ledger,
    tally,
)

__all__ = ["Claim", "JudgedClaim", "Ledger", "judge", "judge_all", "load_ledger", "tally"]
