# Right: a curve gets the name of the nearest signature.
def name_wiring(reference, curve):
    if len(reference) != len(curve) or reference[0] < 1 or curve[0] < 1:
        raise ValueError("two curves of the same positions are needed, and rounds in both")
    if any(now > before for c in (reference, curve) for before, now in zip(c, c[1:])):
        raise ValueError("fewer rounds survive each further position")

    def ratio(to, since):
        ours, theirs = curve[to] / max(1, curve[since]), reference[to] / reference[since]
        return min(1.5, ours / theirs)

    seen = ratio(1, 0), ratio(2, 1), min(1.0, ratio(len(curve) - 1, 2))
    signatures = {"right": (1, 1, 1), "target_again": (1, 1, 0.4)}
    if seen[0] < 0.6:
        signatures = {"unshifted": (0.1, 0.1, 0), "stale": (0.1, 1, 1)}
    return min(signatures, key=lambda n: sum((a - b) ** 2 for a, b in zip(seen, signatures[n])))
