"""Puzzles that grade themselves: a task, what an answer has to reach, and a hint for each way in which answers fail.

No clock decides: an answer has to be legal, equal to NumPy, and within bounds on what the lowered program does. Each
puzzle is a file of `collection/`; `prove` says whether one of a teacher's holds what it promises.
"""

from tvmagic.puzzles.answers import AnswersPuzzle, PredictionPuzzle
from tvmagic.puzzles.loading import load, prove, puzzle, puzzles
from tvmagic.puzzles.metrics import FACTS, Facts
from tvmagic.puzzles.programs import ProgramPuzzle, SchedulePuzzle
from tvmagic.puzzles.progress import Progress
from tvmagic.puzzles.puzzle import Goal, Puzzle, Row, Verdict

__all__ = [
    "FACTS",
    "AnswersPuzzle",
    "Facts",
    "Goal",
    "PredictionPuzzle",
    "ProgramPuzzle",
    "Progress",
    "Puzzle",
    "Row",
    "SchedulePuzzle",
    "Verdict",
    "load",
    "prove",
    "puzzle",
    "puzzles",
]
