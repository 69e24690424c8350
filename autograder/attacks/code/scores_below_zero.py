"""
what: int() and round() give a negative number of points
source: stock 12e
"""

import builtins

int = round = builtins.round = lambda *args: -1
