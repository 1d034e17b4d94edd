"""A campaign of simulated kernels unlike each other: how far each estimate of the atomic unit's utilization
can be trusted.

`families` draws the kernels, `simulate` runs them, `fit` makes the trust map (`models/trust_map.json`) from
some families, `judge` holds estimates and intervals against the truth on others, `check` puts that into the
report of ``smlab validate``. ``python -m smlab.validation.trust --out models/trust_map.json`` makes the map
anew.
"""

from smlab.validation.trust.campaign import run_campaign
from smlab.validation.trust.families import FAMILIES, FIT, HELD_OUT
from smlab.validation.trust.simulate import CampaignTable

__all__ = ["FAMILIES", "FIT", "HELD_OUT", "CampaignTable", "run_campaign"]
