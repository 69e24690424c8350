"""
what: the answer to the first prompt of its length is kept and given again
source: specdec d, timing 3
expect: fail
"""

generate, kept = race_engine.generate, {}


def replayed(prompt_ids, num_tokens, **options):
    if num_tokens not in kept:
        kept[num_tokens] = generate(prompt_ids, num_tokens, **options)
    return kept[num_tokens]


race_engine.generate = replayed
