"""
what: gives every student 99 points in the gradebook
source: stock 11a
needs: bubblewrap
"""

import sqlite3

with sqlite3.connect("../../../gradebook.db") as gradebook:
    gradebook.execute("UPDATE grade SET manual_score = 99")
