# Right: works on logarithms of the loads throughout.
def crossing_load(loads, ratios):
    if len(loads) != len(ratios) or len(loads) < 2:
        raise ValueError("as many rows as loads, two at least")
    if list(loads) != sorted(set(loads)) or any(len(row) == 0 for row in ratios):
        raise ValueError("loads go up, and each has a ratio")
    points = []
    for load, row in zip(loads, ratios):
        points.append((math.log(load), math.fsum(map(math.log, row)) / len(row)))
    below = [place for place, (_, y) in enumerate(points) if y < 0]
    if not below:
        return None
    if below[0] == 0:
        return 0.0
    (x1, y1), (x2, y2) = points[below[0] - 1 : below[0] + 1]
    return math.exp((x1 * -y2 + x2 * y1) / (y1 - y2))
