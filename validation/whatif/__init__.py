"""What if: studies over the parameters of hardware and workload. `study` has the file format, `run` runs it."""

from validation.whatif.study import Study, read_study

__all__ = ["Study", "read_study"]
