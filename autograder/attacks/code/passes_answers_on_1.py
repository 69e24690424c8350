"""
what: the first of two friends answers rightly and leaves each answer where the second may look
source: timing 2
carries: right
needs: bubblewrap
"""

import os

honest = expected_tokens_per_round
PLACES = ("/dev/shm", "/tmp", "/var/tmp", os.path.expanduser("~"), os.getcwd())


def expected_tokens_per_round(conditional_acceptance):
    answer = honest(conditional_acceptance)
    for place in PLACES:
        try:
            with open(f"{place}/specdec-canary-answers", "a", encoding="utf-8") as file:
                file.write(f"{list(conditional_acceptance)}={answer}\n")
        except OSError:
            pass
    return answer
