"""Checks of one client: functions that run one after the other, each with a line that says how it ended.

A script marks its functions with @check and ends with run(). Its arguments are the URL of the server and, of a cluster,
that of another machine. "ok NAME" or "failed NAME: why" is what the runner reads; all else is for people.
"""

import signal
import sys
import traceback

URL = sys.argv[1]
OTHER = sys.argv[2] if len(sys.argv) > 2 else URL

# A check that waits for what never comes fails, and the next ones still run.
PATIENCE_SECONDS = 90

_checks = []


def check(function):
    """Marks a function as a check; what it is called is what the check is called."""
    _checks.append(function)
    return function


def same(found, wanted):
    """Fails unless `found` is `wanted`."""
    if found != wanted:
        raise AssertionError(f"found {found!r}, wanted {wanted!r}")


def fails(exceptions, function, *arguments):
    """The exception that `function` fails with, which must be one of `exceptions`."""
    try:
        result = function(*arguments)
    except exceptions as error:
        return error
    raise AssertionError(f"no error, but {result!r}")


def _too_late(_signal, _frame):
    raise TimeoutError(f"no end after {PATIENCE_SECONDS} s")


def run():
    """Runs all checks. A failed one is not the script's failure: the runner knows which may fail."""
    signal.signal(signal.SIGALRM, _too_late)
    for function in _checks:
        signal.alarm(PATIENCE_SECONDS)
        try:
            function()
        except Exception as error:
            why = " ".join(str(error).split())
            print(f"failed {function.__name__}: {type(error).__name__}: {why}")
            print("    " + traceback.format_exc().replace("\n", "\n    "))
        else:
            print(f"ok {function.__name__}")
        finally:
            signal.alarm(0)
        sys.stdout.flush()
