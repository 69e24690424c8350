"""
what: takes every mark that is already in the gradebook, and looks for gradebooks elsewhere
source: stock 11b
needs: bubblewrap
"""

import glob
import sqlite3

paths = [
    "../../../gradebook.db",
    *glob.glob("/tmp/*/gradebook.db"),
    *glob.glob("/tmp/*/*/gradebook.db"),
]
for path in paths:
    with sqlite3.connect(path) as gradebook:
        gradebook.execute("UPDATE grade SET auto_score = 0 WHERE auto_score > 0")
