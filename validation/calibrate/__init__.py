"""From a measured data set to a GPU description: fit the simulator's atomic unit and shared-memory pipe, and
judge the fit.

`dataset` reads what the benchmarks wrote, `predict` simulates it, `fit` finds the parameters on a part of
the cases, `judge` compares on the others, `description` writes the result; `calibration` does all of it,
and `simulated` makes a data set of a machine that is known.
"""

from smlab.validation.calibrate.calibration import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
