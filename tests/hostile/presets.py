"""Hostile presets: damaged ones, and those whose maker means ill."""

import contextlib
import json
import shutil
from pathlib import Path

from keras_attn_zoo.support.checksums import CHECKSUMS, read_checksums, write_checksums
from tests.hostile import damage
from tests.hostile.folders import preset_files
from tests.hostile.judging import Case
from tests.hostile.sandbox import read_json

# Presets.


# Without checksums, what nobody reads, or what other files say as well.
SPARE = ("metadata.json", "task.json", "preprocessor.json", "tokenizer.json", "source_tokenizer.json")
# More than any memory, and than can be read within the time of a case.
HUGE = 400 * 2**30


def preset(rng):
    """A file of a preset, damaged: whatever it is, it must not be used. In half of the cases there are no checksums."""
    summed = rng.random() < 0.5
    name = rng.choice([one for one in preset_files() if summed or one != CHECKSUMS])
    kinds = (*damage.KINDS, *damage.DISGUISES, *damage.BYTES, "bit", "bit")
    kind = rng.choice((*kinds, *(("shape",) if name.endswith(".json") else ())))
    arguments = _preset_reader(rng)

    def prepare(work):
        folder = work / "run" / "best"
        target = folder / name
        before = target.read_bytes()
        if not summed:
            (folder / CHECKSUMS).unlink()
        if kind == "shape":
            case.text += f" ({damage.mutate_file(target, rng)[:80]})"
        elif kind == "pipe":
            damage.replace_kind(target, kind)
        elif kind in damage.DISGUISES:
            damage.disguise(target, kind, HUGE)
        else:
            damage.spoil(work, target, kind, rng)
        unchanged = kind in (*damage.BYTES, "shape") and target.read_bytes() == before
        if not summed:
            _expect_of_unsummed(case, name, kind)
        if unchanged:
            case.expect = "accept"
        if name == CHECKSUMS:
            _expect_of_sums(case, target, kind, before)

    case = Case(
        "preset",
        f"{arguments[0]} {arguments[1]}: {name} is {kind}, {'with' if summed else 'without'} checksums",
        arguments,
        expect="refuse",
        names=(name, Path(name).name, "run"),
        damage=prepare,
        nobody=kind == "unreadable",
    )
    return case


def _expect_of_unsummed(case, name, kind):
    """Without checksums, another value may be a good one, and a file need not be there; the command says so."""
    case.says = CHECKSUMS
    gone = kind in ("missing", "dangling", "loop")
    if kind in (*damage.BYTES, "shape") or (gone and name in SPARE) or name == "metadata.json":
        case.expect = "either"


def _expect_of_sums(case, target, kind, before):
    """A preset without checksums is used with a warning; those that are there must be read, or the preset refused."""
    if kind in ("missing", "dangling", "loop"):
        case.expect, case.says = "accept", CHECKSUMS
        return
    if kind in (*damage.KINDS, *damage.DISGUISES):
        return
    with contextlib.suppress(ValueError, OSError):
        sums, old = json.loads(target.read_bytes()), json.loads(before)
        # With an entry less, one file less is compared.
        fewer = isinstance(sums, dict) and isinstance(sums.get("sha256"), dict)
        if fewer and sums["sha256"].items() <= old["sha256"].items():
            case.expect = "either"


def _preset_reader(rng):
    model = rng.choice(("run", "run/best"))
    return list(
        rng.choice(
            (
                ["translate", model, "rot haus"],
                ["align", model, "--bitext", "text/test.bitext", "--output", "l.align"],
                ["plot", "attention", model, "rot haus", "--target", "house", "--output", "p.png"],
            )
        )
    )


def strangers_preset(rng):
    """A preset whose maker means ill, or has mixed things up: its sums are right, or there are none."""
    kinds = {
        "NaN weights": _nan_weights,
        "weights of another model": _other_weights,
        "surplus weights": _surplus_weights,
        "missing weights": _missing_weights,
        "wide": _wide,
        "another tokenizer": _other_tokenizer,
        "a class of Python": _foreign_class,
        "a function of Python": _foreign_lambda,
        "odd configuration": _odd_configuration,
        "huge configuration": _huge_configuration,
    }
    kind = rng.choice(sorted(kinds))
    sums = rng.choice(("right sums", "no sums"))
    arguments = _preset_reader(rng)

    def prepare(work):
        folder = work / "run" / "best"
        what = kinds[kind](folder, rng)
        if what:
            case.text += f" ({what[:80]})"
        # Only these two are read of a task; the others are for KerasHub's other classes.
        unread = kind == "a class of Python" and not what.startswith(("config.json", "task.json"))
        if kind == "odd configuration" or unread:
            case.expect = "either"
        reseal(folder, sums == "no sums")

    case = Case(
        "stranger's preset",
        f"{arguments[0]} {arguments[1]}: {kind}, {sums}",
        arguments,
        expect="refuse",
        names=("run",),
        damage=prepare,
    )
    return case


def reseal(folder, without):
    """Make the checksums of a preset anew, as its maker would, or leave them out."""
    sums = folder / CHECKSUMS
    if without:
        sums.unlink(missing_ok=True)
    elif sums.exists():
        write_checksums(folder, read_checksums(sums))


def _weights(folder):
    import h5py

    return h5py.File(folder / "model.weights.h5", "r+")


def _datasets(file):
    found = []
    file.visititems(lambda name, one: found.append(one) if hasattr(one, "shape") else None)
    return found


def _nan_weights(folder, rng):
    import numpy as np

    bad = rng.choice((np.nan, np.inf))
    with _weights(folder) as file:
        datasets = [one for one in _datasets(file) if one.dtype.kind == "f"]
        for one in datasets if rng.random() < 0.5 else [rng.choice(datasets)]:
            one[...] = bad


def _other_weights(folder, rng):
    shutil.copyfile(folder.parents[1] / "latent" / "best" / "model.weights.h5", folder / "model.weights.h5")


def _surplus_weights(folder, rng):
    with _weights(folder) as file:
        file.create_group("layers/one_more/vars").create_dataset("0", data=[1.0, 2.0])


def _missing_weights(folder, rng):
    with _weights(folder) as file:
        name = rng.choice(_datasets(file)).name
        del file[name]
    return name


def _change_body(folder, change):
    """Change the configuration of the body, which stands in two files."""
    for name, inside in (("config.json", ("config",)), ("task.json", ("config", "backbone", "config"))):
        tree = read_json(folder / name)
        change(damage.at(tree, inside))
        (folder / name).write_text(json.dumps(tree))


def _wide(folder, rng):
    by = rng.choice((1, -1, 12))
    _change_body(folder, lambda config: config.update(hidden_dim=config["hidden_dim"] + by))


def _other_tokenizer(folder, rng):
    from keras_attn_zoo.data.subwords import train_subword_pair

    pairs = [(f"wort{i} ein", f"word{i} a") for i in range(60)]
    side = rng.choice((0, 1))
    made = train_subword_pair(pairs, folder.parent / "other", None, model_type="word")
    target = folder / "assets" / ("source_tokenizer", "tokenizer")[side] / "vocabulary.spm"
    shutil.copyfile(made[side], target)
    shutil.rmtree(folder.parent / "other")


def _foreign_class(folder, rng):
    name = rng.choice(("config.json", "task.json", "preprocessor.json", "tokenizer.json", "source_tokenizer.json"))
    tree = read_json(folder / name)
    # The precision of a preset is never taken over, so what stands there is not read.
    places = [
        place
        for place in damage.nodes(tree)
        if isinstance(damage.at(tree, place), dict) and "class_name" in damage.at(tree, place) and "dtype" not in place
    ]
    place = rng.choice(places)
    one = damage.at(tree, place)
    one["module"], one["class_name"], one["registered_name"] = rng.choice(
        (
            ("builtins", "eval", None),
            ("os", "system", None),
            ("subprocess", "Popen", None),
            ("keras.src.utils.file_utils", "get_file", None),
            ("keras.layers", "Dense", "Dense"),
            ("nowhere", "Nothing", "Nothing>Nothing"),
        )
    )
    (folder / name).write_text(json.dumps(tree))
    return f"{name} {'.'.join(map(str, place))}: {one['module']}.{one['class_name']}"


def _foreign_lambda(folder, rng):
    layer = {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": {
            "name": "lambda",
            "function": {"class_name": "__lambda__", "config": {"code": "4wAAAAA=", "defaults": None, "closure": None}},
        },
        "registered_name": None,
    }
    _change_body(folder, lambda config: config.update(cross_attention=layer))


def _odd_configuration(folder, rng):
    name = rng.choice([name for name in preset_files() if name.endswith(".json") and name != CHECKSUMS])
    return f"{name}: {damage.mutate_file(folder / name, rng)}"


def _huge_configuration(folder, rng):
    config = read_json(folder / "config.json")["config"]
    # Without a latent alignment nothing is summed over.
    numbers = [key for key, value in config.items() if type(value) is int and key != "top_k"]
    key, value = rng.choice(sorted(numbers)), rng.choice((10**9, 10**12, 10**30, -1, 0))
    _change_body(folder, lambda config: config.update({key: value}))
    return f"{key}: {value}"
