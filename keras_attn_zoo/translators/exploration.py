"""A translator's attention and search, for the page that shows them."""

import dataclasses
import operator
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn_zoo.bodies.backbone import OPTIONAL_INPUTS, attention_config
from keras_attn_zoo.data.checked_text import SentenceTooLong, check_characters
from keras_attn_zoo.data.encoded_text import EncodedText
from keras_attn_zoo.data.hypothesis import until_end
from keras_attn_zoo.data.words import as_sentence, normalise, split_words
from keras_attn_zoo.decoding.beam_search import IMPOSSIBLE, BeamSearch
from keras_attn_zoo.evaluation.alignments import Alignment, Link
from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.support.errors import UserError, counted
from keras_attn_zoo.support.setting_types import layer_and_head
from keras_attn_zoo.training.token_loss import mixture_losses
from keras_attn_zoo.translators.search import numbers_of, search, search_key, searches_as_beam_search
from keras_attn_zoo.translators.text_methods import Progress, TextMethods
from keras_attn_zoo.viewing.page import Page
from keras_attn_zoo.viewing.page_records import Mechanism, Path, Result, SearchStep, Sentence, System

# A sentence as text, or as its words.
Words = str | Sequence[str]
# Sentences examined at once: all that a search considers is kept.
BATCH = 8


class Exploration(TextMethods):
    """Mixin for a translator: `explore`."""

    def explore(
        self,
        sentences: Words | Sequence[Words],
        translations: Words | Sequence[Words | None] | None = None,
        beside: Mapping[str, "Exploration"] | None = None,
        gold: Sequence[Alignment | Iterable[Link] | None] | None = None,
        name: str | None = None,
    ) -> Page:
        """Show what attends to what, and how the search proceeded, on a page.

        Args:
            sentences: a list of strings, or one string. A list of words in place of a string says what the words are.
            translations: translations of your own, along which the model is followed too: as many, or one; None for
                a sentence without. For one sentence, a list of several strings is its words.
            beside: other translators by name, shown beside this one on the same sentences.
            gold: for each sentence the links between its words and those of the given translation: a list of pairs
                `(source word, target word)` counted from 0, an `evaluation.alignments.Alignment` where some links are
                only possible, or None.
            name: what the page calls this translator; by default its kind.

        Returns:
            A `Page`: it shows itself in a notebook, and `.save("page.html")` writes it.

        Raises:
            UserError: no sentence; an empty one; a sentence longer than the limit; not as many translations; gold links
                without a translation, or outside of it; anything other than text or words; no `BeamSearch`; no
                preprocessor; `beside` is not a dict of translators, or has one of the same name as this one.

        Example:
            >>> translator.explore(["Guten Morgen."], ["Good morning."]).save("page.html")
        """
        beside = {} if beside is None else beside
        named = isinstance(beside, Mapping) and all(
            isinstance(key, str) and isinstance(one, Exploration) for key, one in beside.items()
        )
        if not named:
            raise UserError(f"beside is a dict of translators by name; received {reprlib.repr(beside)}.")
        if name is not None and not isinstance(name, str):
            raise UserError(f"name must be text; received {reprlib.repr(name)}.")
        name = name or _kind(self)
        if name in beside:
            raise UserError(f"this translator and one beside it are both called {name!r}: give another name.")
        if isinstance(sentences, str):
            sentences = [sentences]
            listed = isinstance(translations, (list, tuple)) and len(translations) == 1
            translations = translations if translations is None or listed else [translations]  # type: ignore[list-item]
        return explore({name: self, **beside}, sentences, translations, gold)

    def examine(self, sources: Sequence[Words], targets: Sequence[Words | None]) -> list[Result]:
        """Search, and follow the model along what the search found and along translations, where any are given."""
        self._check_preprocessor()
        if not isinstance(self.sampler, BeamSearch):
            raise UserError("explore needs a BeamSearch: call compile(sampler='greedy' or 'beam') first.")
        text = self.encode([_text(source) for source in sources])
        found = self._trace(text.sources)
        given = [i for i, target in enumerate(targets) if target is not None]
        try:
            encoded = self.encode(text.select(given), [_text(targets[i] or "") for i in given])
        except SentenceTooLong as error:
            raise SentenceTooLong(
                given[error.number - 1] + 1, error.tokens, error.limit, "translation", error.most
            ) from None
        owners = [*range(len(text)), *given]
        along = [own for own, _ in found] + (encoded.targets or [])
        followed = self._follow(dataclasses.replace(text.select(owners), targets=along))
        results = []
        for i, (_, steps) in enumerate(found):
            numbers = [n for n, owner in enumerate(owners) if owner == i]
            paths = [
                self._path_of("own" if n < len(text) else "given", along[n], targets[i], *followed[n]) for n in numbers
            ]
            source_tokens, _ = self._pieces(text.sources[i], [])
            results.append(Result(source_tokens, followed[i][1].get("encoder", []), paths, steps))
        return results

    def attention_along(
        self,
        sources: str | Sequence[str] | EncodedText,
        targets: str | Sequence[str] | None = None,
        read: Callable[[dict[str, list[np.ndarray]]], Any] | None = None,
        batch_size: int = BATCH,
        progress: Progress = None,
    ) -> Any:
        """Return the attention of all layers of all places along given translations.

        Args:
            sources, targets, batch_size, progress: see `force`, for errors too.
            read: function of the attention of one pair, whose result is returned in place of it: use it for statistics
                of a long text, whose attention would not fit in memory.

        Returns:
            For each pair, or for the only one, `{place: weights of each layer}`, with arrays `(heads, query, key)`. The
            places are those of `backbone.attention_outputs` ("cross", and for a Transformer "encoder" and "decoder");
            with a latent alignment also "prior" and "posterior".

        Example:
            >>> weights = translator.attention_along("Guten Morgen.", "Good morning.")
            >>> weights["cross"][0].shape  # doctest: +SKIP
            (8, 4, 4)
        """

        def read_weights(found):
            return found[1] if read is None else read(found[1])

        return self._follow(sources, targets, batch_size, progress, read_weights)

    def description(self, name: str) -> System:
        """Return what a page says of this translator."""
        backbone, sampler = self.backbone, self.sampler
        heads = backbone.cross_attention_heads
        places = {"cross": _mechanisms(backbone, "cross", heads)}
        for place in ("encoder", "decoder"):
            if place in backbone.attention_outputs:
                counts = [scores.shape[1] for scores in backbone.attention_outputs[place]]
                places[place] = _mechanisms(backbone, place, counts)
        if backbone.latent_head is not None:
            places |= {place: [Mechanism("latent alignment", 1)] for place in ("prior", "posterior")}
        layer, _ = layer_and_head(backbone.attention_layer)
        shown = "all" if layer is None else layer % len(heads)
        return System(name, places, shown, sampler.num_beams, sampler.length_penalty)

    def _trace(self, sources):
        """Search for encoded sentences: for each the ids of the best translation, and its `SearchStep`s."""
        sampler, top_k = self.sampler, self.search_top_k
        stop = (self.preprocessor.tokenizer.end_token_id,)
        # A sampler with a search of its own, such as `PooledBeamSearch`, records none.
        records = searches_as_beam_search(sampler)
        key = ("trace", stop, *search_key(sampler, top_k))

        def make():
            return lambda inputs: search(self, inputs, sampler, stop, top_k, trace=records)

        def read(source, found, row):
            trace = {name: value[row] for name, value in found.get("trace", {}).items()}
            steps = self._steps(trace, len(source), stop[0]) if records else []
            return until_end(found["token_ids"][row, 0, 1:], stop[0]), steps

        def pack(ids, width):
            length = self.preprocessor.decoder_sequence_length
            return ({**self.preprocessor.pack_search(ids, width), **numbers_of(sampler, ids, length)},)

        return self._in_batches((sources,), BATCH, key, make, pack, read, beams=sampler.rows)

    def _steps(self, trace, source_length, end):
        """The positions of one sentence's search, up to the one at which all that it keeps is finished."""
        steps = []
        ended = np.zeros(1, bool)
        beams = self.sampler.num_beams
        for position in range(1, len(trace["log_probs"])):
            real = np.flatnonzero(trace["log_probs"][position] > IMPOSSIBLE / 2)
            if not len(real) or ended[:beams].all():
                break
            ids, parents = trace["token_ids"][position][real], trace["parents"][position][real]
            frozen = ended[parents]
            steps.append(
                SearchStep(
                    tokens=["" if done else one for done, one in zip(frozen, self._pieces([], ids)[1], strict=True)],
                    parents=parents.tolist(),
                    log_probs=trace["log_probs"][position][real],
                    scores=trace["scores"][position][real],
                    ended=(frozen | (ids == end)).tolist(),
                    attention=trace["record"][position][: len(ended[:beams]), :, :source_length],
                )
            )
            ended = frozen | (ids == end)
        return steps

    def _follow(self, sources, targets=None, batch_size=BATCH, progress=None, read=lambda found: found):
        """What `read` makes of the log-probabilities of given translations and the attention of all places."""

        def cut_and_read(source, target, found):
            log_probs, weights = found
            shapes = {"encoder": (len(source), len(source)), "decoder": (len(target), len(target))}
            cut = {}
            for place, layers in weights.items():
                rows, columns = shapes.get(place, (len(target), len(source)))
                cut[place] = [np.asarray(one[:, :rows, :columns], "float32") for one in layers]
            return read((log_probs[: len(target)], cut))

        return self._along(sources, targets, batch_size, progress, ("examine",), self._make_examination, cut_and_read)

    def _make_examination(self):
        """Return the function that `_follow` compiles."""
        backbone = self.backbone
        every_layer = backbone.attention_model()

        def examine(x, labels):
            x = {**OPTIONAL_INPUTS, **x}
            weights = dict(every_layer(x))
            outputs = backbone(x)
            if backbone.latent_head is None:
                steps = ops.log_softmax(ops.cast(backbone.logits(outputs), "float32"), axis=-1)
                return ops.take_along_axis(steps, labels[..., None], axis=-1)[..., 0], weights
            scored = backbone.score_targets(outputs, labels)
            weights["prior"] = [ops.mean(outputs["attention_scores"], axis=1, keepdims=True)]
            weights["posterior"] = [scored["posterior"][:, None]]
            return -mixture_losses(scored, labels)[1], weights

        return examine

    def _path_of(self, kind, ids, target, log_probs, weights):
        tokens = self._pieces([], ids)[1]
        if kind == "own":
            target = self.preprocessor.detokenize(ids)
        words = _words(target)
        own = {place: layers for place, layers in weights.items() if place != "encoder"}
        return Path(kind, _text(target), words, tokens, log_probs, own)


def explore(
    translators: Mapping[str, Exploration],
    sentences: Sequence[Words],
    translations: Sequence[Words | None] | None = None,
    gold: Sequence[Alignment | Iterable[Link] | None] | None = None,
    may_be_empty: bool = False,
) -> Page:
    """Show translators, by their names, on the same sentences; see `Exploration.explore`.

    Args:
        translators, sentences, translations, gold: see there.
        may_be_empty: whether there may be no sentence, as where a server is sent some.
    """
    sentences = _listed(sentences, "sentences")
    given = [None] * len(sentences) if translations is None else _listed(translations, "translations")
    links = [None] * len(sentences) if gold is None else _listed(gold, "gold")
    for what, found in (("translation", given), ("alignment", links)):
        if len(found) != len(sentences):
            raise UserError(
                f"{counted(len(sentences), 'sentence')} but {counted(len(found), what)}: give the same number of each."
            )
    shown = []
    for number, (sentence, target, own_links) in enumerate(zip(sentences, given, links, strict=True), start=1):
        words = _words(sentence, f"sentence {number}")
        text = _text(sentence)
        if not text:
            raise UserError(f"sentence {number} is empty: there is nothing to explore.")
        target_words = None if target is None else _words(target, f"translation {number}")
        alignment = _alignment(own_links, number)
        if alignment is not None:
            _check_links(alignment, words, target_words, number)
        shown.append(Sentence(text, words, alignment))
    if not shown and not may_be_empty:
        raise UserError("there is nothing to explore: give one sentence or more.")
    results = [translator.examine(sentences, given) if shown else [] for translator in translators.values()]
    systems = [translator.description(name) for name, translator in translators.items()]
    return Page(systems, shown, list(zip(*results, strict=True)))


def _listed(values, name):
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(f"{name} must be a list, with an entry for each sentence; received {reprlib.repr(values)}.")
    return list(values)


def _alignment(gold, number):
    """The gold links of a sentence: an `Alignment`, None, or pairs, which are sure links."""
    if gold is None:
        return None
    sure, possible = (gold.sure, gold.possible) if isinstance(gold, Alignment) else (gold, ())
    try:
        return Alignment(sure=set(map(_link, sure)), possible=set(map(_link, possible)))
    except (TypeError, ValueError):
        raise UserError(
            f"the gold links of sentence {number} must be pairs (source word, target word) counted from 0, or an "
            f"Alignment of such; received {reprlib.repr(gold)}."
        ) from None


def _link(pair):
    """A pair of positions as numbers of Python."""
    j, i = pair
    if isinstance(j, (bool, np.bool_)) or isinstance(i, (bool, np.bool_)):
        raise TypeError
    j, i = operator.index(j), operator.index(i)
    if j < 0 or i < 0:
        raise ValueError
    return j, i


def _text(sentence):
    return normalise(sentence) if isinstance(sentence, str) else as_sentence(sentence)


def _words(sentence, what="the sentence"):
    """The words of a sentence."""
    of_words = isinstance(sentence, (list, tuple)) and all(isinstance(word, str) for word in sentence)
    if not isinstance(sentence, str) and not of_words:
        raise UserError(f"{what} is neither text nor a list of words; received {reprlib.repr(sentence)}.")
    check_characters(_text(sentence), what)
    if of_words and not all(word.strip() for word in sentence):
        raise UserError(f"{what} has an empty word: leave it out; received {reprlib.repr(sentence)}.")
    return split_words(sentence) if isinstance(sentence, str) else list(sentence)


def _check_links(gold, words, target, number):
    if target is None:
        raise UserError(f"sentence {number} has gold links but no given translation: give both.")
    for j, i in gold.possible:
        if j >= len(words) or i >= len(target):
            raise UserError(
                f"gold link {j}-{i} of sentence {number} points past the last of {len(words)} source and "
                f"{len(target)} target words: check both."
            )


def _kind(translator):
    """What a translator is called that has no name."""
    backbone = translator.backbone
    names = dict.fromkeys(one.name for one in _mechanisms(backbone, "cross", backbone.cross_attention_heads))
    return f"{type(backbone).__name__.removesuffix('Backbone')}, {', '.join(names)}"


def _mechanisms(backbone, place, heads):
    """The attention of each layer of a place, from what the body was given."""
    choice = getattr(backbone, f"{place}_attention", "attention of its own")
    choices = choice if isinstance(choice, (list, tuple)) else [choice] * len(heads)
    return [_mechanism(attention_config(one), count) for one, count in zip(choices, heads, strict=True)]


def _mechanism(config, heads):
    name, layer = config, None
    if isinstance(config, dict):
        name = config.get("attention", config.get("class_name"))
        layer = keras.saving.get_registered_object(config.get("registered_name"))
    if name in ATTENTIONS:
        layer = ATTENTIONS[name].layer
    return Mechanism(str(name), heads, layer is not None and layer.by_position)
