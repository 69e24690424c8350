"""
what: the whole process ends with status 0 while the cell runs
source: stock 04b
"""

import os

os._exit(0)
