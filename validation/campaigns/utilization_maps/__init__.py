"""A campaign of simulated kernels unlike each other: how far each estimate of the atomic unit's utilization
can be trusted.

`families` names the kinds of kernels and draws them (`random_families` those of random programs),
`simulate` runs them, `fit` makes the trust map (`models/utilization/trust_map.json`) and `fit_maps` the
counter maps. ``python -m smlab.validation.campaigns.utilization_maps --out
models/utilization/trust_map.json`` makes the maps anew.
"""

from smlab.validation.campaigns.utilization_maps.draws import run_campaign
from smlab.validation.campaigns.utilization_maps.families import FAMILIES, FIT
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable

__all__ = ["FAMILIES", "FIT", "CampaignTable", "run_campaign"]
