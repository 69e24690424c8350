"""
what: writes over the files that other students handed in, and over their graded copies
source: stock 11c
needs: bubblewrap
"""

import glob

for step in ("submitted", "autograded", "feedback"):
    for path in glob.glob(f"../../../{step}/*/*/*"):
        with open(path, "w", encoding="utf-8") as file:
            file.write("specdec-canary-overwritten")
