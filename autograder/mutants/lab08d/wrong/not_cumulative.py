# Scores are the candidates' own log_probs.
def grow_beam(parents, log_probs, width):
    if not parents or len(parents) != len(log_probs) or width < 1:
        raise ValueError("one log_prob for each candidate, and a width of 1 or more")
    scores, depths = [], []
    for node, (parent, log_prob) in enumerate(zip(parents, log_probs)):
        if not -1 <= parent < node or not log_prob <= 0:
            raise ValueError(f"candidate {node}: parent {parent}, log_prob {log_prob}")
        scores.append(log_prob)
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    level = [node for node, depth in enumerate(depths) if depth == max(depths)]
    return scores, sorted(sorted(level, key=lambda node: -scores[node])[:width])


def rerank(parents, scores, num_nodes):
    if len(parents) != len(scores) or num_nodes < 1:
        raise ValueError("one score for each candidate, and at least one node")
    for parent, score in zip(parents, scores):
        if not score <= (scores[parent] if parent >= 0 else 0.0):
            raise ValueError(f"a score of {score} is above its parent's, or is none")
    nodes = sorted(sorted(range(len(scores)), key=lambda node: -scores[node])[:num_nodes])
    place = {node: index for index, node in enumerate(nodes)}
    return nodes, [place[parents[node]] if parents[node] >= 0 else -1 for node in nodes]
