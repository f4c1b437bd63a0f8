"""What a GPU is good for: training and search in batches that double until memory is full, under JAX or PyTorch.

Random ids of one length, no hypothesis ends earlier. For training and for searches with one beam and with four, a table
has the target tokens per second of each batch size, and:

  time        of a step or search relative to the first system's, at the largest batch that both have
  of peak     share of the device's most multiplications a second: 6 for each weight and target token, those of a
              table of embeddings only where it projects onto the vocabulary; products of attention with keys and values
              are not counted, the output layer of a latent alignment is counted once; the best of all batches
  peak memory at the largest batch; JAX tells the highest of the process, so it is empty where an earlier one was higher

  KERAS_BACKEND=jax python benchmarks/gpu.py
  KERAS_BACKEND=torch python benchmarks/gpu.py --systems transformer weight-subtraction --batch 256 --precision float32
  KERAS_BACKEND=torch python benchmarks/gpu.py --systems transformer --batch 4 --largest 8 --set width=128
"""

import argparse
import gc
import re
import statistics

import keras
from train import built, in_turn, system_of, translator
from translate import compiled_search

from keras_attn_zoo.cli.options import add_override_argument, add_precision_argument
from keras_attn_zoo.runs.memory import on_cpu
from keras_attn_zoo.runs.named_systems import SYSTEMS
from keras_attn_zoo.studies.tabular import markdown_table
from keras_attn_zoo.support.backends import choose_backend, is_out_of_memory

BACKEND = keras.config.backend()
DEFAULT = ["transformer", "previous-context", "previous-weight", "accumulated-weight", "energy-accumulation"]
DEFAULT += [*(f"expanded-key-value-{number}" for number in (1, 2, 3, 4)), "weight-subtraction", "transformer-latent"]
DEFAULT += ["transformer-average", "ran-all", "bahdanau", "rnn-latent"]
# By the number of beams; 0 is training.
JOBS = {0: "training", 1: "search, one beam", 4: "search, four beams"}
# TFLOP/s of dense products, as published: the first name that a device's has as words. JAX multiplies float32 as tf32.
PEAKS = {
    "H100 PCIe": {"bfloat16": 756, "tf32": 378, "float32": 51},
    "H100 NVL": {"bfloat16": 835, "tf32": 417, "float32": 60},
    "H100": {"bfloat16": 989, "tf32": 494, "float32": 67},
    "H200": {"bfloat16": 989, "tf32": 494, "float32": 67},
    "A100": {"bfloat16": 312, "tf32": 156, "float32": 19.5},
    "L4": {"bfloat16": 121, "tf32": 60, "float32": 30.3},
    "T4": {"float32": 8.1},
    "RTX 4090": {"bfloat16": 165, "tf32": 82.6, "float32": 82.6},
}


def device():
    """The name of the accelerator; "" on a CPU."""
    if on_cpu():
        return ""
    if BACKEND == "torch":
        import torch

        return torch.cuda.get_device_name()
    import jax

    return jax.devices()[0].device_kind


def peak_of(name, precision):
    """Multiplications and additions a second of a device at its best; None if they are not known."""
    kind = "tf32" if (BACKEND, precision) == ("jax", "float32") else precision
    found = next((peaks for known, peaks in PEAKS.items() if re.search(rf"\b{known}\b", name)), {})
    # Without tensor cores for tf32, it is float32.
    tera = found.get(kind, found.get("float32") if kind == "tf32" else None)
    return tera and 1e12 * tera


def forget():
    """Free the memory of what nobody holds any more, and return the peak so far in bytes; None on a CPU."""
    keras.utils.clear_session()
    gc.collect()
    if on_cpu():
        return None
    if BACKEND == "torch":
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return peak_bytes()


def peak_bytes():
    """The most memory in use so far."""
    if BACKEND == "torch":
        import torch

        return torch.cuda.max_memory_allocated()
    import jax

    return jax.devices()[0].memory_stats()["peak_bytes_in_use"]


def multiplied(body):
    """Number of the weights that a position is multiplied by, in either text."""
    lookups = {"none": {"source_embedding", "target_embedding"}, "target": {"source_embedding"}, "all": set()}
    return body.count_params() - sum(getattr(body, name).count_params() for name in lookups[body.tie_embeddings])


def measured(system, beams, options):
    """Seconds of a step or a search, the peak memory if it is known, and the weights."""
    before = forget()
    if beams:
        model = built(system, options)
        search, _ = compiled_search(model, options.batch, beams, options)
        seconds = statistics.median(search() for _ in range(options.steps))
    else:
        model, _ = translator(system, options)
        (seconds,) = in_turn([model], options)
    peak = None if before is None else peak_bytes()
    return seconds, peak if peak != before else None, multiplied(model.backbone)


def until_full(name, system, beams, options):
    """What is measured of a system by its batch size."""
    found, batch = {}, options.batch
    while options.largest is None or batch <= options.largest:
        try:
            found[batch] = measured(system, beams, argparse.Namespace(**{**vars(options), "batch": batch}))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            print(f"{name}, {JOBS[beams]}, batch {batch}: out of memory", flush=True)
            break
        speed = batch * options.length / found[batch][0]
        print(f"{name}, {JOBS[beams]}, batch {batch}: {speed:.0f} tokens/s", flush=True)
        batch *= 2
    return found


def row(precision, found, first, beams, options):
    """A row of the table, without the speeds."""
    both = max(found.keys() & first.keys(), default=None)
    time = f"{found[both][0] / first[both][0]:.2f}" if both else ""
    share = memory = ""
    most = options.peak * 1e12 if options.peak else peak_of(device(), precision)
    if found and most and not beams:
        # Two for each of a product and the two of its gradients.
        best = max(6 * weights * batch * options.length / seconds for batch, (seconds, _, weights) in found.items())
        share = f"{best / most:.1%}"
    if found and (peak := found[max(found)][1]):
        memory = f"{peak / 2**20:.0f} MiB"
    return [time, share, memory, precision]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", nargs="+", default=DEFAULT, choices=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--batch", type=int, default=32, help="the first batch size (default: 32)")
    parser.add_argument("--largest", type=int, metavar="N", help="the largest one (default: until memory is full)")
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=10, help="timed steps or searches of each (default: 10)")
    parser.add_argument("--peak", type=float, metavar="TFLOPS", help="the device's (default: as published, if known)")
    parser.set_defaults(rounds=1)
    add_precision_argument(parser, "auto")
    add_override_argument(parser)
    options = parser.parse_args()
    if on_cpu() and options.largest is None:
        parser.error("without a GPU, memory is the machine's: give --largest.")
    # What the command line sets up.
    choose_backend(BACKEND)
    # All of them before the first is measured: a setting may not be one of every system.
    systems, tables = {name: system_of(name, options) for name in options.systems}, []
    for beams, job in JOBS.items():
        found = {name: until_full(name, system, beams, options) for name, system in systems.items()}
        first = found[options.systems[0]]
        batches = sorted({batch for of_system in found.values() for batch in of_system})
        rows = []
        for name, of_system in found.items():
            speeds = {batch: batch * options.length / seconds for batch, (seconds, *_) in of_system.items()}
            cells = [f"{speeds[batch]:.0f}" if batch in speeds else "" for batch in batches]
            rows.append([f"`{name}`", *cells, *row(systems[name].precision, of_system, first, beams, options)])
        headings = ["system", *map(str, batches), "time", "of peak", "peak memory", "precision"]
        tables.append(f"{job.capitalize()}:\n\n{markdown_table(headings, rows)}")
    print(f"\n{BACKEND} on {device() or 'a CPU'}, {options.length} tokens, V {options.vocabulary}; target tokens/s\n")
    print("\n\n".join(tables))


if __name__ == "__main__":
    main()
