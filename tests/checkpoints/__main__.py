"""Change every field of a Marian checkpoint, and compare with Transformers: `python -m tests.checkpoints`."""

import argparse
import collections
import os
import sys
import tempfile
from pathlib import Path


def field_cases():
    """Yield the file, the field and the value of every case."""
    from tests.checkpoints.cases import CASES

    for file, fields in CASES.items():
        for field, values in fields.items():
            for value in values:
                yield file, field, value


def main(arguments=None):
    """Run what the command line says; the status is 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.checkpoints", description=__doc__)
    parser.add_argument("--tokenizers", type=int, default=200, help="tokenizers with added tokens (default: 200)")
    parser.add_argument("--field", action="append", help="try this field alone; may be repeated")
    parser.add_argument("--tokenizer", type=int, help="try this tokenizer alone")
    options = parser.parse_args(arguments)
    from tests.__main__ import ONE_BACKEND

    os.environ["KERAS_BACKEND"] = ONE_BACKEND
    import tests.conftest  # noqa: F401 the same settings as for the other tests

    known = sorted({field for _, field, _ in field_cases()})
    for field in options.field or ():
        if field not in known:
            parser.error(f"argument --field: there is no field {field!r}: choose one of {', '.join(known)}")
    from tests.checkpoints.checks import changed, judge, write_base
    from tests.checkpoints.tokens import judge_tokenizer, write_tokenizer

    alone = options.field is not None or options.tokenizer is not None
    numbers = range(0 if alone else options.tokenizers) if options.tokenizer is None else [options.tokenizer]
    outcomes, failed = collections.defaultdict(collections.Counter), 0
    with tempfile.TemporaryDirectory() as root:
        base = Path(root) / "base"
        write_base(base)
        for count, (file, field, value) in enumerate(field_cases()):
            if alone and field not in (options.field or ()):
                continue
            outcome, wrong = judge(changed(base, Path(root) / f"case-{count}", {file: {field: value}}), [field])
            outcomes[file][outcome] += 1
            if wrong is not None:
                failed += 1
                print(f"{file} {field}={value!r}: {wrong}", flush=True)
        for number in numbers:
            folder = Path(root) / f"tokenizer-{number}"
            wrong = judge_tokenizer(folder, write_tokenizer(base, folder, number))
            outcomes["added tokens"]["equal" if wrong is None else "different"] += 1
            if wrong is not None:
                failed += 1
                print(f"tokenizer {number}: {wrong}", flush=True)
    names = list(dict.fromkeys(name for counts in outcomes.values() for name in counts))
    print("\n| what | " + " | ".join(names) + " |\n|---" + "|--:" * len(names) + "|")
    for what, counts in outcomes.items():
        print(f"| {what} | " + " | ".join(str(counts[name]) for name in names) + " |")
    total = sum(sum(counts.values()) for counts in outcomes.values())
    print(f"\n{total} cases, {failed} failed")
    return int(failed > 0 or not total)


if __name__ == "__main__":
    sys.exit(main())
