"""How far a whole tuning space can be projected from one GPU's counters to another GPU: errors, coverage of
the intervals by families of configurations, and what of the method buys what."""

from smlab.validation.projection.tuning.errors import TuningErrors, tuning_errors
from smlab.validation.projection.tuning.judge import TuningJudgement, judge_tuning

__all__ = ["TuningErrors", "TuningJudgement", "judge_tuning", "tuning_errors"]
