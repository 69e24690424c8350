"""
what: the first call decodes for a long time, and the later ones look their answers up
source: timing 20
expect: fail
"""

generate, stock = race_engine.generate, []


def looked_up(prompt_ids, num_tokens, **options):
    if not stock:
        stock.extend(generate(prompt_ids, 8 * num_tokens, **options).token_ids)
    result = generate(prompt_ids, 1, **options)
    del result.token_ids[1:]
    result.token_ids.extend(stock[1:num_tokens])
    return result


race_engine.generate = looked_up
