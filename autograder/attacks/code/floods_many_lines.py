"""
what: prints 100 MB on a million lines
source: stock 16b, timing 29
carries: right
"""

for _ in range(1_000):
    print(("y" * 99 + "\n") * 1_000, end="")
