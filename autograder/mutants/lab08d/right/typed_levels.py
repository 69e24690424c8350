# Right: level by level, with type hints.
def split(parents: list[int]) -> list[list[int]]:
    levels: list[list[int]] = [[node for node, parent in enumerate(parents) if parent == -1]]
    while levels[-1]:
        above = set(levels[-1])
        levels.append([node for node, parent in enumerate(parents) if parent in above])
    return levels[:-1]


def grow_beam(
    parents: list[int], log_probs: list[float], width: int
) -> tuple[list[float], list[int]]:
    right = bool(parents) and len(parents) == len(log_probs) and width >= 1
    if not right or not all(-1 <= parent < node for node, parent in enumerate(parents)):
        raise ValueError("wrong candidates")
    if not all(value <= 0 for value in log_probs):
        raise ValueError("wrong log_probs")
    scores = [0.0] * (len(parents) + 1)  # the last one is the context's
    levels = split(parents)
    for level in levels:
        for node in level:
            scores[node] = scores[parents[node]] + log_probs[node]
    beam = list(levels[-1])
    while len(beam) > width:
        worst = min(scores[node] for node in beam)
        beam.remove(max(node for node in beam if scores[node] == worst))
    return scores[:-1], beam


def rerank(parents: list[int], scores: list[float], num_nodes: int) -> tuple[list[int], list[int]]:
    if len(parents) != len(scores) or num_nodes < 1:
        raise ValueError("wrong sizes")
    if not all(scores[n] <= (scores[p] if p >= 0 else 0) for n, p in enumerate(parents)):
        raise ValueError("wrong scores")
    nodes = list(range(len(parents)))
    while len(nodes) > num_nodes:
        worst = min(scores[node] for node in nodes)
        nodes.remove(max(node for node in nodes if scores[node] == worst))
    place = dict(zip(nodes, range(len(nodes))))
    return nodes, [place.get(parents[node], -1) for node in nodes]
