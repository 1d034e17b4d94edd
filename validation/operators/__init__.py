"""How far an operator's time on another GPU can be predicted: error tables by operator, with baselines and each part off."""

from validation.operators.judge import Judgement, OperatorErrors, judge_projection
from validation.operators.robustness import PairErrors, all_pairs
from validation.operators.split import looked_at

__all__ = ["Judgement", "OperatorErrors", "PairErrors", "all_pairs", "judge_projection", "looked_at"]
