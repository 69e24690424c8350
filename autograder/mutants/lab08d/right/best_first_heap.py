# Right: a heap that opens the best node next, from the context down.
import heapq


def grow_beam(parents, log_probs, width):
    if not parents or len(parents) != len(log_probs) or width < 1:
        raise ValueError("bad sizes")
    scores, level, deepest = [], [], 0
    depths = {-1: 0}
    for node, parent in enumerate(parents):
        if parent < -1 or parent >= node or not (log_probs[node] <= 0):
            raise ValueError("bad candidate")
        depths[node] = depths[parent] + 1
        scores.append((scores[parent] if parent != -1 else 0) + log_probs[node])
        if depths[node] > deepest:
            deepest, level = depths[node], []
        if depths[node] == deepest:
            level.append(node)
    return scores, sorted(heapq.nsmallest(width, level, key=lambda node: (-scores[node], node)))


def rerank(parents, scores, num_nodes):
    if len(parents) != len(scores) or num_nodes < 1:
        raise ValueError("bad sizes")
    children = {}
    for node, parent in enumerate(parents):
        if not (scores[node] <= (scores[parent] if parent != -1 else 0)):
            raise ValueError("bad score")
        children.setdefault(parent, []).append(node)
    heap = [(-scores[node], node) for node in children[-1]]
    heapq.heapify(heap)
    nodes = []
    while heap and len(nodes) < num_nodes:
        _, node = heapq.heappop(heap)
        nodes.append(node)
        for child in children.get(node, []):
            heapq.heappush(heap, (-scores[child], child))
    nodes.sort()
    return nodes, [nodes.index(parents[node]) if parents[node] != -1 else -1 for node in nodes]
