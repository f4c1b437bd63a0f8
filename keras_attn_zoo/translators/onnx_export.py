"""A translator as ONNX: the two programs of its search, its tokenizers, and a description of all of it."""

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops, tree

import keras_attn_zoo
from keras_attn_zoo.data import UNKNOWN
from keras_attn_zoo.data.marian_pieces import MarianPieces
from keras_attn_zoo.data.subwords import SPECIAL_PIECES
from keras_attn_zoo.support.checksums import write_checksums
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.extras import require
from keras_attn_zoo.support.files import PathLike, atomic_path, check_new_folder, write_json
from keras_attn_zoo.translators.onnx_graphs import SearchPrograms, next_name, silent
from keras_attn_zoo.translators.preprocessor import check_exported
from keras_attn_zoo.translators.search import FURTHER_SETTINGS, settings_of, suppressed_logits

PRECISIONS = ("float32", "int8")
# What takes nodes of ONNX, and keeps lengths open.
_LEAST_TORCH = (2, 9)
# The largest difference from Keras, of log-probabilities and of attention, in float32.
_TOLERANCE = 1e-3
# What a hypothesis is compared by; those of a pool, when they end.
_SCORE = "log_prob / ((5 + tokens) / 6) ** length_penalty + coverage_penalty * sum(log(min(coverage, 1)))"
_SCORE_OF_POOLED = "log_prob / tokens ** length_penalty"
# The steps of `data.words.normalise`.
_NORMALISED = ["single_spaces", "strip_byte_order_marks", "nfc"]


def export_to_onnx(translator: Any, folder: PathLike, precision: str = "float32") -> None:
    """Write a translator, of any body and attention, as ONNX.

    Use it to serve translations without Keras: `keras_attn_zoo.onnx.ONNXTranslator` finds them by onnxruntime,
    SentencePiece and NumPy, and any other runtime by these files:

    - `encoder.onnx`: from source ids and their mask to memory and state before the first position;
    - `step.onnx`: from the last tokens, the hypotheses that they continue, memory and state to log-probabilities,
      attention and the next state; see `SearchPrograms.step`;
    - `translator.json`: names, shapes and types of these, settings of the search and its score, special ids, lengths,
      tokenizers and the names of what is done to text;
    - the files of the tokenizers, and `checksums.json`.

    Numbers of sentences and beams, and lengths, are open. What is written is checked by `onnx.checker` and computes
    what Keras does; otherwise nothing is left.

    Args:
        translator: a `Translator` with its preprocessor.
        folder: where to write; there must not be anything yet.
        precision: "float32", or "int8" for the matrices of products in int8 by onnxruntime: about a third of the size.

    Raises:
        UserError: another backend than PyTorch; a package of the extra `onnx` is missing; no preprocessor; a search
            that is no beam search; a body that does not compute in float32, or that PyTorch cannot export; the folder
            exists, or cannot be written; an unknown precision.

    Example:
        >>> export_to_onnx(translator, "exported")  # doctest: +SKIP
    """
    if precision not in PRECISIONS:
        raise UserError(f"unknown precision {precision!r} of an export: {choice(precision, PRECISIONS)}")
    check_onnx_export(folder)
    settings = exported_search(translator)
    from keras_attn_zoo.onnx.description import DESCRIPTION, ENCODER, STEP

    preprocessor = translator.preprocessor
    renormalize = getattr(translator.sampler, "renormalize", True)
    lengths = preprocessor.encoder_sequence_length, preprocessor.decoder_sequence_length
    programs = SearchPrograms(translator.backbone, lengths, settings.pop("search_top_k"), renormalize)
    with atomic_path(folder) as aside:
        aside.mkdir()
        _write_programs(programs, aside / ENCODER, aside / STEP)
        tokenizers = {
            "source": _write_tokenizer(preprocessor.source_tokenizer, aside, "source"),
            "target": _write_tokenizer(preprocessor.tokenizer, aside, "target"),
        }
        search = {"search": FURTHER_SETTINGS | settings, "score": _SCORE_OF_POOLED if "pooled" in settings else _SCORE}
        write_json(aside / DESCRIPTION, {**_description(translator, programs), **search, "tokenizers": tokenizers})
        _seal(aside)
        _check_difference(translator, aside, programs, _TOLERANCE)
        if precision == "int8":
            for name in (ENCODER, STEP):
                _quantize(aside / name)
                check_program(aside / name)
            _seal(aside)
            # It depends on the weights how far integers round; what is infinite or no number is a mistake.
            _check_difference(translator, aside, programs, np.inf)


def exported_search(translator: Any) -> dict[str, Any]:
    """Return the settings of the search of a translator that can be exported.

    Raises:
        UserError: see `export_to_onnx`.
    """
    check_exported(translator.preprocessor)
    settings = settings_of(translator.sampler, translator.search_top_k)
    if settings is None:
        name = type(translator.sampler).__name__
        raise UserError(f"a {name} cannot be exported: compile the translator with a beam search first.")
    if (dtype := keras.dtype_policies.get(translator.backbone.dtype_policy).compute_dtype) != "float32":
        raise UserError(f"the translator computes in {dtype}, and ONNX is written in float32: load it in float32.")
    return settings


def check_onnx_export(folder: PathLike) -> None:
    """Raise unless an export to ONNX can begin: under PyTorch, with its packages, and into a new folder.

    Raises:
        UserError: see `export_to_onnx`.
    """
    if keras.config.backend() != "torch":
        raise UserError(
            "ONNX is written by PyTorch alone: pip install 'keras-attn-zoo[translate,onnx,torch]', and run the "
            "export with --backend torch."
        )
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < _LEAST_TORCH:
        least = ".".join(map(str, _LEAST_TORCH))
        raise UserError(
            f"an export to ONNX needs PyTorch {least} or later, not {torch.__version__}: pip install --upgrade torch."
        )
    require("onnx", "onnxruntime", "onnxscript", user="an export to ONNX", extra="onnx")
    check_new_folder(folder)


def check_program(path: Path) -> None:
    """Raise unless a program, with the weights that stand beside it, is valid ONNX.

    Raises:
        UserError: it is not.
    """
    import onnx

    try:
        onnx.checker.check_model(str(path), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise UserError(
            f"{path.name} was written, and is no valid ONNX: {reason}. Install other versions of PyTorch, onnx and "
            "onnxruntime."
        ) from error


def _write_programs(programs, encoder, step):
    try:
        programs.write(encoder, step)
    except OSError:
        raise
    except Exception as error:
        # PyTorch's exporter may raise anything, with reports of many lines.
        raise UserError(f"PyTorch cannot export this translator: {_first_line(error)}.") from error
    check_program(encoder)
    check_program(step)


def _check_difference(translator, folder, programs, tolerance):
    """Raise unless the programs in a folder run, and differ from Keras by less than a tolerance."""
    from keras_attn_zoo.onnx.onnx_translator import ONNXTranslator

    exported = ONNXTranslator(folder)
    try:
        difference = largest_difference(translator, exported, programs)
    except UserError:
        raise
    except Exception as error:
        # onnxruntime's errors have no common class.
        raise UserError(
            f"onnxruntime cannot run what was exported: {_first_line(error)}. Install another version."
        ) from error
    if not difference < tolerance:
        raise UserError(
            f"what was exported differs from Keras by {difference:.2g}: weights are so large that rounding counts, "
            "or this version of PyTorch or onnxruntime makes a mistake. Install others."
        )


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _description(translator, programs):
    """What a runtime needs to know, apart from the search and the tokenizers."""
    from keras_attn_zoo.onnx.description import ENCODER, FORMAT, STEP

    def described(leaf, **more):
        return {"name": leaf.name, "shape": leaf.shape(), "dtype": leaf.dtype, **more}

    preprocessor = translator.preprocessor
    source, target = preprocessor.source_tokenizer, preprocessor.tokenizer
    return {
        "format": FORMAT,
        "keras_attn_zoo": keras_attn_zoo.__version__,
        "encoder": {
            "file": ENCODER,
            "inputs": [
                {"name": "encoder_token_ids", "shape": ["batch", "source"], "dtype": "int32"},
                {"name": "encoder_padding_mask", "shape": ["batch", "source"], "dtype": "bool"},
            ],
            "outputs": [
                {"name": leaf.name, "shape": leaf.before_the_first(), "dtype": leaf.dtype}
                for leaf in (*programs.memory, *programs.state)
            ],
        },
        "step": {
            "file": STEP,
            "inputs": [
                {"name": "token_ids", "shape": ["batch", "beams"], "dtype": "int32"},
                {"name": "parents", "shape": ["batch", "beams"], "dtype": "int32"},
            ],
            "outputs": [
                {
                    "name": "log_probs",
                    "shape": ["batch", "beams", translator.backbone.target_vocabulary_size],
                    "dtype": "float32",
                },
                {
                    "name": "attention",
                    "shape": ["batch", "beams", translator.backbone.attention_heads, "source"],
                    "dtype": "float32",
                },
            ],
        },
        "memory": [described(leaf, per=leaf.role) for leaf in programs.memory],
        "state": [described(leaf, next=next_name(leaf)) for leaf in programs.state],
        "lengths": dict(zip(("source", "target"), programs.lengths, strict=True)),
        "truncation": dataclasses.asdict(preprocessor.truncation),
        "source": {
            "end": source.end_token_id,
            "pad": source.pad_token_id,
            "unknown": source.token_to_id(SPECIAL_PIECES[UNKNOWN]),
        },
        "target": {
            "start": target.start_token_id,
            "end": target.end_token_id,
            "pad": target.pad_token_id,
        },
    }


def _write_tokenizer(tokenizer, folder, side):
    """Write the files of a tokenizer; return what a runtime needs to know of it, what is done to text included."""
    subwords, model = tokenizer.subwords, f"{side}.spm"
    (folder / model).write_bytes(tokenizer.proto)
    if isinstance(subwords, MarianPieces):
        vocabulary = f"{side}_vocabulary.json"
        write_json(folder / vocabulary, tokenizer.get_vocabulary())
        return {
            "kind": "marian",
            "model": model,
            "vocabulary": vocabulary,
            "added_tokens": [dataclasses.asdict(one) for one in tokenizer.added_tokens],
            "clean_up_spaces": tokenizer.clean_up_spaces,
            "before": [],
            "after": [*(["clean_up_spaces"] if tokenizer.clean_up_spaces else []), "single_spaces"],
        }
    known = {"kind": "words" if subwords.whole_words else "sentencepiece", "model": model}
    if tokenizer.truecaser is None:
        return {**known, "before": _NORMALISED, "after": ["replace_nul", *_NORMALISED]}
    known["truecaser"] = f"{side}.truecase"
    (folder / known["truecaser"]).write_bytes(tokenizer.truecaser.model_bytes)
    before, after = [*_NORMALISED, "truecase", "nfc"], ["replace_nul", "detruecase", *_NORMALISED]
    return {**known, "before": before, "after": after}


def _seal(folder):
    write_checksums(folder, [path.name for path in folder.iterdir() if path.name != "checksums.json"])


def _quantize(path: Path) -> None:
    """Replace a program by one whose products with matrices are of integers; rows are rounded as they come."""
    import onnx
    from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic

    with silent():
        # A matrix that is shared is transposed first, as those are that stand in the program.
        quant_pre_process(path, path, skip_symbolic_shape=True)
        # A scale for each column; onnxruntime takes none for a vector.
        graph = onnx.load(path).graph
        matrices = {one.name for one in graph.initializer if len(one.dims) == 2}
        others = [node.name for node in graph.node if node.op_type == "MatMul" and node.input[1] not in matrices]
        quantize_dynamic(
            path,
            path,
            op_types_to_quantize=["MatMul", "Gather"],
            nodes_to_exclude=others,
            per_channel=True,
            weight_type=QuantType.QInt8,
        )


def largest_difference(translator: Any, exported: Any, programs: SearchPrograms) -> float:
    """Return by how much log-probabilities or attention of an exported translator differ at most from Keras'.

    Sentences of several lengths, the longest too, are searched for a few steps with beams that change their places, as
    in a search.

    Args:
        translator: a `Translator`.
        exported: the `ONNXTranslator` of what was written.
        programs: what it was written from.
    """
    longest = programs.lengths[0]
    return max(_difference(translator, exported, programs, lengths) for lengths in ((7, 2), (longest, longest - 1)))


def _difference(translator, exported, programs, lengths):
    body, rng = translator.backbone, np.random.default_rng(0)
    sources = [rng.integers(1, body.source_vocabulary_size, length).tolist() for length in lengths]
    steps = exported.steps(sources)
    ids = np.zeros(steps.mask.shape, "int32")
    ids[steps.mask] = np.concatenate(sources)
    expected = _steps_of_keras(programs, ids, steps.mask)
    differences = []
    for parents in np.array([[[0, 1], [2, 3]], [[1, 1], [3, 2]], [[1, 0], [2, 2]]]):
        tokens = rng.integers(1, body.target_vocabulary_size, (2, 2)).astype("int32")
        # At first, beams go on with rows of sentences.
        found = steps(tokens, parents if differences else np.array([[0, 0], [1, 1]]))
        differences += [np.abs(x - y).max() for x, y in zip(found, expected(tokens, parents), strict=True)]
    return float(max(differences))


def _steps_of_keras(programs, ids, mask):
    """What `ONNXSteps` are, for two beams, by the body itself."""
    body = programs.body
    given = map(ops.convert_to_tensor, (ids, mask))
    constants, *trees = body.start_search(*given, programs.lengths[1], programs.top_k)
    memory, state = tree.map_structure(lambda x: ops.repeat(x, 2, axis=0), trees)

    def step(tokens, parents):
        nonlocal state
        state = tree.map_structure(lambda x: ops.take(x, parents.reshape(-1), axis=0), state)
        logits, scores, state = body.search_step(ops.convert_to_tensor(tokens.reshape(-1)), memory, state, constants)
        logits = suppressed_logits(body, logits, programs.renormalize)
        found = (ops.log_softmax(logits) if programs.renormalize else logits), scores
        return [np.reshape(ops.convert_to_numpy(x), (2, 2, *x.shape[1:])) for x in found]

    return step
