"""Utilization of the shared-memory atomic unit, from counters: queue model, closed network, fitted maps,
verdict."""
