"""The body of an ensemble: several bodies that predict each token together, in one search."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.bodies.backbone import TranslationBackbone
from keras_attn_zoo.bodies.model_inputs import translation_inputs
from keras_attn_zoo.support.choices import MEANS
from keras_attn_zoo.support.errors import UserError, choice
from keras_attn_zoo.support.types import Config, Shape, Tensor, TensorTree


class EnsembleBackbone(TranslationBackbone):
    """Several bodies over the same vocabularies, whose probabilities are averaged at each position.

    Use it through `Translator.ensemble`. The members may differ in everything but their vocabularies: RNNs,
    Transformers and latent alignments, in float32, bfloat16 or int8. They are not copied. With M members, the next
    token has the probability

        p(y_i | y_<i, x) = 1/M Σ_m p_m(y_i | y_<i, x)                  "arithmetic"
        p(y_i | y_<i, x) ∝ exp( 1/M Σ_m log p_m(y_i | y_<i, x) )       "geometric"

    so every hypothesis of a search has one state, which holds those of all members. A step takes as long as the steps
    of all members together.

    "attention_scores" are those of all members, one after the other along the heads: `split_heads` parts them. Layers
    are counted through all members.

    Args:
        members: bodies with the same vocabulary sizes.
        mean: "arithmetic", by which one confident member is enough, or "geometric", by which every member can rule a
            token out.

    Inputs: those of a `TransformerBackbone`. Outputs: "logits" `(batch, target, vocabulary)`, which are
    log-probabilities up to a constant, and "attention_scores" `(batch, heads, target, source)`.

    Raises:
        UserError: fewer than two members; different vocabulary sizes; another mean; `get_config`, since an
            ensemble has no preset of its own.

    Example:
        >>> from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
        >>> members = RNNBackbone(50, 50, hidden_dim=8), TransformerBackbone(50, 50, width=8, num_heads=2)
        >>> EnsembleBackbone(members).attention_heads
        3

    Source: Sutskever et al. 2014, section 3.6, which averages probabilities as "arithmetic" does.
    """

    # Those of `attention_layer` of every member.
    attention_layer = "all"
    latent_head = output_projection = None
    can_be_trained = False

    def __init__(self, members: Sequence[TranslationBackbone], mean: str = MEANS[0]) -> None:
        members = list(members)
        if len(members) < 2:
            raise UserError(f"an ensemble needs two members or more; received {len(members)}.")
        if mean not in MEANS:
            raise UserError(f"there is no mean {mean!r}: {choice(str(mean), MEANS)}")
        first = members[0].vocabulary_sizes
        for number, member in enumerate(members[1:], start=2):
            if member.vocabulary_sizes != first:
                raise UserError(
                    f"member {number} of the ensemble has vocabularies of other sizes, {_sizes(member)}, than the "
                    f"first, {_sizes(members[0])}: combine models over the same subwords."
                )
        inputs = translation_inputs()
        super().__init__(inputs=inputs, outputs=_Members(members, mean)(inputs), dtype="float32")
        self.members = members
        self.mean = mean
        self.source_vocabulary_size, self.target_vocabulary_size = first["encoder"], first["decoder"]
        self.suppressed_tokens = sorted({one for member in members for one in member.suppressed_tokens})
        self.cross_attention_heads = [heads for member in members for heads in member.cross_attention_heads]
        self.attention_outputs = _joined_places([member.attention_outputs for member in members])
        for place in self.attention_outputs:
            setattr(self, f"{place}_attention", [one for member in members for one in _by_layer(member, place)])

    def get_config(self) -> Config:
        """Raise a `UserError`: presets and `.keras` files hold one model."""
        raise UserError("an ensemble is not saved: save its members, and combine them again.")

    @property
    def takes_top_k(self) -> bool:
        """Whether a member has a latent alignment."""
        return any(member.takes_top_k for member in self.members)

    @property
    def attention_heads(self) -> int:
        """Number of heads of "attention_scores"."""
        return sum(member.attention_heads for member in self.members)

    def rows_of_heads(
        self, layers: Sequence[int] | str | None, heads: Sequence[int] | None, among: Sequence[int] | None = None
    ) -> list[int] | None:
        """Return the rows of some heads; see `TranslationBackbone.rows_of_heads`."""
        if layers is None and heads is not None:
            raise UserError(
                "the members of an ensemble have heads of their own: leave the heads out, or choose a layer."
            )
        return super().rows_of_heads(layers, heads, among)

    def split_heads(self, scores: np.ndarray) -> list[np.ndarray]:
        """Return the attention of each member, from that of a hypothesis or of a forced translation.

        Example:
            >>> [best] = translator.translate("Guten Tag", attention=True)  # doctest: +SKIP
            >>> of_rnn, of_transformer = translator.backbone.split_heads(best.attention)  # doctest: +SKIP
        """
        return np.split(scores, np.cumsum([member.attention_heads for member in self.members])[:-1])

    def attention_model(self) -> Callable[[dict[str, Tensor]], dict[str, list[Tensor]]]:
        """Return a function of the inputs to the scores of all attention layers, `{place: [scores]}`."""
        models = [member.attention_model() for member in self.members]
        return lambda inputs: _joined_places([model(inputs) for model in models])

    def logits(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return logits `(batch, target, vocabulary)` from the model's outputs."""
        return outputs["logits"]

    def start_search(
        self,
        encoder_token_ids: Tensor,
        encoder_padding_mask: Tensor,
        max_length: int,
        top_k: int | None = None,
        beams: int = 1,
    ) -> tuple[dict[str, TensorTree], TensorTree, TensorTree]:
        """Encode sentences by all members; see `TranslationBackbone.start_search`. `top_k` is for latent alignments."""
        begun = [
            member.start_search(encoder_token_ids, encoder_padding_mask, max_length, top_k, beams)
            for member in self.members
        ]
        constants, memories, states = map(list, zip(*begun, strict=True))
        return {"members": constants}, memories, _joined_state(states)

    def search_step(
        self, token_ids: Tensor, memory: TensorTree, state: TensorTree, constants: TensorTree
    ) -> tuple[Tensor, Tensor, TensorTree]:
        """Advance all members by one token, given the previous tokens `(rows,)`; see the base class."""
        shared = state.get("by_sentence", [{}] * len(self.members))
        states = [
            own | ({"by_sentence": one} if one else {}) for own, one in zip(state["members"], shared, strict=True)
        ]
        steps = [
            member.search_step(token_ids, *parts)
            for member, *parts in zip(self.members, memory, states, constants["members"], strict=True)
        ]
        logits, scores, states = map(list, zip(*steps, strict=True))
        return log_mean(logits, self.mean), _joined_heads(scores), _joined_state(states)

    def _check_inputs(self, inputs):
        if inputs.get("teacher_forcing_mask") is not None:
            raise UserError("an ensemble cannot be fed its own predictions: leave teacher_forcing_mask out.")


class _Members(keras.layers.Layer):
    """All members as one layer: in a graph of layers, no two may have the same name."""

    def __init__(self, members, mean):
        super().__init__(dtype="float32", autocast=False, name="members")
        self.members, self.mean = members, mean

    def build(self, input_shape: Shape) -> None:
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        given = {name: x for name, x in inputs.items() if x is not None}
        found = [member(given, logits=True) for member in self.members]
        return {
            "logits": log_mean([one["logits"] for one in found], self.mean),
            "attention_scores": _joined_heads([one["attention_scores"] for one in found]),
        }

    def compute_output_spec(self, inputs: dict[str, Tensor]) -> dict[str, Any]:
        given = {name: x for name, x in inputs.items() if name != "teacher_forcing_mask"}
        specs = [member.compute_output_spec(given, logits=True) for member in self.members]
        heads = [one["attention_scores"].shape for one in specs]
        return {
            "logits": keras.KerasTensor(specs[0]["logits"].shape, "float32"),
            "attention_scores": keras.KerasTensor(
                (heads[0][0], sum(shape[1] for shape in heads), *heads[0][2:]), "float32"
            ),
        }


def log_mean(logits: Sequence[Tensor], mean: str) -> Tensor:
    """Return the logarithm of the mean of distributions, given by their logits; the geometric mean is not normalised.

    Example:
        >>> found = log_mean([np.log([[0.875, 0.125]]), np.log([[0.625, 0.375]])], "arithmetic")
        >>> ops.convert_to_numpy(ops.exp(found)).round(2).tolist()
        [[0.75, 0.25]]
    """
    log_probs = ops.stack([ops.log_softmax(ops.cast(one, "float32"), axis=-1) for one in logits])
    if mean == "geometric":
        return ops.mean(log_probs, axis=0)
    return ops.logsumexp(log_probs, axis=0) - float(np.log(len(logits)))


def _joined_heads(scores):
    return ops.concatenate([ops.cast(one, "float32") for one in scores], axis=1)


def _joined_places(found):
    """The scores of all layers of all members by place, one member after the other."""
    places = dict.fromkeys(place for one in found for place in one)
    return {place: [scores for one in found for scores in one.get(place, ())] for place in places}


def _joined_state(states):
    """The states of all members as one; what stays with the sentence is kept apart, as the search expects it."""
    shared = [state.pop("by_sentence", {}) for state in states]
    return {"members": states} | ({"by_sentence": shared} if any(shared) else {})


def _by_layer(member, place):
    """The attention of each layer of a place, as a body was given it."""
    count = len(member.attention_outputs.get(place, ()))
    choice = getattr(member, f"{place}_attention", "attention of its own")
    return choice if isinstance(choice, (list, tuple)) else [choice] * count


def _sizes(member):
    return " and ".join(f"{size:,}" for size in member.vocabulary_sizes.values())
