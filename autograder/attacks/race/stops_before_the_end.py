"""
what: the engine stops at half of what it was asked for
source: specdec e
expect: fail
"""

generate = race_engine.generate


def short(prompt_ids, num_tokens, **options):
    return generate(prompt_ids, num_tokens // 2, **options)


race_engine.generate = short
