"""How far an operator's time on another GPU can be predicted: error tables by operator, with baselines and
each part off."""

from smlab.validation.projection.operators.judge import Judgement, OperatorErrors, judge_projection
from smlab.validation.projection.operators.robustness import PairErrors, all_pairs
from smlab.validation.projection.operators.split import looked_at

__all__ = ["Judgement", "OperatorErrors", "PairErrors", "all_pairs", "judge_projection", "looked_at"]
