"""Run hostile command lines: `python -m tests.hostile --cases 1000`; `--case 123` replays one, with what it says."""

import argparse
import collections
import faulthandler
import os
import resource
import sys
import tempfile
import time

# Beyond this an allocation fails, before the machine is at its end.
MEMORY = 24 * 2**30


def main():
    """Run what the command line says; the status is 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="how far cases are counted from 0 (default: 300)")
    parser.add_argument("--start", type=int, help="number of the first one (default: that of the first good line)")
    parser.add_argument("--case", type=int, help="run this case alone, and show what it says")
    options = parser.parse_args()
    import tests.conftest  # noqa: F401 the same settings as for the other tests
    from tests.hostile.good_lines import good_lines
    from tests.hostile.options import make_case
    from tests.hostile.sandbox import SECONDS, Sandbox

    start = -len(good_lines()) if options.start is None else options.start
    numbers = range(start, options.cases) if options.case is None else [options.case]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began, verdicts = time.monotonic(), collections.Counter()
    with tempfile.TemporaryDirectory(prefix="hostile-") as root:
        for name in ("MPLCONFIGDIR", "JAX_COMPILATION_CACHE_DIR"):
            os.environ.setdefault(name, f"{root}-{name.lower()}")
        sandbox = Sandbox(root)
        for number in numbers:
            case = make_case(number)
            faulthandler.dump_traceback_later(3 * SECONDS, exit=True)
            outcome = sandbox.run(case)
            faulthandler.cancel_dump_traceback_later()
            verdicts[outcome.verdict] += 1
            if outcome.reasons:
                print(f"{number} {case.text!r}: {'; '.join(outcome.reasons)}", flush=True)
            if options.case is not None:
                print(f"{case.program} {case.arguments}\nexpected: {case.expect}, names {case.names}")
                print(f"status {outcome.status}\n{outcome.error}")
        os.chdir("/")
    counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in ("refused", "accepted", "failed"))
    print(f"{len(numbers)} cases: {counts}; {time.monotonic() - began:.0f} s")
    return int(verdicts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
