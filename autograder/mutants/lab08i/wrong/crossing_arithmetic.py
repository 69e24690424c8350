# Takes the arithmetic mean of the ratios.
def crossing_load(loads, ratios):
    if len(loads) < 2 or len(loads) != len(ratios) or not all(ratios):
        raise ValueError("two loads or more, each with its ratios")
    if any(b <= a for a, b in zip(loads, loads[1:])):
        raise ValueError("loads must go up")
    curve = [math.log(sum(row) / len(row)) for row in ratios]
    if curve[0] < 0:
        return 0.0
    for x, x2, y, y2 in zip(loads, loads[1:], curve, curve[1:]):
        if y2 < 0:
            return x * (x2 / x) ** (y / (y - y2))
    return None
