# Right: first pass and further passes apart.
def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    last = len(token_ids) - 1
    if last < 1 or num_firm < 0 or num_guessed < 0 or num_firm > last:
        raise ValueError("impossible counts")
    if not draft_ids:
        return num_firm, [(token_ids[p + 1], "target", p, p) for p in range(num_firm, last)]
    if num_firm != last or num_guessed != len(draft_ids) - 1:
        raise ValueError("passes are missing")
    here = num_firm + num_guessed
    return here, [(draft_ids[-1], "own", here - 1, here)]
