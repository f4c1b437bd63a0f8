"""Run hostile cases: `python -m tests.hostile --cases 3000`; replay one: `python -m tests.hostile --case 1234`."""

import argparse
import collections
import concurrent.futures
import faulthandler
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Cases of one process: what a library leaves behind ends with it.
CHUNK = 500
# Beyond this an allocation fails, before the machine is at its end.
MEMORY = 24 * 2**30


def run_here(numbers, show):
    """Run cases in this process; print a line of JSON for each when it begins, and one when it ends."""
    import tests.conftest  # noqa: F401 the same settings as for the other tests
    from tests.hostile.cases import make_case
    from tests.hostile.sandbox import SECONDS, Sandbox

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    report = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory(prefix="hostile-") as root:
        os.chmod(root, 0o755)
        for name in ("MPLCONFIGDIR", "JAX_COMPILATION_CACHE_DIR"):
            os.environ.setdefault(name, f"{root}-{name.lower()}")
        sandbox = Sandbox(root)
        for number in numbers:
            case = make_case(number)
            print(json.dumps({"number": number, "category": case.category, "text": case.text}), file=report, flush=True)
            faulthandler.dump_traceback_later(3 * SECONDS, exit=True)
            outcome = sandbox.run(case)
            faulthandler.cancel_dump_traceback_later()
            found = {
                "number": number,
                "category": case.category,
                "text": case.text,
                "verdict": outcome.verdict,
                "reasons": outcome.reasons,
                "seconds": outcome.seconds,
            }
            print(json.dumps(found), file=report, flush=True)
            if show:
                print(f"{case.program} {case.arguments}\nexpected: {case.expect}, names {case.names}", file=sys.stderr)
                print(f"status {outcome.status}, {outcome.seconds:.1f} s\n{outcome.error}", file=sys.stderr)
        os.chdir("/")


def run_chunk(first, last):
    """Run cases in a process of their own, and in another where that one died; yield what was found."""
    while first < last:
        command = [sys.executable, "-m", "tests.hostile", "--from", str(first), "--to", str(last)]
        begun = None
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            for line in process.stdout:
                entry = json.loads(line)
                if "verdict" in entry:
                    yield entry
                    first, begun = entry["number"] + 1, None
                else:
                    begun = entry
            status = process.wait()
            errors.seek(0)
            said = errors.read()
        if status == 0:
            return
        if begun is None:
            raise RuntimeError(f"the harness itself failed:\n{said[-3000:]}")
        reason = f"the process died with status {status}: {said[-300:]}"
        yield {**begun, "verdict": "failed", "reasons": [reason], "seconds": 0.0}
        first = begun["number"] + 1


def told(entries):
    """A list of what was found; failures are told as they come."""
    found = []
    for one in entries:
        found.append(one)
        if one["verdict"] == "failed":
            print(f"{one['number']} {one['text']!r}: {'; '.join(one['reasons'])}", flush=True)
    return found


def table(found):
    """A Markdown table: a row a category."""
    rows = [["input", "cases", "refused", "accepted", "failed"]]
    categories = list(dict.fromkeys(one["category"] for one in found))
    for category in [*sorted(categories), "all"]:
        here = [one["verdict"] for one in found if category in ("all", one["category"])]
        rows.append([category, len(here), *(here.count(verdict) for verdict in ("refused", "accepted", "failed"))])
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|---|--:|--:|--:|--:|", *lines[1:]])


def main():
    """Run what the command line says; the status is 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="how far cases are counted from 0 (default: 300)")
    parser.add_argument("--start", type=int, help="number of the first one (default: that of the first good line)")
    parser.add_argument("--case", type=int, help="run this case alone, and show what it says")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    parser.add_argument("--from", type=int, dest="first", help=argparse.SUPPRESS)
    parser.add_argument("--to", type=int, dest="last", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None or options.first is not None:
        one = options.case is not None
        run_here([options.case] if one else range(options.first, options.last), show=one)
        return 0
    began = time.monotonic()
    if options.start is None:
        from tests.hostile.good_lines import good_lines

        options.start = -len(good_lines())
    end = options.cases
    size = max(1, min(CHUNK, -(-(end - options.start) // options.jobs)))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        chunks = [
            pool.submit(lambda n=n: told(run_chunk(n, min(n + size, end)))) for n in range(options.start, end, size)
        ]
        found = [one for chunk in chunks for one in chunk.result()]
    slowest = max(found, key=lambda one: one["seconds"])
    verdicts = collections.Counter(one["verdict"] for one in found)
    print(f"\n{table(found)}\n")
    print(f"slowest: case {slowest['number']}, {slowest['seconds']:.1f} s; {time.monotonic() - began:.0f} s in all")
    if verdicts["failed"]:
        print("replay one with: python -m tests.hostile --case NUMBER")
    return int(verdicts["failed"] > 0 or len(found) != end - options.start)


if __name__ == "__main__":
    sys.exit(main())
