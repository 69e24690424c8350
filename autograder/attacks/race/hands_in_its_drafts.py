"""
what: drafted tokens are handed in beside those that the target confirmed
source: specdec c
expect: fail
"""

generate = race_engine.generate


def padded(prompt_ids, num_tokens, **options):
    result = generate(prompt_ids, num_tokens // 2, **options)
    result.token_ids.extend(result.token_ids[-1:] * (num_tokens - len(result.token_ids)))
    return result


race_engine.generate = padded
