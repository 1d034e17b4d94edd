"""Solver against closed forms, simulator against solver, and the coverage of the intervals used for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.models import Station, solve, solve_machine_repairman
from smlab.sim.workloads.workload import Duration
from smlab.validation.checks import Plan, Results, Task, shares
from smlab.validation.laws.closed_system import (
    LATENCY_CYCLES,
    closed_kernel,
    gaps_between_completions,
    run_closed,
    steady_state,
    steady_window,
    theory_gpu,
)
from smlab.validation.method.statistics import Interval, batch_means, binomial_interval, mean_interval
from smlab.validation.report import Column, Report
from smlab.validation.report.figures import mva_against_simulation

POPULATIONS = (1, 2, 4, 8, 16, 32, 64)
SERVICE, THINK = 100.0, 10_000.0
"""The machine repairman with think time 100 and service time 1, in hundredths of it: simulated time is
whole cycles."""

KNOWN_THROUGHPUT = 0.624339
"""X of the machine repairman M/M/1//64 with think time 100 and service time 1, by its closed form."""

QUANTITIES = ("throughput", "queue_length", "utilization")
FALSE_ALARMS = 0.001
"""How often a sound simulator may fail this check, over all its comparisons together. (With 5 % it would fail
for one seed in twenty, and users would learn to ignore it.)"""

TRIALS, COVERAGE_PARTS = 400, 4
SMALL = {"warps": 4, "iterations": 400, "think": 60.0, "service": 20.0}


def replications(population: int, count: int, iterations: int, seed: int, engine: str) -> NDArray[np.float64]:
    """Independent runs of the simulated machine repairman: (runs, quantities), per cycle and in jobs."""
    think, service = Duration(THINK, "exponential"), Duration(SERVICE, "exponential")
    kernel, window = (
        closed_kernel(population, iterations, think, service),
        steady_window(iterations, think, service),
    )
    seeds = SeedSequence([seed, population]).generate_state(count, np.uint32)
    gpu = theory_gpu()
    found = [steady_state(run_closed(kernel, gpu, int(s), engine), window) for s in seeds]
    return np.array([[f.throughput, f.queue_length, f.utilization] for f in found])


def exact(population: int) -> tuple[float, float, float]:
    """Throughput, n and utilization of the simulated system by theory.

    The pipeline's cycle is a delay beside the think time for the queue, but a job in it still counts in n and
    keeps the unit busy. By Little's law it adds X to n. To the busy time it adds a cycle whenever a job
    leaves the server empty, which happens at the rate p(1) / service (that somebody arrives within that cycle
    is of second order).
    """
    solution = solve_machine_repairman(np.full(population, SERVICE), THINK + LATENCY_CYCLES, population)
    x, alone = float(solution.throughput), float(solution.marginal[1])
    return (
        x,
        float(solution.queue_length) + x * LATENCY_CYCLES,
        float(solution.utilization) + alone / SERVICE * LATENCY_CYCLES,
    )


@dataclass(frozen=True)
class Covered:
    """Trials of the interval procedure: how many intervals held the truth, how many series were refused as
    too short."""

    held: int
    refused: int
    trials: int


def small_truth() -> float:
    """1 / X of the small closed system, in cycles."""
    service = np.full(int(SMALL["warps"]), SMALL["service"])
    return 1 / float(
        solve_machine_repairman(service, SMALL["think"] + LATENCY_CYCLES, int(SMALL["warps"])).throughput
    )


def coverage_trials(count: int, seed: int, engine: str) -> Covered:
    """Simulate the small closed system ``count`` times and ask each interval for 1 / X whether it holds
    the truth."""
    think, service = Duration(SMALL["think"], "exponential"), Duration(SMALL["service"], "exponential")
    iterations = int(SMALL["iterations"])
    kernel = closed_kernel(int(SMALL["warps"]), iterations, think, service)
    window = steady_window(iterations, think, service)
    gpu, truth = theory_gpu(), small_truth()
    held = refused = 0
    for stream in SeedSequence(seed).generate_state(count, np.uint32):
        gaps = gaps_between_completions(run_closed(kernel, gpu, int(stream), engine), window)
        try:
            held += batch_means(gaps, batches=16, warmup=0).contains(truth)
        except SmlabError:
            refused += 1
    return Covered(held, refused, count)


def tasks(plan: Plan) -> list[Task[str]]:
    runs, iterations = (20, 200) if plan.quick else (60, 1000)
    stream = SeedSequence(plan.seed).generate_state(2 + COVERAGE_PARTS, np.uint32).tolist()
    simulations = [
        Task(f"theory-{n}", replications, (n, runs, iterations * max(1, 8 // n), stream[0], plan.engine))
        for n in reversed(POPULATIONS)
    ]
    trials = [
        Task(f"coverage-{i}", coverage_trials, (count, stream[2 + i], plan.engine))
        for i, count in enumerate(shares(TRIALS, COVERAGE_PARTS))
    ]
    return [*simulations, *trials]


def report(page: Report, plan: Plan, results: Results) -> None:
    section = page.section(
        "theory",
        "Theory: solver, simulator and intervals",
        "The machine repairman, N warps that think and then wait for the atomic unit, with exponential "
        "times, has an exact solution. The solver is held to closed forms, the simulator to the solver, and "
        "the confidence intervals to their coverage.",
    )
    repairman = float(solve_machine_repairman(np.ones(64), 100.0, 64).throughput)
    mva = float(solve([Station("server", 1.0)], 100.0, 64).throughput[-1])
    off = max(abs(repairman - KNOWN_THROUGHPUT), abs(mva - KNOWN_THROUGHPUT))
    page.check(
        "mva-closed-form",
        off <= 1e-6,
        f"machine repairman, 64 customers: X = {mva:.6f}, closed form {KNOWN_THROUGHPUT} (off by {off:.1e}, "
        f"bound 1e-6)",
        "theory",
    )
    worst = 0.0
    for stations in (1, 2, 3, 5, 8):
        balanced = solve([Station(f"s{i}", 2.5) for i in range(stations)], 0.0, 64).throughput
        customers = np.arange(1, 65)
        worst = max(worst, float(np.abs(balanced - customers / (customers + stations - 1) / 2.5).max()))
    page.check(
        "mva-balanced",
        worst <= 1e-9,
        f"balanced networks of 1 to 8 stations, up to 64 customers: off by {worst:.1e} (bound 1e-9)",
        "theory",
    )
    _simulation_against_theory(page, plan, results)
    covered: list[Covered] = [results[f"coverage-{i}"] for i in range(COVERAGE_PARTS)]
    held, refused, trials = (sum(getattr(c, f) for c in covered) for f in ("held", "refused", "trials"))
    share = binomial_interval(held, trials - refused)
    observed = 100 * share.estimate
    page.check(
        "interval-coverage",
        90 <= observed <= 98 and trials - refused >= TRIALS * 0.95,
        f"nominal 95 % batch-means intervals held the truth in {observed:.1f} % of {trials - refused} trials "
        f"(90 to 98 % asked; {refused} series refused as too short)",
        "theory",
    )
    section.text(
        f"Coverage was tested on a small closed system ({SMALL['warps']:.0f} warps, think "
        f"{SMALL['think']:.0f}, service {SMALL['service']:.0f} cycles, {SMALL['iterations']:.0f} "
        f"iterations). {held} of {trials - refused} intervals held the exact 1 / X, {observed:.1f} % (95 % "
        f"interval of that share: {100 * share.low:.1f} to {100 * share.high:.1f} %)."
    )


def _simulation_against_theory(page: Report, plan: Plan, results: Results) -> None:
    section = next(s for s in page.sections if s.name == "theory")
    compared = len(POPULATIONS) * len(QUANTITIES)
    level = 1 - FALSE_ALARMS / compared
    rows, inside, inside_usual = [], 0, 0
    lines: dict[str, list[list[float]]] = {q: [] for q in QUANTITIES}
    for n in POPULATIONS:
        found: NDArray[np.float64] = results[f"theory-{n}"]
        truth = exact(n)
        for i, quantity in enumerate(QUANTITIES):
            wide: Interval = mean_interval(found[:, i], level)
            usual: Interval = mean_interval(found[:, i])
            held = wide.contains(truth[i])
            inside += held
            inside_usual += usual.contains(truth[i])
            lines[quantity].append([truth[i], usual.estimate, usual.low, usual.high])
            rows.append(
                [
                    n,
                    quantity,
                    truth[i],
                    usual.estimate,
                    usual.low,
                    usual.high,
                    wide.low,
                    wide.high,
                    "yes" if held else "NO",
                ]
            )
    page.check(
        "simulation-against-mva",
        inside == compared,
        f"exact values inside the simulator's simultaneous {100 * (1 - FALSE_ALARMS):.1f} % intervals: "
        f"{inside} of {compared}; inside the single 95 % ones: {inside_usual} "
        f"({len(results[f'theory-{POPULATIONS[0]}'])} runs a population)",
        "theory",
    )
    columns = {q: np.array(v).T for q, v in lines.items()}
    shown = ("throughput", "queue_length")
    section.fold("Exact and simulated values with their intervals, and the coverage of the intervals")
    section.figure(
        "mva",
        mva_against_simulation(
            POPULATIONS,
            {q: columns[q][0] for q in shown},
            {q: columns[q][1] for q in shown},
            {q: columns[q][2] for q in shown},
            {q: columns[q][3] for q in shown},
        ),
        {
            "population": list(POPULATIONS),
            **{
                f"{q}_{what}": columns[q][i].tolist()
                for q in QUANTITIES
                for i, what in enumerate(("exact", "simulated", "low", "high"))
            },
        },
        f"N warps, exponential think time of {THINK:,.0f} and service time of {SERVICE:.0f} cycles: exact "
        f"solution and simulation.",
        "Throughput rises with the population and bends towards the server's capacity; simulated points lie "
        "on the exact line.",
    )
    section.table(
        "theory",
        [
            Column("N", unit="warps"),
            Column("quantity"),
            Column("exact", kind="modelled"),
            Column("simulated", kind="simulated"),
            Column("low"),
            Column("high"),
            Column("simultaneous low", key="wide_low"),
            Column("simultaneous high", key="wide_high"),
            Column("inside"),
        ],
        rows,
        f"95 % intervals, and intervals at {100 * level:.3f} % so that all {compared} hold together for "
        f"{100 * (1 - FALSE_ALARMS):.1f} % of seeds. Throughput in jobs per cycle, queue length in jobs, "
        "utilization as a fraction.",
    )
