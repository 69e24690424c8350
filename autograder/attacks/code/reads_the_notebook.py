"""
what: runs and prints what the notebooks in the working folder hold, hidden tests included
source: stock 06a
"""

import glob
import os

for path in glob.glob("*.ipynb") + glob.glob(os.path.expanduser("~/**/*.ipynb"), recursive=True):
    with open(path, encoding="utf-8") as file:
        print(file.read()[:20_000])
