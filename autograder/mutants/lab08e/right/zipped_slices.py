# Right: slices of the text side by side, rows as lists.
def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    last = len(token_ids) - 1
    if last < 1 or not 0 <= num_firm <= last or num_guessed < 0:
        raise ValueError("the module cannot have these rows")
    if draft_ids and (num_firm < last or num_guessed != len(draft_ids) - 1):
        raise ValueError("a pass before this one is missing")
    states = [["target", p] for p in range(last)] + [["own", p - 1] for p in range(last, last + 99)]
    kept = num_firm + num_guessed if draft_ids else num_firm
    behind = (token_ids + draft_ids)[kept + 1 :]
    return [kept, [[t, *states[kept + i], kept + i] for i, t in enumerate(behind)]]
