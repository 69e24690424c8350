# Right: with numpy.
import numpy as np


def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    text = np.asarray(token_ids + draft_ids, dtype=int)
    last = len(token_ids) - 1
    if last < 1 or num_firm not in range(last + 1) or num_guessed < 0:
        raise ValueError("these rows are impossible")
    if draft_ids and num_firm + num_guessed != last + len(draft_ids) - 1:
        raise ValueError("a pass is missing")
    if draft_ids and num_firm != last:
        raise ValueError("the first pass is missing")
    kept = num_firm + num_guessed * bool(draft_ids)
    places = np.arange(kept, len(text) - 1)
    index = np.where(places < last, places, places - 1)
    whose = np.where(places < last, "target", "own")
    columns = (text[places + 1], whose, index, places)
    return int(kept), [tuple(part.item() for part in row) for row in zip(*columns)]
