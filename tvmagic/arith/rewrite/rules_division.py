"""Rules for quotients and remainders, truncated and floored."""

from __future__ import annotations

DIV = """
@reciprocal

[vector]
truncdiv(broadcast(x, lanes), broadcast(y, lanes)) -> broadcast(truncdiv(x, y), lanes)
[ramp]
@ramp_quotient

[index]
# truncation needs operands that are not negative
[integer]
truncdiv(truncdiv(x, c1), c2) -> truncdiv(x, c1 * c2) if c1 > 0 and c2 > 0
[index]
truncdiv(truncdiv(x, c1) + c2, c3) -> truncdiv(x + c1 * c2, c1 * c3) if c1 > 0 and c2 >= 0 and c3 > 0 and ge(x, 0)
truncdiv(x * c1, c2) -> x * truncdiv(c1, c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0
truncdiv(x * c1, c2) -> truncdiv(x, truncdiv(c2, c1)) if c1 > 0 and c2 > 0 and c2 % c1 == 0
truncdiv(x, x) -> one(x)
truncdiv(x * c1, x) | truncdiv(c1 * x, x) -> c1
truncdiv(x * c1 + y, c2) -> x * truncdiv(c1, c2) + truncdiv(y, c2) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y, 0)
truncdiv(min(x * c1, y), c2) -> min(x * truncdiv(c1, c2), truncdiv(y, c2)) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y, 0)
truncdiv(max(x * c1, y), c2) -> max(x * truncdiv(c1, c2), truncdiv(y, c2)) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y, 0)
truncdiv(y + x * c1, c2) -> truncdiv(y, c2) + x * truncdiv(c1, c2) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y, 0)
truncdiv(min(y, x * c1), c2) -> min(truncdiv(y, c2), x * truncdiv(c1, c2)) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y, 0)
truncdiv(max(y, x * c1), c2) -> max(truncdiv(y, c2), x * truncdiv(c1, c2)) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y, 0)
truncdiv(x * c1 + y + z, c2) -> x * truncdiv(c1, c2) + truncdiv(y + z, c2) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y + z, 0)
truncdiv(x * c1 - y + z, c2) -> x * truncdiv(c1, c2) + truncdiv(z - y, c2) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(z - y, 0)
truncdiv(x * c1 + y - z, c2) -> x * truncdiv(c1, c2) + truncdiv(y - z, c2) \
    if c1 >= 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y - z, 0)
truncdiv(y + x * c1 + z, c2) -> x * truncdiv(c1, c2) + truncdiv(y + z, c2) \
    if c1 > 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y + z, 0)
truncdiv(x + c1, c2) -> truncdiv(x, c2) + truncdiv(c1, c2) if c1 > 0 and c2 > 0 and c1 % c2 == 0 and ge(x, 0)
truncdiv(x + y, x) | truncdiv(y + x, x) -> truncdiv(y, x) + 1 if ge(x, 0) and ge(y, 0)
truncdiv((x + y) + z, x) | truncdiv((y + x) + z, x) | truncdiv(y + (z + x), x) | truncdiv(y + (x + z), x) \
    -> truncdiv(y + z, x) + 1 if ge(x, 0) and ge(y + z, 0)
truncdiv(x * y, y) | truncdiv(y * x, y) -> x if ge(x, 0) and ge(y, 0)
truncdiv(x * z + y, z) | truncdiv(z * x + y, z) -> x + truncdiv(y, z) if ge(x, 0) and ge(y, 0) and ge(z, 0)
truncdiv(y + x * z, z) | truncdiv(y + z * x, z) -> truncdiv(y, z) + x if ge(x, 0) and ge(y, 0) and ge(z, 0)
"""

MOD = """
[vector]
truncmod(broadcast(x, lanes), broadcast(y, lanes)) -> broadcast(truncmod(x, y), lanes)
[ramp]
@ramp_remainder

[index]
truncmod(x * c1, c2) -> zero(x) if c2 != 0 and c1 % c2 == 0
truncmod(x * c1 + y, c2) -> truncmod(y, c2) if c2 > 0 and c1 % c2 == 0 and ge(x * c1, 0) and ge(y, 0)
truncmod(x + c1, c2) -> truncmod(x, c2) if c2 > 0 and c1 >= 0 and c1 % c2 == 0 and ge(x, 0)
truncmod(x + y * c1, c2) -> truncmod(x, c2) if c2 > 0 and c1 % c2 == 0 and ge(x, 0) and ge(y * c1, 0)
[integer]
truncmod(x, c1) => truncmod(x, 0 - c1) if c1 < 0
@known_truncmod
"""

FLOORDIV = """
[vector]
broadcast(x, lanes) // broadcast(y, lanes) -> broadcast(x // y, lanes)
[ramp]
@ramp_floordiv

[integer]
x // c1 // c2 -> x // (c1 * c2) if c1 > 0 and c2 > 0
[index]
(x // c1 + c2) // c3 -> (x + c1 * c2) // (c1 * c3) if c1 > 0 and c3 > 0
@split_multiple
x // x -> one(x)
x * c1 // x | c1 * x // x -> c1
(x % 2 + 1) // 2 -> x % 2
min(x * c1, y) // c2 -> min(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
max(x * c1, y) // c2 -> max(x * (c1 // c2), y // c2) if c2 > 0 and c1 % c2 == 0
min(y, x * c1) // c2 -> min(y // c2, x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
max(y, x * c1) // c2 -> max(y // c2, x * (c1 // c2)) if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x * c1 + y + z) // c2 -> x // (c2 // c1) if c1 > 0 and c2 > 0 and c2 % c1 == 0 and iszero((y + z) // c1)
(x * c1 - y + z) // c2 | (x * c1 + z - y) // c2 -> x * (c1 // c2) + (z - y) // c2 if c2 > 0 and c1 % c2 == 0
(y + x * c1 + z) // c2 -> x * (c1 // c2) + (y + z) // c2 if c2 > 0 and c1 % c2 == 0
(x + c1) // c2 -> x // c2 + c1 // c2 if c2 > 0 and c1 % c2 == 0
(x * c1) // (x * c2) -> c1 // c2 if c2 > 0
(x + y) // x | (y + x) // x -> y // x + 1 if ge(x, 0)
((x + y) + z) // x | ((y + x) + z) // x | (y + (z + x)) // x | (y + (x + z)) // x -> (y + z) // x + 1 if ge(x, 0)
x * y // y | y * x // y -> x if ge(y, 0)
(x * z + y) // z | (z * x + y) // z -> x + y // z if ge(z, 0)
(y + x * z) // z | (y + z * x) // z -> y // z + x if ge(z, 0)
(x * z * c1 + y) // (z * c1) -> x + y // (z * c1) if ge(z * c1, 0)
(x - x % c1) // c1 -> x // c1 if c1 != 0
@below_scalable
"""

FLOORMOD = """
[vector]
broadcast(x, lanes) % broadcast(y, lanes) -> broadcast(x % y, lanes)
[ramp]
@ramp_floormod

[index]
x * c1 % c2 -> x * (c1 % c2) % c2 if c2 != 0 and (abs(c1 % c2) <= abs(c1) or stays(x * (c1 % c2)))
(x * c1 + y) % c2 -> x % (c2 // c1) * c1 + y if c1 > 0 and c2 > 0 and c2 % c1 == 0 and iszero(y // c1)
(x * c1 + y) % c2 -> (x * (c1 % c2) + y) % c2 if c2 > 0 and (c1 % c2 <= abs(c1) or stays(x * (c1 % c2) + y))
(x + c1) % c2 -> (x + c1 % c2) % c2 if c2 > 0 and (c1 >= c2 or c1 < 0 and stays(x + c1 % c2))
(x + y * c1) % c2 -> (x + y * (c1 % c2)) % c2 if c2 > 0 and (c1 % c2 <= abs(c1) or stays(x + y * (c1 % c2)))
(x * c1) % (x * c2) -> x * (c1 % c2) if c2 != 0
(x * c1 + c2) % (x * c3 + c4) -> zero(x) if c3 != 0 and c1 % c3 == 0 and c2 == c1 // c3 * c4
x * y % y | y * x % y -> zero(y)
(x + z % y) % y | (z % y + x) % y -> zero(x) if iszero((x + z) % y)
(x - x % z) % y | (x % z - x) % y -> zero(x) if iszero(y - z) or iszero(y + z)
(x * z * c1 + y) % (z * c1) -> y % (z * c1) if ge(z * c1, 0)
@remainder_below_scalable
[integer]
@known_floormod
"""
