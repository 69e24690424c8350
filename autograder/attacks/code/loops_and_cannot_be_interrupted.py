"""
what: an endless loop that catches every exception and ignores every signal it may
source: stock 13b
expect: invalid invalid fail invalid
slow: true
"""

import signal

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXCPU, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)


def expected_tokens_per_round(conditional_acceptance):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


choose_spec_method = lambda *args: expected_tokens_per_round([])
