"""The hierarchical roofline with ceilings of each kernel's own, and a kernel's time on another GPU.

Van Lanker, Taboada, Brunet and Trahay, "Predicting GPU kernel's performance on upcoming architectures",
Euro-Par 2024 (Eq. 1 to 10), and beyond it: instruction roofline, parallelism ceiling, cache capacity, launch
overhead, each switchable.
"""

from smlab.hw_bench.profiles.kernel_work import KernelWork
from smlab.models.roofline.ceilings import Ceilings, ceilings
from smlab.models.roofline.maxima import Maxima, maxima_of
from smlab.models.roofline.projection import Projection, ProjectionSwitches, project

__all__ = [
    "Ceilings",
    "KernelWork",
    "Maxima",
    "Projection",
    "ProjectionSwitches",
    "ceilings",
    "maxima_of",
    "project",
]
