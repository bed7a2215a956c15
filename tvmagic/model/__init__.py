"""Cost model: predict the cycles of a lowered program on a machine, without running it.

`%why`, `%tune` and the goals of puzzles read it.
"""

from tvmagic.model.nest_model import NestModel
from tvmagic.model.program_model import ProgramModel, model

__all__ = ["NestModel", "ProgramModel", "model"]
