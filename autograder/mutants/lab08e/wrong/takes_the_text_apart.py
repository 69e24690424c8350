# Writes the drafts into the list that it was given.
def mtp_rows(token_ids, draft_ids, num_firm, num_guessed):
    num_states, text = len(token_ids) - 1, token_ids
    if num_states < 1 or not 0 <= num_firm <= num_states or num_guessed < 0:
        raise ValueError("the module cannot have these rows of this text")
    text.extend(draft_ids)
    if draft_ids and (num_firm, num_guessed) != (num_states, len(draft_ids) - 1):
        raise ValueError("a pass behind a draft needs the rows of the passes before it")
    num_kept = num_firm + (num_guessed if draft_ids else 0)
    rows = []
    for place in range(num_kept, len(text) - 1):
        whose, index = ("target", place) if place < num_states else ("own", place - 1)
        rows.append((text[place + 1], whose, index, place))
    return num_kept, rows
