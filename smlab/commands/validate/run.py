"""``smlab validate``: every cross-check, printed in short; the report in a folder."""

from __future__ import annotations

from smlab.cli.terminal import err, print_json, progress_bar
from smlab.commands.validate.api import validate
from smlab.commands.validate.command import ValidateOptions
from smlab.commands.validate.output import print_checks, print_findings
from smlab.sim.simulate import looks_cold, warm
from smlab.validation.checks.run import RESULTS


def run_validate(options: ValidateOptions) -> bool:
    """``smlab validate``; whether no check fell short. Findings about models are told and decide nothing."""
    if looks_cold():
        warm()
    with progress_bar("validating") as advance:
        found = validate(
            options.gpu,
            quick=options.quick,
            seed=options.seed,
            jobs=options.jobs,
            out=options.out,
            resume=options.resume,
            progress=advance,
        )
    if options.as_json:
        print_json(dict(found.document))
    else:
        print_findings(found.findings)
        print_checks(found.checks)
    err.print(f"report: {found.report}", markup=False, soft_wrap=True)
    if found.interrupted:
        err.print(
            f"what was done is in {options.out / RESULTS}; --resume keeps it", markup=False, soft_wrap=True
        )
        raise KeyboardInterrupt
    return found.ok
