"""Closed-form models of the GPU: closed networks, the shared-memory atomic unit."""

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
    "ClosedEstimate",
    "NetworkSolution",
    "RepairmanSolution",
    "ServiceTable",
    "Station",
    "UtilizationEstimate",
    "estimate_closed",
    "estimate_utilization",
    "read_atomic_counters",
    "solve",
    "solve_machine_repairman",
]
