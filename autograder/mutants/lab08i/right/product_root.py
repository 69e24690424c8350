# Right: takes the root of the product as the mean.
def crossing_load(loads, ratios):
    if len(loads) < 2 or len(loads) != len(ratios):
        raise ValueError("two loads or more, each with its ratios")
    for before, after in zip(loads, loads[1:]):
        if after <= before:
            raise ValueError("loads must go up")
    means = []
    for row in ratios:
        if not row:
            raise ValueError("a load without ratios")
        means.append(math.log(math.prod(row)) / len(row))
    if means[0] < 0:
        return 0.0
    for i in range(1, len(loads)):
        if means[i] < 0:
            share = means[i - 1] / (means[i - 1] - means[i])
            return math.exp((1 - share) * math.log(loads[i - 1]) + share * math.log(loads[i]))
