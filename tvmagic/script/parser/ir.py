"""`tvmagic.script.ir` at the place where TVM has it too."""

import sys

from tvmagic.script import ir

sys.modules[__name__] = ir
