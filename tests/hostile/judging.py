"""A hostile case, and how its end is judged."""

import dataclasses
import re
import traceback
from pathlib import Path

STATUSES = (0, 2, 130, 143)
# Characters of a line that one still reads; argparse quotes what it refuses as it came.
LONGEST = 4200
_NOISE = re.compile(r"Traceback|Warning:|Exception|^\s+File |WARNING|^[WEI]\d{4} |Segmentation|core dumped")
# After the program's name, or that of a command; elsewhere in a line, a stranger may have written it.
_ERROR = re.compile(r"[^:]+: error: ")


@dataclasses.dataclass
class Case:
    """One hostile input.

    Attributes:
        text: what is done, for a reader.
        arguments: command line, without the program.
        program: "attn-zoo", or the name of a recipe.
        expect: "refuse" for input that must not be taken in silence, "accept", or "either".
        names: one of these must stand in the line of a refusal.
        prepare: function of the working folder, or None.
        may_change: paths that may be new or changed after a refusal too.
    """

    text: str
    arguments: list
    program: str = "attn-zoo"
    expect: str = "either"
    names: tuple = ()
    prepare: object = None
    may_change: tuple = ()


@dataclasses.dataclass
class Outcome:
    """What became of a case: "refused", "accepted", or "failed" with the reasons."""

    verdict: str
    reasons: list
    status: object
    error: str


class Hang(BaseException):
    """A case took too long."""


def judge(case, status, output, error, raised):
    """What is wrong with how a case ended, as far as its streams tell."""
    reasons = []
    if isinstance(raised, Hang):
        return ["hung"]
    if raised is not None:
        frames = traceback.extract_tb(raised.__traceback__)
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        return [f"traceback: {type(raised).__name__}: {str(raised)[:200]}{place}"]
    if status not in STATUSES:
        reasons.append(f"status {status!r}")
    noise = [line for line in error.splitlines() if _NOISE.search(line)]
    if noise:
        reasons.append(f"noise: {noise[0][:200]}")
    lines = [line for line in error.split("\n") if line]
    if status == 2:
        wrong = [i for i, line in enumerate(lines) if _ERROR.match(line)]
        if wrong != [len(lines) - 1]:
            reasons.append(f"no single last line of error: {lines[-3:]}")
        elif case.names and not any(name and name in lines[-1] for name in case.names):
            reasons.append(f"names none of {[name[:40] for name in case.names]}: {lines[-1][:300]}")
        elif len(lines[-1]) > LONGEST and not lines[0].startswith("usage: "):
            reasons.append(f"an error line of {len(lines[-1])} characters")
        if case.expect == "accept":
            reasons.append(f"refused what is good: {lines[-1:]}")
    elif status == 0 and case.expect == "refuse":
        reasons.append(f"taken in silence; output: {output[:80]!r}, error output: {error[-160:]!r}")
    return reasons
