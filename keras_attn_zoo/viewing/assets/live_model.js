// A translator in the browser: the programs of an export, run by onnxruntime, and what a page shows of a sentence.

// As `page_packing.SCALES` has them first: a weight as a byte, by its root.
const STEP = 2 / 255;

// Attention weights, a byte each, one matrix behind the other.
class LiveWeights {
  // "at": bytes of the models before.
  constructor(at) {
    this.parts = [];
    this.before = at;
    this.size = at;
  }

  // Add weights (matrices, rows, columns); return where they are.
  add(values, shape) {
    const at = this.size;
    this.parts.push(Uint8Array.from(values, (x) => Math.round((2 * Math.sqrt(Math.min(1, Math.max(0, x || 0)))) / STEP)));
    this.size += values.length;
    return { at, shape };
  }

  bytes() {
    const all = new Uint8Array(this.size - this.before);
    let at = 0;
    for (const part of this.parts) { all.set(part, at); at += part.length; }
    return all;
  }
}

const rounded = (value) => Math.round(value * 1e4) / 1e4;

class LiveModel {
  // "sessions": encoder, step, follow and perhaps attention; "description": that of the export; "ort": the library.
  constructor(name, description, sessions, source, target, ort) {
    Object.assign(this, { name, description, sessions, source, target, ort });
  }

  ids(values, dims) { return new this.ort.Tensor("int32", Int32Array.from(values), dims); }

  // The ids of a text with their end, at most as many as the model reads.
  encode(side, text) {
    const { truncation, lengths } = this.description;
    let ids = this[side].encode(text);
    const most = truncation[side];
    if (most !== null && ids.length > most - 2) {
      ids = side === "source" && truncation.keep === "end" ? ids.slice(2 - most) : ids.slice(0, most - 2);
    }
    if (ids.length + 1 > lengths[side]) {
      const what = side === "source" ? "sentence" : "translation";
      throw new Error(`${this.name}: the ${what} has ${ids.length + 1} tokens with its end, more than the ${lengths[side]} that the model accepts: split it.`);
    }
    return [...ids, this[side].end];
  }

  // Memory and state before the first position, by name.
  async start(source) {
    const given = {
      encoder_token_ids: this.ids(source, [1, source.length]),
      encoder_padding_mask: new this.ort.Tensor("bool", new Uint8Array(source.length).fill(1), [1, source.length]),
    };
    const values = await this.sessions.encoder.run(given);
    for (const { name, per } of this.description.memory) {
      if (per === "hypothesis") values[name] = values[name].reshape([1, ...values[name].dims]);
    }
    return values;
  }

  // Memory of one hypothesis for each beam.
  spread(values, beams) {
    const found = { ...values };
    for (const { name, per } of this.description.memory) {
      if (per !== "hypothesis" || values[name].dims[1] === beams) continue;
      const { data, dims, type } = values[name];
      const size = data.length / dims[1];
      const all = new data.constructor(size * beams);
      for (let beam = 0; beam < beams; beam++) all.set(data.subarray(0, size), beam * size);
      found[name] = new this.ort.Tensor(type, all, [1, beams, ...dims.slice(2)]);
    }
    return found;
  }

  // The next state in place of the last one.
  advanced(values, outputs) {
    const found = { ...values };
    for (const { name, next } of this.description.state) found[name] = outputs[next];
    return found;
  }

  // Search; "pause" is awaited before each step, and ends the search by an exception.
  async search(source, started, pause) {
    const { search, target, lengths } = this.description;
    let values = started;
    const step = async (tokens, parents) => {
      await pause();
      const dims = [1, tokens.length];
      values = this.spread(values, tokens.length);
      const outputs = await this.sessions.step.run({ token_ids: this.ids(tokens, dims), parents: this.ids(parents, dims), ...values });
      values = this.advanced(values, outputs);
      const rows = (tensor) => ({ data: tensor.data, dims: tensor.dims.slice(1) });
      return { logProbs: rows(outputs.log_probs), attention: rows(outputs.attention) };
    };
    return new LiveSearch(search, target.end, lengths.target).run(step, target.start);
  }

  // Follow the model along a translation: log-probabilities, and for each place [[values, shape], ...] of its layers.
  async follow(source, started, labels, pause) {
    const { by, places } = this.description.follow;
    const read = [this.description.target.start, ...labels.slice(0, -1)];
    const each = (make) => Object.fromEntries(Object.entries(places).map(([place, count]) => [
      place, Array.from({ length: count }, (_, layer) => make(`${place}.${layer}`)),
    ]));
    await pause();
    if (by === "sentence") {
      const outputs = await this.sessions.follow.run({
        source_ids: this.ids(source, [1, source.length]), token_ids: this.ids(read, [1, read.length]), labels: this.ids(labels, [1, labels.length]),
      });
      return { logProbs: [...outputs.log_probs.data], weights: each((name) => [outputs[name].data, outputs[name].dims.slice(1)]) };
    }
    let values = started;
    const steps = [];
    for (let i = 0; i < labels.length; i++) {
      await pause();
      const one = (id) => this.ids([id], [1, 1]);
      const outputs = await this.sessions.follow.run({ token_ids: one(read[i]), parents: one(0), labels: one(labels[i]), ...values });
      values = this.advanced(values, outputs);
      steps.push(outputs);
    }
    const ofSource = await this.sessions.attention?.run({ source_ids: this.ids(source, [1, source.length]) });
    const stacked = (name) => {
      if (name.startsWith("encoder.")) return [ofSource[name].data, ofSource[name].dims.slice(1)];
      const [, heads] = steps[0][name].dims;
      // What has been read so far grows with each step.
      const columns = name.startsWith("decoder.") ? steps.length : source.length;
      const all = new Float32Array(heads * steps.length * columns);
      steps.forEach((outputs, row) => {
        const { data, dims } = outputs[name];
        for (let head = 0; head < heads; head++) {
          const from = head * dims[3];
          all.set(data.subarray(from, from + Math.min(columns, dims[3])), (head * steps.length + row) * columns);
        }
      });
      return [all, [heads, steps.length, columns]];
    };
    return { logProbs: steps.map((outputs) => outputs.log_probs.data[0]), weights: each(stacked) };
  }

  // What the page shows of a normalised sentence; see `page_packing`.
  async examine(text, translation, weights, pause) {
    const source = this.encode("source", text);
    const given = translation === null ? null : this.encode("target", translation);
    const started = await this.start(source);
    const found = await this.search(source, started, pause);
    const paths = [];
    let encoder = [];
    for (const [kind, ids] of [["own", found.ids], ...(given ? [["given", given]] : [])]) {
      const { logProbs, weights: places } = await this.follow(source, started, ids, pause);
      const stored = Object.fromEntries(Object.entries(places).map(([place, layers]) => [place, layers.map((layer) => weights.add(...layer))]));
      encoder = stored.encoder ?? [];
      delete stored.encoder;
      paths.push({ kind, ...this.written(kind === "own" ? null : translation, ids), logProbs: logProbs.map(rounded), weights: stored });
    }
    const steps = found.record.map((one) => this.step(one, weights));
    const tokens = this.source.pieces(source);
    const words = splitWords(text);
    return { words, result: { tokens, groups: groupPieces(tokens, words), encoder, paths, steps } };
  }

  // Text, words and tokens of a translation, its own if none is given.
  written(translation, ids) {
    const text = translation ?? normalise(this.target.decode(ids));
    const tokens = this.target.pieces(ids);
    const words = splitWords(text);
    return { text, tokens, words, groups: groupPieces(tokens, words) };
  }

  step({ candidates, attention, rows }, weights) {
    const [, heads, source] = attention.dims;
    // Heads first.
    const turned = new Float32Array(rows * heads * source);
    for (let row = 0; row < rows; row++) {
      for (let head = 0; head < heads; head++) {
        const from = (row * heads + head) * source;
        turned.set(attention.data.subarray(from, from + source), (head * rows + row) * source);
      }
    }
    return {
      tokens: candidates.map(({ token, frozen }) => (frozen ? "" : this.target.all[token])),
      parents: candidates.map(({ parent }) => parent),
      logProbs: candidates.map(({ logProb }) => rounded(logProb)),
      scores: candidates.map(({ score }) => rounded(score)),
      ended: candidates.map(({ ended }) => Number(ended)),
      attention: weights.add(turned, [heads, rows, source]),
    };
  }
}
