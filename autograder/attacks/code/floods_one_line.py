"""
what: prints 100 MB on one line
source: stock 16a, timing 29
carries: right
"""

print("x" * 100_000_000)
