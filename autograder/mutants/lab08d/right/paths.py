# Right: every path walked up, sums by fsum.
def path_of(parents, node):
    path = []
    while node >= 0:
        path.append(node)
        if not -1 <= parents[node] < node:
            raise ValueError("a parent stands before its child")
        node = parents[node]
    return path


def grow_beam(parents, log_probs, width):
    if len(parents) != len(log_probs) or not len(parents) or width <= 0:
        raise ValueError("one log_prob a candidate, one candidate and a width of one at least")
    if any(math.isnan(value) or value > 0 for value in log_probs):
        raise ValueError("the logarithm of a probability is 0 or less")
    paths = [path_of(parents, node) for node in range(len(parents))]
    scores = [math.fsum(log_probs[node] for node in path) for path in paths]
    longest = max(len(path) for path in paths)
    order = [(-scores[path[0]], path[0]) for path in paths if len(path) == longest]
    order.sort()
    return scores, sorted(node for _, node in order[:width])


def rerank(parents, scores, num_nodes):
    if len(parents) != len(scores) or num_nodes <= 0:
        raise ValueError("one score a candidate, and one node at least")
    for node, parent in enumerate(parents):
        limit = 0.0 if parent < 0 else scores[parent]
        if math.isnan(scores[node]) or scores[node] > limit:
            raise ValueError("a candidate cannot be likelier than its parent")
    ranked = sorted((-score, node) for node, score in enumerate(scores))
    nodes = sorted(node for _, node in ranked[:num_nodes])
    return (nodes, [-1 if parents[n] < 0 else nodes.index(parents[n]) for n in nodes])
