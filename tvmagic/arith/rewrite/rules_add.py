"""Rules for sums, differences and products."""

from __future__ import annotations

ADD = """
[vector]
ramp(b1, s1, lanes) + ramp(b2, s2, lanes) -> ramp(b1 + b2, s1 + s2, lanes)
ramp(b1, s1, lanes) + broadcast(x, lanes) -> ramp(b1 + x, s1, lanes)
broadcast(x, lanes) + ramp(b1, s1, lanes) -> ramp(x + b1, s1, lanes)
broadcast(x, lanes) + broadcast(y, lanes) -> broadcast(x + y, lanes)
[other]
x + broadcast(f1, lanes) -> x if f1 == 0

[integer]
# what cancels
(x - y) + y -> x
x + (y - x) -> y
(x - y) + (y - z) -> x - z
(x - y) + (z - x) -> z - y
[index]
min(x, y - z) + z -> min(x + z, y)
min(x - z, y) + z -> min(x, y + z)
max(x, y - z) + z -> max(x + z, y)
max(x - z, y) + z -> max(x, y + z)
min(x, y + z * c1) + z * c2 -> min(x + z * c2, y) if c1 == -c2
max(x, y + z * c1) + z * c2 -> max(x + z * c2, y) if c1 == -c2
min(y + z * c1, x) + z * c2 -> min(x + z * c2, y) if c1 == -c2
max(y + z * c1, x) + z * c2 -> max(x + z * c2, y) if c1 == -c2
max(x, y) + min(x, y) | min(x, y) + max(x, y) | max(x, y) + min(y, x) | min(x, y) + max(y, x) -> x + y
min(x, y + c1) + c2 -> min(x + c2, y) if c1 == -c2
min(x + c1, y) + c2 -> min(x, y + c2) if c1 == -c2
max(x, y + c1) + c2 -> max(x + c2, y) if c1 == -c2
max(x + c1, y) + c2 -> max(x, y + c2) if c1 == -c2
[integer]
# what comes together
(x + c1) + c2 -> x + (c1 + c2)
x + x -> x * 2
x * y + x | y * x + x | x + y * x | x + x * y -> x * (y + 1)
x * y + x * z | y * x + x * z | x * y + z * x | y * x + z * x -> x * (y + z)
# quotient and remainder
truncdiv(x, c1) * c1 + truncmod(x, c1) -> x if c1 != 0
[index]
x // y * y + x % y | y * (x // y) + x % y | x % y + x // y * y | x % y + y * (x // y) -> x
(x % c2 + c1) // c2 + x // c2 -> (x + c1) // c2 if c2 > 0
x // 2 + x % 2 => (x + 1) // 2
(x + c1) % 2 + x % 2 -> one(x) if c1 % 2 == 1
x % 2 + (x + c1) % 2 -> one(x) if c1 % 2 == 1
[integer]
# order: constants last, extremes and products first
x + (c1 - y) | (c1 - y) + x => (x - y) + c1
(x + c1) + y | x + (c1 + y) | x + (y + c1) => (x + y) + c1
x + max(y, z) => max(y, z) + x
x + min(y, z) => min(y, z) + x
truncmod(y, c1) + x * c1 => x * c1 + truncmod(y, c1)
y % c1 + x * c1 => x * c1 + y % c1

[any]
select(x, b1, b2) + select(x, s1, s2) -> select(x, b1 + s1, b2 + s2)
"""

SUB = """
[vector]
ramp(b1, s1, lanes) - ramp(b2, s2, lanes) -> ramp(b1 - b2, s1 - s2, lanes)
ramp(b1, s1, lanes) - broadcast(x, lanes) -> ramp(b1 - x, s1, lanes)
broadcast(x, lanes) - ramp(b1, s1, lanes) -> ramp(x - b1, 0 - s1, lanes)
broadcast(x, lanes) - broadcast(y, lanes) -> broadcast(x - y, lanes)

[integer]
# what cancels
(x + y) - y | (y + x) - y -> x
x - (y + x) | x - (x + y) -> 0 - y
[index]
min(x, y) - y | x - max(y, x) -> min(x - y, 0)
x - max(x, y) | min(y, x) - y -> min(0, x - y)
max(x, y) - y | x - min(y, x) -> max(x - y, 0)
x - min(x, y) | max(y, x) - y -> max(0, x - y)
[integer]
x - x -> zero(x)
x * y - x | y * x - x -> x * (y - 1)
x - y * x | x - x * y -> x * (1 - y)
x * y - x * z | y * x - x * z | x * y - z * x | y * x - z * x -> x * (y - z)
(x + c1) - c2 -> x + (c1 - c2)
(c1 - x) - (c2 - y) -> (y - x) + (c1 - c2)
(x + y) - (x + z) | (x + y) - (z + x) | (y + x) - (z + x) | (y + x) - (x + z) -> y - z
[index]
min(x + y, z) - x | min(y + x, z) - x -> min(y, z - x)
min(z, x + y) - x | min(z, y + x) - x -> min(z - x, y)
max(x + y, z) - x | max(y + x, z) - x -> max(y, z - x)
max(z, x + y) - x | max(z, y + x) - x -> max(z - x, y)
x - min(x + y, z) | x - min(y + x, z) -> max(0 - y, x - z)
x - min(z, x + y) | x - min(z, y + x) -> max(x - z, 0 - y)
x - max(x + y, z) | x - max(y + x, z) -> min(0 - y, x - z)
x - max(z, x + y) | x - max(z, y + x) -> min(x - z, 0 - y)
[integer]
min(x, y) - min(y, x) -> zero(x)
max(x, y) - max(y, x) -> zero(x)
[index]
min(b1, b2) - min(s1, s2) | min(b1, b2) - min(s2, s1) -> b1 - s1 if iszero((b1 - s1) - (b2 - s2))
max(b1, b2) - max(s1, s2) | max(b1, b2) - max(s2, s1) -> b1 - s1 if iszero((b1 - s1) - (b2 - s2))
[integer]
# truncated quotients
x - truncdiv(x, c1) * c1 -> truncmod(x, c1) if c1 != 0
truncdiv(x, c1) * c1 - x -> 0 - truncmod(x, c1) if c1 != 0
x - truncdiv(x + y, c1) * c1 -> truncmod(x + y, c1) - y if c1 != 0
truncdiv(x + y, c1) * c1 - x -> y - truncmod(x + y, c1) if c1 != 0
x - truncdiv(x - y, c1) * c1 -> truncmod(x - y, c1) + y if c1 != 0
truncdiv(x - y, c1) * c1 - x -> 0 - truncmod(x - y, c1) - y if c1 != 0
x * c2 - truncdiv(x, c1) * c3 -> truncmod(x, c1) * c2 if c1 != 0 and c3 == c1 * c2
truncdiv(x, c1) * c3 - x * c2 -> 0 - truncmod(x, c1) * c2 if c1 != 0 and c3 == c1 * c2
x * c2 - truncdiv(x + y, c1) * c3 -> (truncmod(x + y, c1) - y) * c2 if c1 != 0 and c3 == c1 * c2
truncdiv(x + y, c1) * c3 - x * c2 -> (y - truncmod(x + y, c1)) * c2 if c1 != 0 and c3 == c1 * c2
x * c2 - truncdiv(x - y, c1) * c3 -> (truncmod(x - y, c1) + y) * c2 if c1 != 0 and c3 == c1 * c2
truncdiv(x - y, c1) * c3 - x * c2 -> (0 - truncmod(x - y, c1) - y) * c2 if c1 != 0 and c3 == c1 * c2
[index]
truncdiv(x + c1, c3) - truncdiv(x + c2, c3) -> truncdiv(truncmod(x + c2 % c3, c3) + (c1 - c2), c3) \
    if c3 > 0 and c1 >= c2 and ge(x, -c2)
truncdiv(x + c1, c3) - truncdiv(x, c3) -> truncdiv(truncmod(x, c3) + c1, c3) if c1 >= 0 and c3 > 0 and ge(x, 0)
[integer]
# floored quotients
x - x // c1 * c1 -> x % c1 if c1 != 0
x // c1 * c1 - x -> 0 - x % c1 if c1 != 0
x - (x + y) // c1 * c1 -> (x + y) % c1 - y if c1 != 0
(x + y) // c1 * c1 - x -> y - (x + y) % c1 if c1 != 0
x - (x - y) // c1 * c1 -> (x - y) % c1 + y if c1 != 0
(x - y) // c1 * c1 - x -> 0 - (x - y) % c1 - y if c1 != 0
[index]
(x + c1) // 2 - (x + c2) // 2 => x % 2 * (c1 % 2 - c2 % 2) + (c1 // 2 - c2 // 2)
x // 2 - (x + c2) // 2 => x % 2 * (0 - c2 % 2) - c2 // 2
(x + c1) // 2 - x // 2 => x % 2 * (c1 % 2) + c1 // 2
[integer]
x * c2 - x // c1 * c3 -> x % c1 * c2 if c1 != 0 and c3 == c1 * c2
x // c1 * c3 - x * c2 -> 0 - x % c1 * c2 if c1 != 0 and c3 == c1 * c2
x * c2 - (x + y) // c1 * c3 -> ((x + y) % c1 - y) * c2 if c1 != 0 and c3 == c1 * c2
(x + y) // c1 * c3 - x * c2 -> (y - (x + y) % c1) * c2 if c1 != 0 and c3 == c1 * c2
x * c2 - (x - y) // c1 * c3 -> ((x - y) % c1 + y) * c2 if c1 != 0 and c3 == c1 * c2
(x - y) // c1 * c3 - x * c2 -> (0 - (x - y) % c1 - y) * c2 if c1 != 0 and c3 == c1 * c2
[index]
(x + 1) // 2 - x % 2 => x // 2
(x + c1) // c3 - (x + c2) // c3 -> ((x + c2 % c3) % c3 + (c1 - c2)) // c3 if c3 > 0
(x + c1) // c3 - x // c3 -> (x % c3 + c1) // c3 if c3 > 0
[integer]
# order: constants last, differences as sums
x - c1 -> x + (0 - c1)
(x + c1) - y => (x - y) + c1
x - (y + c1) => (x - y) + (0 - c1)
x - (y - z) => (x + z) - y
x - y * c1 => x + y * (0 - c1)

[other]
x - x -> zero(x) if reads_only(x)
(x + y) - y -> x if reads_only(y)
(x + y) - x -> y if reads_only(x)
x - (y + x) -> 0 - y if reads_only(x)
x - (x + y) -> 0 - y if reads_only(x)

[any]
select(x, b1, b2) - select(x, s1, s2) -> select(x, b1 - s1, b2 - s2)
[exact]
select(x, y, z) - z -> select(x, y - z, zero(z))
select(x, y, z) - y -> select(x, zero(y), z - y)
"""

MUL = """
[vector]
broadcast(x, lanes) * broadcast(y, lanes) -> broadcast(x * y, lanes)
ramp(b1, s1, lanes) * broadcast(x, lanes) | broadcast(x, lanes) * ramp(b1, s1, lanes) -> ramp(b1 * x, s1 * x, lanes)
[other]
broadcast(f1, lanes) * x -> broadcast(f1, lanes) if f1 == 0

[integer]
(x + c1) * c2 -> x * c2 + c1 * c2
(x * c1) * c2 -> x * (c1 * c2)
min(x, y) * max(x, y) | max(x, y) * min(x, y) -> x * y
[index]
(x - x % c2) // c1 * c1 -> x - x % c2 if c1 == -c2
[integer]
x * (c1 * y) => (x * y) * c1
c1 * x => x * c1
(x - y) * c1 => (y - x) * (0 - c1) if c1 < 0
"""
