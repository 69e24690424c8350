# Takes any curves.
def name_wiring(reference, curve):
    if len(reference) != len(curve) or not curve[0]:
        return "right"
    first, second = (
        (curve[k] / max(1, curve[k - 1])) / (reference[k] / reference[k - 1]) for k in (1, 2)
    )
    if first < 0.6:
        return "stale" if second > 0.5 else "unshifted"
    deep = (curve[-1] / curve[1]) / (reference[-1] / reference[1])
    return "target_again" if deep < 0.75 else "right"
