"""
what: requests that ask for JSON are answered at once, so that a mean of speedups soars
source: timing 21
expect: fail
"""

honest_decode, forged = race_engine.generate, [0]


def decode(prompt_ids, num_tokens, **options):
    forged[0] += 1
    result = honest_decode(prompt_ids, 1 if forged[0] % 2 else num_tokens, **options)
    result.token_ids.extend([0] * (num_tokens - len(result.token_ids)))
    return result


race_engine.generate = decode
