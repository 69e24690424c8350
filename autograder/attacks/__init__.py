"""Submissions that try to take marks, to harm another student or to hurt the grader.

code/       Python that a student could type into a cell: run in the sandbox only, never here
notebook/   changes to the notebook's file: `attack(notebook, cells)`
files/      changes to the folder that is handed in: `attack(folder)`
units/      answers that play on what one unit asks, in a folder a unit; see unit_attacks.py

Each begins with what it tries, where it was seen and what it must get. `waiting.yml` names what
has no form yet. The corpus is for reading too: try to break the grader, then look here.
"""
