# Takes the two wirings that lose the first position for each other.
def name_wiring(reference, curve):
    if len(reference) != len(curve) or reference[0] < 1 or curve[0] < 1:
        raise ValueError("two curves of the same positions are needed, and rounds in both")
    if any(now > before for c in (reference, curve) for before, now in zip(c, c[1:])):
        raise ValueError("fewer rounds survive each further position")
    first, second = (
        (curve[k] / max(1, curve[k - 1])) / (reference[k] / reference[k - 1]) for k in (1, 2)
    )
    if first < 0.6:
        return "unshifted" if second > 0.5 else "stale"
    deep = (curve[-1] / curve[1]) / (reference[-1] / reference[1])
    return "target_again" if deep < 0.75 else "right"
