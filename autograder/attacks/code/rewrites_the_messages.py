"""
what: replaces the worker's own encoder, so that every answer says what it wants
source: timing 7, timing 9
expect: invalid invalid invalid invalid
"""

import sys

wire = sys.modules.get("wire")
if wire:
    wire.to_wire = lambda value, depth=0: {"!": "float", "v": "2.64", "points": 2}
