"""Try unusual sentences: `python -m tests.unicode --cases 3000`; replay one: `python -m tests.unicode --case 1234`."""

import argparse
import collections
import os
import sys
import tempfile
import time

# How many cases are tried at once.
CHUNK = 32


def main():
    """Run what the command line says; the status is 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.unicode", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="number of cases (default: 300)")
    parser.add_argument("--start", type=int, default=0, help="number of the first one (default: 0)")
    parser.add_argument("--case", type=int, help="try this case alone, and show it")
    options = parser.parse_args()
    from tests.__main__ import ONE_BACKEND

    os.environ["KERAS_BACKEND"] = ONE_BACKEND
    import tests.conftest  # noqa: F401 the same settings as for the other tests
    from tests.unicode.checks import check, check_uses
    from tests.unicode.models import KINDS, kind_of
    from tests.unicode.sentences import pair, sentence

    began = time.monotonic()
    numbers = range(options.start, options.start + options.cases)
    if options.case is not None:
        numbers = [options.case]
        print(f"{kind_of(options.case)}: {pair(options.case)!a}, as text {sentence(options.case)!a}")
    found = collections.defaultdict(dict)
    for kind in KINDS:
        own = [number for number in numbers if kind_of(number) == kind]
        for at in range(0, len(own), CHUNK):
            some = own[at : at + CHUNK]
            with tempfile.TemporaryDirectory() as folder:
                wrong = {**check_uses(kind, some, folder), **check(kind, some)}
            for number, what in wrong.items():
                print(f"{number} {kind}: {what}", flush=True)
            found[kind] |= {number: number in wrong for number in some}
    print("\n| subwords | cases | failed |\n|---|--:|--:|")
    total = {number: wrong for of_kind in found.values() for number, wrong in of_kind.items()}
    for kind, of_kind in [*found.items(), ("all", total)]:
        print(f"| {kind} | {len(of_kind)} | {sum(of_kind.values())} |")
    failed = sum(total.values())
    if failed:
        print("\nreplay one with: python -m tests.unicode --case NUMBER")
    print(f"\n{len(total)} cases, {failed} failed, in {time.monotonic() - began:.0f} s")
    return int(failed > 0 or len(total) != len(numbers))


if __name__ == "__main__":
    sys.exit(main())
