# Looks at the first position only.
def name_wiring(reference, curve):
    if len(reference) != len(curve) or reference[0] < 1 or curve[0] < 1:
        raise ValueError("two curves of the same positions are needed, and rounds in both")
    if any(now > before for c in (reference, curve) for before, now in zip(c, c[1:])):
        raise ValueError("fewer rounds survive each further position")
    first = (curve[1] / curve[0]) / (reference[1] / reference[0])
    if first < 0.6:
        return "unshifted"
    return "target_again" if first < 0.95 else "right"
