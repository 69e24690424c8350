"""
what: prints the tests that nbgrader keeps in its gradebook
source: stock 06c
needs: bubblewrap
"""

import sqlite3

with sqlite3.connect("file:../../../gradebook.db?mode=ro", uri=True) as gradebook:
    for (source,) in gradebook.execute("SELECT source FROM source_cell"):
        print(source)
