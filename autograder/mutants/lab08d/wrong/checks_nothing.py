# Refuses nothing.
def grow_beam(parents, log_probs, width):
    scores, depths = [], []
    for parent, log_prob in zip(parents, log_probs):
        scores.append(log_prob + (scores[parent] if parent >= 0 else 0.0))
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    level = [node for node, depth in enumerate(depths) if depth == max(depths)]
    return scores, sorted(sorted(level, key=lambda node: -scores[node])[:width])


def rerank(parents, scores, num_nodes):
    nodes = sorted(sorted(range(len(scores)), key=lambda node: -scores[node])[:num_nodes])
    place = {node: index for index, node in enumerate(nodes)}
    return nodes, [place[parents[node]] if parents[node] >= 0 else -1 for node in nodes]
