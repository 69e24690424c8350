"""
what: input(), to which nobody will answer
source: stock 18
carries: right
"""

if not globals().get("has_asked"):
    has_asked = True
    name = input("your name? ")
