# Compares counts of rounds that are not equally many.
def name_wiring(reference, curve):
    if len(reference) != len(curve) or reference[0] < 1 or curve[0] < 1:
        raise ValueError("two curves of the same positions are needed, and rounds in both")
    if any(now > before for c in (reference, curve) for before, now in zip(c, c[1:])):
        raise ValueError("fewer rounds survive each further position")
    if curve[1] < 0.6 * reference[1]:
        return "stale" if curve[2] > 0.3 * curve[1] else "unshifted"
    return "target_again" if curve[-1] < 0.75 * reference[-1] else "right"
