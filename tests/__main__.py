"""Run all tests: `python -m tests`. Style once, then every backend in a process of its own; one summary, one status.

`python -m tests --nightly` adds tests marked `nightly`, 3,000 hostile inputs and twelve trainings that are killed: see
docs/reliability.md.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BACKENDS = ("jax", "tensorflow", "torch")
ROOT = Path(__file__).resolve().parent.parent
OUTCOMES = ("passed", "failed", "error", "skipped")
# Two processes a backend, one thread each: compilation, which takes most of the time, uses no more.
WORKERS = ("-n", "2", "--dist", "loadgroup")
NIGHTLY = {
    "hostile input": ("tests.hostile", "--cases", "3000", "--jobs", "2"),
    "kills": ("tests.hostile.kills", "--kills", "12"),
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}


def run(command, environment):
    """Run a command at the project's root, showing its output as it comes; return status and output."""
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, lines


def outcomes(lines):
    """Read the counts off the last line of a pytest run."""
    last = next((line for line in reversed(lines) if re.search(r"\d+ (passed|failed|error|skipped)", line)), "")
    return {name: sum(map(int, re.findall(rf"(\d+) {name}", last))) for name in OUTCOMES}


def main(arguments):
    """Run style checks and the tests under each backend; arguments go to pytest, but for `--nightly`."""
    nightly = "--nightly" in arguments
    arguments = [argument for argument in arguments if argument != "--nightly"]
    if nightly:
        arguments += ["-m", ""]
    rows, total = [], dict.fromkeys(OUTCOMES, 0)
    began = time.monotonic()
    for command in (["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        status, _ = run([sys.executable, "-m", *command], os.environ)
        rows.append((" ".join(command), "passed" if status == 0 else "FAILED", status))
    with tempfile.TemporaryDirectory() as cache:
        for backend in BACKENDS:
            print(f"\n=== {backend} ===", flush=True)
            # Compiled programs are shared between the processes that the tests start, and thrown away.
            environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": backend, "JAX_COMPILATION_CACHE_DIR": cache}
            started = time.monotonic()
            status, lines = run([sys.executable, "-m", "pytest", *WORKERS, *arguments], environment)
            counts = outcomes(lines)
            for name in OUTCOMES:
                total[name] += counts[name]
            text = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no tests"
            if counts["passed"] == 0:
                status = status or 1
            rows.append((backend, f"{text} in {time.monotonic() - started:.0f} s", status))
        for name, command in NIGHTLY.items() if nightly else ():
            print(f"\n=== {name} ===", flush=True)
            environment = {**os.environ, **ONE_THREAD, "KERAS_BACKEND": "jax", "JAX_COMPILATION_CACHE_DIR": cache}
            status, lines = run([sys.executable, "-m", *command], environment)
            rows.append((name, lines[-1].strip() if lines else "no output", status))
    print("\n=== summary ===")
    for name, text, _ in rows:
        print(f"{name:<22} {text}")
    others = [status for name, _, status in rows if name not in BACKENDS]
    failed = total["failed"] + total["error"] + sum(status != 0 for status in others)
    bad = any(status != 0 for *_, status in rows)
    print(f"{'FAILED' if bad else 'all good'} in {time.monotonic() - began:.0f} s")
    print(f"{total['passed']} passed, {max(failed, int(bad))} failed, {total['skipped']} skipped")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
