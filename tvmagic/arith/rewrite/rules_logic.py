"""Rules for comparisons, logical terms and selections.

Of the comparisons only `==` and `<` have rules: the others are brought to these.
"""

from __future__ import annotations

EQUAL = """
[vector]
broadcast(x, lanes) == broadcast(y, lanes) -> broadcast(x == y, lanes)

[integer]
@equal_by_bounds
c1 == x -> x == c1
x - c1 == c2 -> x == c2 + c1
c1 - x == c2 -> x == c1 - c2
x + c1 == c2 -> x == c2 - c1
[index]
x * y == 0 => x == 0 or y == 0
[integer]
x == x -> True

[other]
x == x -> True if reads_only(x)
"""

LESS = """
[vector]
broadcast(x, lanes) < broadcast(y, lanes) -> broadcast(x < y, lanes)

[ramp]
ramp(x, s1, lanes) < ramp(y, s1, lanes) -> broadcast(x < y, lanes)

[integer]
@less_by_bounds
[index]
# what cancels
x + y < x + z -> y < z
x + y < z + x -> y < z
y + x < x + z -> y < z
y + x < z + x -> y < z
y - x < z - x -> y < z
x - y < x - z -> z < y
x < x + z -> 0 < z
x < z + x -> 0 < z
x < x - z -> z < 0
x * c1 < y * c1 -> x < y if c1 > 0
x * c1 < y * c1 -> y < x if c1 < 0
# a constant over a constant factor
x * c2 < c1 -> x < truncdiv(c1 - 1, c2) + 1 if c1 > 0 and c2 > 0
x * c2 < c1 -> x < truncdiv(c1, c2) if c1 <= 0 and c2 > 0
x * c2 < c1 -> truncdiv(c1 - 1, c2) - 1 < x if c1 > 0 and c2 < 0
x * c2 < c1 -> truncdiv(c1, c2) < x if c1 <= 0 and c2 < 0
c1 < x * c2 -> truncdiv(c1 + 1, c2) - 1 < x if c1 < 0 and c2 > 0
c1 < x * c2 -> truncdiv(c1, c2) < x if c1 >= 0 and c2 > 0
c1 < x * c2 -> x < truncdiv(c1 + 1, c2) + 1 if c1 < 0 and c2 < 0
c1 < x * c2 -> x < truncdiv(c1, c2) if c1 >= 0 and c2 < 0
# truncated quotients
[integer]
truncdiv(x, c1) < c2 -> x < c1 * c2 if c1 > 0 and c2 > 0
truncdiv(x, c1) < c2 -> x < c1 * (c2 - 1) + 1 if c1 > 0 and c2 <= 0
c1 < truncdiv(x, c2) -> (c1 + 1) * c2 - 1 < x if c1 >= 0 and c2 > 0
c1 < truncdiv(x, c2) -> c1 * c2 < x if c1 < 0 and c2 > 0
truncdiv(x, c1) * c1 < x -> 0 < truncmod(x, c1) if c1 > 0
[index]
truncdiv(x, c1) * c1 < x + y -> 0 < truncmod(x, c1) + y if c1 > 0
truncdiv(x, c1) * c1 < x - y -> y < truncmod(x, c1) if c1 > 0
truncdiv(x + c2, c1) * c1 < x -> c2 < truncmod(x + c2, c1) if c1 > 0
truncdiv(x + c2, c1) * c1 < x + y -> c2 < truncmod(x + c2, c1) + y if c1 > 0
truncdiv(x + c2, c1) * c1 < x - y -> y < truncmod(x + c2, c1) + (0 - c2) if c1 > 0
# floored quotients
[integer]
x // c1 < c2 -> x < c1 * c2 if c1 > 0
c1 < x // c2 -> (c1 + 1) * c2 - 1 < x if c2 > 0
[index]
x // c1 * c1 < x -> 0 < x % c1 if c1 > 0
x // c1 * c1 < x + y -> 0 < x % c1 + y if c1 > 0
x // c1 * c1 < x - y -> y < x % c1 if c1 > 0
(x + c2) // c1 * c1 < x -> c2 < (x + c2) % c1 if c1 > 0
(x + c2) // c1 * c1 < x + y -> c2 < (x + c2) % c1 + y if c1 > 0
(x + c2) // c1 * c1 < x - y -> y < (x + c2) % c1 + (0 - c2) if c1 > 0
# extremes as logical terms
[integer]
min(x, y) < z => x < z or y < z
max(x, y) < z => x < z and y < z
z < min(x, y) => z < x and z < y
z < max(x, y) => z < x or z < y
[index]
# order: one constant, alone on its side
c1 < x + c2 | c1 - x < c2 => c1 - c2 < x
c1 < c2 - x | x + c1 < c2 => x < c2 - c1
c1 < x - c2 => c1 + c2 < x
x - c2 < c1 => x < c1 + c2
x < c1 - y => x + y < c1
c1 - y < x => c1 < x + y
x < c1 + y => x - y < c1
c1 + y < x => c1 < x - y
@merge_offsets
@divide_by_common_factor
"""

NOT = """
[vector]
not broadcast(x, lanes) -> broadcast(not x, lanes)

[any]
not (not x) -> x
not (x <= y) -> y < x if exact(x)
not (x >= y) -> x < y if exact(x)
not (x < y) -> y <= x if exact(x)
not (x > y) -> x <= y if exact(x)
not (x == y) -> x != y
not (x != y) -> x == y
not (x or y) => (not x) and (not y)
not (x and y) => (not x) or (not y)
"""

AND = """
[vector]
broadcast(x, lanes) and broadcast(y, lanes) -> broadcast(x and y, lanes)

[any]
# what cannot be
x == y and x != y | x != y and x == y -> False
x and not x -> False
x <= y and y < x | y < x and x <= y -> False
x < c1 and c2 < x | c2 < x and x < c1 -> False if c2 + 1 >= c1
x < c1 and c2 <= x | c2 <= x and x < c1 | x <= c1 and c2 < x | c2 < x and x <= c1 -> False if c2 >= c1
x <= c1 and c2 <= x | c2 <= x and x <= c1 -> False if c2 > c1
x == c1 and x == c2 -> x == c1 and same(c1, c2)
x == c1 and x != c2 | x != c2 and x == c1 -> x == c1 and differ(c1, c2)
# quotient and remainder together
x // c2 == c1 and x % c2 == c3 | x % c2 == c3 and x // c2 == c1 => x == c1 * c2 + c3 \
    if 0 <= c3 < c2 or c2 < c3 <= 0
0 <= x - y * c1 and x - y * c1 < c1 | x - y * c1 < c1 and 0 <= x - y * c1 => y == x // c1 \
    if c1 > 0 and index(x - y)
c1 < x - y * c1 and x - y * c1 <= 0 => y == x // c1 if c1 < 0 and index(x - y)
0 <= x + y * c2 and x + y * c2 < c1 | x + y * c2 < c1 and 0 <= x + y * c2 => y == x // c1 \
    if c1 > 0 and c2 == -c1 and index(x - y)
x < c1 and x % c2 < c3 => x < c1 - c2 + c3 and x % c2 < c3 if c2 >= c3 and c2 > 0 and c1 % c2 == 0
x < c1 and x % c2 < c3 => x < c1 - c1 % c2 + c3 and x % c2 < c3 if c2 > 0 and c1 % c2 > c3
x <= c1 and x % c2 < c3 => x < c1 + 1 - c2 + c3 and x % c2 < c3 if c2 >= c3 and c2 > 0 and (c1 + 1) % c2 == 0
x <= c1 and x % c2 < c3 => x < c1 + 1 - c1 % c2 + c3 and x % c2 < c3 if c2 > 0 and (c1 + 1) % c2 > c3
x // c2 == c1 and x % c2 < c3 | x % c2 < c3 and x // c2 == c1 => c1 * c2 <= x and x < c1 * c2 + c3 \
    if c2 >= c3 and c2 > 0
x // c2 == c1 and x % c2 <= c3 | x % c2 <= c3 and x // c2 == c1 => c1 * c2 <= x and x <= c1 * c2 + c3 \
    if c2 > c3 and c2 > 0
x // c2 == c1 and c3 <= x % c2 | c3 <= x % c2 and x // c2 == c1 => c1 * c2 + c3 <= x and x < (c1 + 1) * c2 \
    if c3 >= 0 and c2 > 0
x // c2 == c1 and c3 < x % c2 | c3 < x % c2 and x // c2 == c1 => c1 * c2 + c3 < x and x < (c1 + 1) * c2 \
    if c3 >= -1 and c2 > 0
# order: to the left
x and (y and z) => (x and y) and z
"""

OR = """
[vector]
broadcast(x, lanes) or broadcast(y, lanes) -> broadcast(x or y, lanes)

[any]
# what must be
x == y or x != y | x != y or x == y -> True
x or not x -> True
x <= y or y < x | y < x or x <= y -> True if exact(x)
x < y or y < x -> x != y if exact(x)
x < c1 or c2 < x | c2 < x or x < c1 -> True if c2 < c1
x <= c1 or c2 < x | c2 < x or x <= c1 -> True if c2 <= c1
x < c1 or c2 <= x | c2 <= x or x < c1 -> True if c2 <= c1
x <= c1 or c2 <= x | c2 <= x or x <= c1 -> True if c2 <= c1 + 1
x != c1 or x != c2 -> x != c1 or differ(c1, c2)
x != c1 or x == c2 | x == c2 or x != c1 -> x != c1 or same(c1, c2)
# less or equal
x < y or x == y | x < y or y == x | x == y or x < y | y == x or x < y => x <= y
# order: to the left
x or (y or z) => (x or y) or z
"""

SELECT = """
select(x, y, y) -> y
"""
