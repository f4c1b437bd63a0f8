"""A body along a given translation, as a program of ONNX: the attention of every layer of every place."""

import logging
from pathlib import Path
from typing import Any

import keras
from keras import ops, tree

from keras_attn_zoo.bodies.model_inputs import OPTIONAL_INPUTS
from keras_attn_zoo.bodies.rnn_backbone import RNNBackbone
from keras_attn_zoo.kernels import of_labels
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators.onnx_graphs import SearchPrograms, next_name, write_program

_LOG = logging.getLogger(__name__)
FOLLOW, ATTENTION = "follow.onnx", "attention.onnx"
# What the programs take and return besides memory, state and attention.
SOURCE_IDS, TOKEN_IDS, LABELS, PARENTS, LOG_PROBS = "source_ids", "token_ids", "labels", "parents", "log_probs"


def write_following(programs: SearchPrograms, folder: Path) -> dict[str, Any]:
    """Write the programs that follow a body along a translation; return what a runtime needs to know of them.

    `follow.onnx` of a body without a loop over positions takes the whole translation at once ("by": "sentence"): the
    ids of the source `(1, source)`, those that the decoder reads, which begin with the start, and those that follow
    them, the labels `(1, target)`. It returns the log-probability of each label `(target,)`, and for each place the
    scores of each layer, `(1, heads, query, key)`.

    That of any other takes one token after the other ("by": "token"), from memory and state as `step.onnx` takes them:
    the last tokens, their parents and the labels, `(batch, beams)` each. It returns the log-probability of each label
    `(rows,)`, for each place but the encoder the scores of each layer `(rows, heads, 1, key)`, and the next state. The
    scores of the encoder are those of `attention.onnx`, from the ids of the source, if there are any.

    Args:
        programs: those of a search, whose encoder gives memory and state.
        folder: where to write.

    Raises:
        UserError: PyTorch can export neither.
    """
    body = programs.body
    of_latent = {place: 1 for place in ("prior", "posterior") if body.latent_head is not None}
    source, target, labels = (programs.example((1, axis), "int32") for axis in ("source", "target", "target"))
    # The decoder of an RNN is a loop.
    if not isinstance(body, RNNBackbone):
        counts = {place: len(layers) for place, layers in body.attention_outputs.items()} | of_latent
        inputs, outputs = [SOURCE_IDS, TOKEN_IDS, LABELS], [LOG_PROBS, *_names(counts)]
        try:
            write_program(_whole(body), folder / FOLLOW, [source, target, labels], inputs, outputs)
            return {"by": "sentence", "places": counts}
        except Exception as error:
            # PyTorch's exporter may raise anything where there is one.
            _LOG.debug("a translation is followed token by token: %s", error)
    counts = scored_places(programs) | of_latent
    memory, state, names = programs.examples()
    tokens = [programs.example(("batch", "beams"), "int32") for _ in range(3)]
    inputs = [TOKEN_IDS, PARENTS, LABELS, *names]
    outputs = [LOG_PROBS, *_names(counts), *(next_name(leaf) for leaf in programs.state)]
    of_source = {"encoder": len(layers)} if (layers := body.attention_outputs.get("encoder")) else {}
    try:
        write_program(_stepwise(programs), folder / FOLLOW, [*tokens, memory, state], inputs, outputs)
        if of_source:
            write_program(_of_source(body), folder / ATTENTION, [source], [SOURCE_IDS], _names(of_source))
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UserError(f"PyTorch cannot export what follows a translation: {reason}.") from error
    return {"by": "token", "places": of_source | counts}


def scored_places(programs: SearchPrograms) -> dict[str, int]:
    """Return how many layers of each place, but the encoder, a step has the scores of; a place counts as a whole."""
    constants, memory, state = programs.trees
    scores = programs.body.decoder_step(ops.ones((2,), dtype="int32"), memory, state, constants)[2]
    return {place: len(layers) for place, layers in scores.items() if all(one is not None for one in layers)}


def _names(counts):
    return [f"{place}.{layer}" for place, count in counts.items() for layer in range(count)]


def _whole(body):
    """The function of a whole translation."""
    attention = {place: list(layers) for place, layers in body.attention_outputs.items()}
    model = keras.Model(body.input, {"outputs": body.output, "attention": attention})

    def follow(source_ids, token_ids, labels):
        mask = ops.ones_like(source_ids, dtype="bool")
        given = {"encoder_token_ids": source_ids, "encoder_padding_mask": mask, "decoder_token_ids": token_ids}
        found = model({**OPTIONAL_INPUTS, **given})
        outputs, weights = found["outputs"], dict(found["attention"])
        embedded, x = outputs["decoder_embedding_output"][0], outputs["decoder_sequence_output"][0]
        lexicon = prior = None
        if body.latent_head is not None:
            lexicon = body.latent_head.prepare(outputs["encoder_sequence_output"], mask)
            prior = ops.mean(outputs["attention_scores"], axis=1)[0]
        # Positions are rows, as the beams of a search are.
        log_probs, more = _of_labels(body, embedded, x, prior, lexicon, labels[0])
        weights |= {place: [scores[None, None]] for place, scores in more.items()}
        return [log_probs, *tree.flatten(list(weights.values()))]

    return follow


def _stepwise(programs):
    """The function of one token after the other."""
    body, known = programs.body, scored_places(programs)

    def follow(token_ids, parents, labels, memory, state):
        own, one, constants = programs.unpacked(parents, memory, state)
        embedded, x, layers, prior, new = body.decoder_step(token_ids.reshape(-1), own, one, constants)
        log_probs, more = _of_labels(body, embedded, x, prior, constants.get("lexicon"), labels.reshape(-1))
        weights = [*(scores for place in known for scores in layers[place]), *(one[:, None] for one in more.values())]
        return [log_probs, *(scores[:, :, None] for scores in weights), *tree.flatten(new)]

    return follow


def _of_source(body):
    """The function of a source to the scores of the encoder."""
    given = {name: body.input[name] for name in ("encoder_token_ids", "encoder_padding_mask")}
    model = keras.Model(given, list(body.attention_outputs["encoder"]))

    def attention(source_ids):
        mask = ops.ones_like(source_ids, dtype="bool")
        return model({"encoder_token_ids": source_ids, "encoder_padding_mask": mask})

    return attention


def _of_labels(body, embedded, x, prior, lexicon, labels):
    """The log-probabilities of labels `(rows,)`; of a latent alignment, prior and posterior `(rows, source)` too."""
    head, more = body.latent_head, {}
    if head is None:
        log_probs = ops.log_softmax(ops.cast(body.output_projection(x), "float32"))
    else:
        log_probs = head.step(prior, embedded, x, lexicon)
        posterior = head.posterior(labels, lexicon, head.align(prior, embedded, x, lexicon))
        more = {"prior": prior, "posterior": posterior}
    return of_labels(log_probs, labels), more
