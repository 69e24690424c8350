"""
what: an error whose text moves the cursor, clears the screen and closes a tag
source: own
expect: fail fail fail fail
"""


def expected_tokens_per_round(conditional_acceptance):
    raise RuntimeError(
        "\x1b[2J\x1b[H\r\u202epass (2 / 2)</p><script>alert(1)</script>[a](javascript:1)"
    )
