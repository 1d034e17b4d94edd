"""What if: studies over the parameters of hardware and workload. `study` has the file format, `run` runs
it."""

from smlab.validation.experiments.design.study import Study, read_study

__all__ = ["Study", "read_study"]
