"""Closed-form models of the GPU: operational laws, closed networks, the shared-memory atomic unit."""

from smlab.models.operational import (
    Bottleneck,
    Bounds,
    Observation,
    asymptotic_bounds,
    balanced_job_bounds,
    bottleneck,
    flow_imbalance,
    forced_flow_law,
    interactive_response_time_law,
    is_flow_balanced,
    littles_law,
    response_time_law,
    utilization_law,
)
from smlab.models.utilization.atomic_queue import (
    AtomicCounters,
    UtilizationEstimate,
    estimate_utilization,
    read_atomic_counters,
)
from smlab.models.utilization.closed_estimator import ClosedEstimate, estimate_closed
from smlab.models.utilization.closed_network import (
    NetworkSolution,
    RepairmanSolution,
    Station,
    solve,
    solve_machine_repairman,
)
from smlab.models.utilization.service_table import ServiceTable

__all__ = [
    "AtomicCounters",
    "Bottleneck",
    "Bounds",
    "ClosedEstimate",
    "NetworkSolution",
    "Observation",
    "RepairmanSolution",
    "ServiceTable",
    "Station",
    "UtilizationEstimate",
    "asymptotic_bounds",
    "balanced_job_bounds",
    "bottleneck",
    "estimate_closed",
    "estimate_utilization",
    "flow_imbalance",
    "forced_flow_law",
    "interactive_response_time_law",
    "is_flow_balanced",
    "littles_law",
    "read_atomic_counters",
    "response_time_law",
    "solve",
    "solve_machine_repairman",
    "utilization_law",
]
