"""Portability: how one code's time on one GPU relates to its time on others.

`launch_series` tells a configuration's steady time, its first launches, its noise and whether it drifts;
`ratios` compares two GPUs configuration by configuration, with intervals that know drift; `metric` sums a set
up (Pennycook et al.) without hiding its distribution; `transfer` says which configurations to measure on a
new GPU when a whole measured space of the old one is at hand.
"""
