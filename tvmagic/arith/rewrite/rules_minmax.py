"""Rules for minima and maxima."""

from __future__ import annotations

MIN = """
[vector]
min(broadcast(x, lanes), broadcast(y, lanes)) -> broadcast(min(x, y), lanes)
min(min(x, broadcast(y, lanes)), broadcast(z, lanes)) -> min(x, broadcast(min(y, z), lanes))

[integer]
min(x, x) -> x
@smaller_by_bounds
[index]
@smaller_for_each_vscale
min(x + c1, x + c2) -> x + min(c1, c2)
min(x + c1, x) | min(x, x + c1) -> x + c1 if c1 < 0
min(x + c1, x) | min(x, x + c1) -> x if c1 >= 0
min(c1 - x, c2 - x) -> min(c1, c2) - x
# rounding up to a multiple
min(truncdiv(x + c1, c2) * c2, x) | min(x, truncdiv(x + c1, c2) * c2) | min((x + c1) // c2 * c2, x) \
    | min(x, (x + c1) // c2 * c2) -> x if c2 > 0 and c1 + 1 == c2
min(truncdiv(x + c1, c2) * c2, max(x, c2)) | min(max(x, c2), truncdiv(x + c1, c2) * c2) \
    | min((x + c1) // c2 * c2, max(x, c2)) | min(max(x, c2), (x + c1) // c2 * c2) \
    -> max(x, c2) if c2 > 0 and c1 + 1 == c2 and ge(x, 1)
min(x, x // c2 * c2) | min(x // c2 * c2, x) -> x // c2 * c2 if c2 > 0
[integer]
# what one of them covers
min(max(x, y), min(x, y)) | min(max(x, y), min(y, x)) | min(min(x, y), max(x, y)) | min(min(x, y), max(y, x)) \
    | min(min(x, y), x) | min(min(x, y), y) | min(x, min(x, y)) | min(y, min(x, y)) -> min(x, y)
min(max(x, y), x) | min(max(y, x), x) | min(x, max(x, y)) | min(x, max(y, x)) -> x
min(min(min(x, y), z), y) -> min(min(x, y), z)
min(min(min(min(x, y), z), s1), y) -> min(min(min(x, y), z), s1)
min(min(min(min(min(x, y), z), s1), s2), y) -> min(min(min(min(x, y), z), s1), s2)
# what they have in common
min(max(x, y), max(x, z)) | min(max(x, y), max(z, x)) | min(max(y, x), max(x, z)) | min(max(y, x), max(z, x)) \
    -> max(min(y, z), x)
min(min(x, y), min(x, z)) | min(min(x, y), min(z, x)) | min(min(y, x), min(x, z)) | min(min(y, x), min(z, x)) \
    -> min(min(y, z), x)
[index]
min(y + x, z + x) | min(y + x, x + z) | min(x + y, x + z) | min(x + y, z + x) -> min(y, z) + x
min(y - x, z - x) -> min(y, z) - x
min(x - y, x - z) -> x - max(y, z)
[integer]
min(min(x, c1), c2) -> min(x, min(c1, c2))
min(truncdiv(x, c1), truncdiv(y, c1)) -> truncdiv(min(x, y), c1) if c1 > 0
min(truncdiv(x, c1), truncdiv(y, c1)) -> truncdiv(max(x, y), c1) if c1 < 0
min(x // c1, y // c1) -> min(x, y) // c1 if c1 > 0
min(x // c1, y // c1) -> max(x, y) // c1 if c1 < 0
[index]
min(x * c1, y * c1) -> min(x, y) * c1 if c1 > 0
min(x * c1, y * c1) -> max(x, y) * c1 if c1 < 0
min(x * c1, c2) -> min(x, c2 // c1) * c1 if c1 > 0 and c2 % c1 == 0
min(x * c1, c2) -> max(x, c2 // c1) * c1 if c1 < 0 and c2 % c1 == 0
[integer]
# order: constants last
min(min(x, c1), y) => min(min(x, y), c1)
[index]
min(c1 - x, c2) => c1 - max(x, c1 - c2) if c2 != 0

[any]
min(select(x, y, z), select(x, s1, s2)) -> select(x, min(y, s1), min(z, s2))
"""

MAX = """
[vector]
max(broadcast(x, lanes), broadcast(y, lanes)) -> broadcast(max(x, y), lanes)
max(max(x, broadcast(y, lanes)), broadcast(z, lanes)) -> max(x, broadcast(max(y, z), lanes))

[integer]
max(x, x) -> x
@larger_by_bounds
[index]
@larger_for_each_vscale
max(x + c1, x + c2) -> x + max(c1, c2)
max(x + c1, x) | max(x, x + c1) -> x + c1 if c1 > 0
max(x + c1, x) | max(x, x + c1) -> x if c1 <= 0
max(c1 - x, c2 - x) -> max(c1, c2) - x
# rounding up to a multiple
max(truncdiv(x + c1, c2) * c2, x) | max(x, truncdiv(x + c1, c2) * c2) -> truncdiv(x + c1, c2) * c2 \
    if c2 > 0 and c1 + 1 == c2
max((x + c1) // c2 * c2, x) | max(x, (x + c1) // c2 * c2) -> (x + c1) // c2 * c2 if c2 > 0 and c1 + 1 == c2
max(x // c2 * c2, x) | max(x, x // c2 * c2) -> x if c2 > 0
[integer]
# what one of them covers
max(min(x, y), x) | max(min(y, x), x) | max(x, min(x, y)) | max(x, min(y, x)) -> x
max(min(x, y), max(x, y)) | max(min(x, y), max(y, x)) | max(max(x, y), min(x, y)) | max(max(x, y), min(y, x)) \
    | max(max(x, y), x) | max(max(x, y), y) | max(x, max(x, y)) | max(y, max(x, y)) -> max(x, y)
max(max(max(x, y), z), y) -> max(max(x, y), z)
max(max(max(max(x, y), z), s1), y) -> max(max(max(x, y), z), s1)
max(max(max(max(max(x, y), z), s1), s2), y) -> max(max(max(max(x, y), z), s1), s2)
# what they have in common
max(max(x, y), max(x, z)) | max(max(x, y), max(z, x)) | max(max(y, x), max(x, z)) | max(max(y, x), max(z, x)) \
    -> max(max(y, z), x)
max(min(x, y), min(x, z)) | max(min(x, y), min(z, x)) | max(min(y, x), min(x, z)) | max(min(y, x), min(z, x)) \
    -> min(max(y, z), x)
[index]
max(y + x, z + x) | max(y + x, x + z) | max(x + y, x + z) | max(x + y, z + x) -> max(y, z) + x
max(y - x, z - x) -> max(y, z) - x
max(x - y, x - z) -> x - min(y, z)
[integer]
max(max(x, c1), c2) -> max(x, max(c1, c2))
max(truncdiv(x, c1), truncdiv(y, c1)) -> truncdiv(max(x, y), c1) if c1 > 0
max(truncdiv(x, c1), truncdiv(y, c1)) -> truncdiv(min(x, y), c1) if c1 < 0
max(x // c1, y // c1) -> max(x, y) // c1 if c1 > 0
max(x // c1, y // c1) -> min(x, y) // c1 if c1 < 0
[index]
max(x * c1, y * c1) -> max(x, y) * c1 if c1 > 0
max(x * c1, y * c1) -> min(x, y) * c1 if c1 < 0
max(x * c1, c2) -> max(x, c2 // c1) * c1 if c1 > 0 and c2 % c1 == 0
max(x * c1, c2) -> min(x, c2 // c1) * c1 if c1 < 0 and c2 % c1 == 0
[integer]
# order: constants last
max(max(x, c1), y) => max(max(x, y), c1)
[index]
max(c1 - x, c2) => c1 - min(x, c1 - c2) if c2 != 0

[any]
max(select(x, y, z), select(x, s1, s2)) -> select(x, max(y, s1), max(z, s2))
"""
