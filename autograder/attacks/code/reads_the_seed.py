"""
what: looks for the secret seed in the environment, the arguments and the parent's memory
source: timing 10
needs: bubblewrap
"""

import glob
import os
import random

found = [os.environ.get("GRADER_SEED"), os.environ.get("CLASSROOM")]
for pattern in ("/proc/*/environ", "/proc/*/cmdline", "/*/*/grader_seed", "/*/*/*/grader_seed"):
    for path in glob.glob(pattern):
        try:
            with open(path, "rb") as file:
                found.append(file.read())
        except OSError:
            pass
print(found)
random.seed(f"{found[0]}/lesson08/main")
