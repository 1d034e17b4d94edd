"""Operators of deep learning: their work from the shape, and their time on a GPU from their time on
another."""

from smlab.models.operators.projection import OperatorProjection, OperatorSwitches, project_operators
from smlab.models.operators.work import OperatorWork, operator_work

__all__ = ["OperatorProjection", "OperatorSwitches", "OperatorWork", "operator_work", "project_operators"]
