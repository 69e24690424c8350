# Right: numpy, with a stable argsort.
import numpy as np


def grow_beam(parents, log_probs, width):
    links, own = np.asarray(parents, dtype=int), np.asarray(log_probs, dtype=float)
    if len(links) == 0 or len(links) != len(own) or width < 1:
        raise ValueError("candidates, a log_prob for each and a width of 1 or more")
    if not ((links >= -1) & (links < np.arange(len(links))) & (own <= 0)).all():
        raise ValueError("a parent stands before its child, and a log_prob is 0 or less")
    scores, depths = own.copy(), np.ones(len(own), dtype=int)
    for node in np.flatnonzero(links >= 0):
        scores[node] += scores[links[node]]
        depths[node] += depths[links[node]]
    level = np.flatnonzero(depths == depths.max())
    best = level[np.argsort(-scores[level], kind="stable")[:width]]
    return scores, np.sort(best)


def rerank(parents, scores, num_nodes):
    links, totals = np.asarray(parents, dtype=int), np.asarray(scores, dtype=float)
    if len(links) != len(totals) or num_nodes < 1:
        raise ValueError("a score for each candidate and a node at least")
    above = np.append(totals, 0.0)[links]  # -1 is the context
    if not (totals <= above).all():
        raise ValueError("a score is above its parent's")
    nodes = np.sort(np.argsort(-totals, kind="stable")[:num_nodes])
    place = np.full(len(links) + 1, -1)
    place[nodes] = np.arange(len(nodes))
    return nodes, place[links[nodes]]
