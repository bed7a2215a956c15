"""`tvmagic.script.tir` at the place where TVM has it too."""

import sys

from tvmagic.script import tir

sys.modules[__name__] = tir
