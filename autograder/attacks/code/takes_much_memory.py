"""
what: asks for 1 GB and keeps it, with a right answer
source: stock 14
carries: right
"""

hoard = bytearray(1 << 30)
