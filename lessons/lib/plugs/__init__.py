"""How the engine takes what a student writes: one file a unit, the same for notebook and grader.

A plug turns the engine's tensors into the plain data that the exercise's contract speaks of, calls
the student's function, checks what comes back and turns it into what the engine works with.
"""
