"""
what: sys.exit(0) at the end of the cell, so that nothing after it is run
source: stock 04a
"""

import sys

sys.exit(0)
