"""Judging what `smlab.models.portability` says: causes by counterfactual runs on simulated GPUs, and what
`smlab port tune` finds in whole measured spaces. ``python -m smlab.validation.campaigns.portability``
makes the studies anew.
"""
