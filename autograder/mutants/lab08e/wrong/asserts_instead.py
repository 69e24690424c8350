# Asserts instead of raising ValueError.
def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    num_states, text = len(token_ids) - 1, token_ids + draft_ids
    assert num_states >= 1 and 0 <= num_firm <= num_states and num_guessed >= 0
    assert not draft_ids or (num_firm, num_guessed) == (num_states, len(draft_ids) - 1)
    num_kept = num_firm + (num_guessed if draft_ids else 0)
    rows = []
    for place in range(num_kept, len(text) - 1):
        whose, index = ("target", place) if place < num_states else ("own", place - 1)
        rows.append((text[place + 1], whose, index, place))
    return num_kept, rows
