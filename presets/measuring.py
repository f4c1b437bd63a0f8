"""What a preset is worth: scores, word alignment and speed of the stored model, and what its run knows."""

import itertools
import operator
import os
import time

# The longest sentences that are aligned, in subwords: learned matrices of weights reach no further.
LONGEST = 75
POLICIES = "mixed_bfloat16", "bfloat16", "mixed_float16", "float16"


def history(run):
    """What a run knows of its training, and how it scored before its weights were rounded."""
    from keras_attn_zoo.runs.run_folder import RunFolder
    from keras_attn_zoo.runs.scoring import training_summary

    run = RunFolder(run)
    scores, summary = run.read_scores()["test"], training_summary(run)
    return {
        "unquantized": {name: round(metric["score"], 2) for name, metric in scores["text"]["metrics"].items()},
        "training": {
            "steps": summary["steps"],
            "epochs": summary["rounds"],
            "hours": round(summary["seconds"] / 3600, 2),
            "test": scores["sentences"],
        },
    }


def measure(folder, recipe, options):
    """Translate and score with what was stored; return parameters, search, scores, signatures and speed."""
    import keras

    from keras_attn_zoo.data.text_files import TSVFile
    from keras_attn_zoo.evaluation.likelihood import corpus_likelihood
    from keras_attn_zoo.evaluation.text_scores import score_text
    from keras_attn_zoo.kernels.processor import processor_name
    from keras_attn_zoo.runs.loading import load_translator

    translator = load_translator(folder)
    search = translator.search_settings
    pairs = list(TSVFile(options.corpus / "test.tsv.gz", int(recipe.reversed), int(not recipe.reversed)))
    sources, references = map(list, zip(*pairs, strict=True))
    # Once for the compilation, once for the clock.
    translator.translate(sources)
    began = time.perf_counter()
    hypotheses = [best[0].text for best in translator.translate(sources)]
    seconds = time.perf_counter() - began
    text = score_text(hypotheses, references).as_dict()["metrics"]
    aer, alignment = align(translator, recipe, options)
    return {
        "body": type(translator.backbone).__name__,
        "parameters": translator.count_params(),
        "search": {key: search[key] for key in ("beams", "length_penalty")},
        "scores": {
            **{name: round(metric["score"], 2) for name, metric in text.items()},
            "perplexity": round(corpus_likelihood(translator.score(sources, references))["perplexity"], 3),
            "aer": aer,
        },
        "signatures": {name: metric["signature"] for name, metric in text.items()},
        "sentences_per_second": round(len(sources) / seconds, 1),
        "backend": keras.config.backend(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor_name(),
        "alignment": alignment,
    }


def translated_otherwise(folder, recipe, options, count):
    """Return by policy how many of the first test sentences are translated otherwise than in float32."""
    from keras_attn_zoo.data.text_files import TSVFile
    from keras_attn_zoo.translators import Translator

    text = TSVFile(options.corpus / "test.tsv.gz", int(recipe.reversed), int(not recipe.reversed))
    sources = [source for source, _ in itertools.islice(text, count)]
    expected = Translator.from_preset(folder, dtype="float32").generate(sources)
    found = {policy: Translator.from_preset(folder, dtype=policy).generate(sources) for policy in POLICIES}
    return {policy: sum(map(operator.ne, expected, those)) for policy, those in found.items()}


def align(translator, recipe, options):
    """Return AER on the gold links, and on how many sentences and by which attention; None twice without links."""
    if options.links is None:
        return None, None
    from keras_attn_zoo.data.words import as_sentence
    from keras_attn_zoo.runs.word_alignment import align_by_layer

    pairs, gold = read_links(options.links, recipe)
    preprocessor = translator.preprocessor
    longest = min(LONGEST, translator.backbone.longest_sentence or LONGEST)
    translator.set_max_tokens(longest)
    sides = zip(*((as_sentence(source), as_sentence(target)) for source, target in pairs), strict=True)
    lengths = [
        [len(ids) + 2 for ids in tokenizer(list(side))]
        for tokenizer, side in zip((preprocessor.source_tokenizer, preprocessor.tokenizer), sides, strict=True)
    ]
    fits = [i for i, both in enumerate(zip(*lengths, strict=True)) if max(both) <= longest]
    found = align_by_layer(translator, [pairs[i] for i in fits], [gold[i] for i in fits])
    best = min(found, key=lambda layer: found[layer][1].aer)
    by = name_of(best, len(translator.backbone.cross_attention_heads))
    facts = {"sentences": len(fits), "of": len(pairs), "longest": longest, "layer": best, "by": by}
    return round(100 * found[best][1].aer, 1), facts


def read_links(links, recipe):
    """Return the tokenised pairs with gold links in the direction of a preset, and their links."""
    from keras_attn_zoo.data.text_files import read_bitext
    from keras_attn_zoo.evaluation.alignments import read_alignments

    pairs = read_bitext(links / "test.de-en", reverse=not recipe.reversed)
    lengths = [(len(source), len(target)) for source, target in pairs]
    gold = read_alignments(links / "gold.talp", index_base=1, reverse=not recipe.reversed, lengths=lengths)
    return pairs, gold


def name_of(layer, count):
    """What a card calls the attention that `align_by_layer` names; None for the only layer of a model."""
    if isinstance(layer, int):
        return f"layer {layer + 1} of {count}" if count > 1 else None
    return f"the {layer} of its latent alignment" if layer in ("prior", "posterior") else "the mean of its layers"
