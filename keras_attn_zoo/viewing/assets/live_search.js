// Beam search, with the results and the record of `decoding.BeamSearch`.

const IMPOSSIBLE = -1e9;
const LEAST_COVERAGE = 1e-9;

// The places of the k largest numbers of a row, the largest first; of equal ones, the first.
function largest(values, from, count, k) {
  const found = [];
  for (let i = 0; i < count; i++) {
    const value = values[from + i];
    if (found.length === k && value <= values[from + found[k - 1]]) continue;
    let at = found.length;
    while (at && values[from + found[at - 1]] < value) at--;
    found.splice(at, 0, i);
    if (found.length > k) found.pop();
  }
  return found;
}

class LiveSearch {
  // "settings": those of a translator; "limit": maximum tokens of a translation, start and end included.
  constructor(settings, end, limit) {
    this.settings = { coverage_penalty: 0, min_length: 0, no_repeat_ngram: 0, ...settings };
    this.end = end;
    this.limit = limit;
  }

  // "step": function of the last tokens and the rows that they follow, to log-probabilities (rows, vocabulary) and
  // attention (rows, heads, source) as tensors. Returns the ids of the best translation, and all that was considered.
  async run(step, start) {
    const { beams } = this.settings;
    let kept = [{ tokens: [start], logProb: 0, length: 0, ended: false, parent: 0, coverage: null }];
    const record = [];
    for (let position = 1; position < this.limit; position++) {
      const { logProbs, attention } = await step(kept.map(({ tokens }) => tokens.at(-1)), kept.map(({ parent }) => parent));
      this.cover(kept, attention);
      const candidates = kept.flatMap((hypothesis, row) => this.continued(hypothesis, row, logProbs, position));
      // Of equal scores, the first stays first.
      candidates.sort((a, b) => b.score - a.score);
      const considered = candidates.slice(0, 2 * beams);
      record.push({ candidates: considered, attention, rows: kept.length });
      kept = considered.slice(0, beams).map((one) => ({ ...one, tokens: [...kept[one.parent].tokens, one.token] }));
      if (kept.every(({ ended }) => ended)) break;
    }
    const ids = kept[0].tokens.slice(1);
    const end = ids.indexOf(this.end);
    return { ids: end < 0 ? ids : ids.slice(0, end + 1), record };
  }

  // Add the attention of this step to the coverage of what is not finished.
  cover(kept, attention) {
    if (!this.settings.coverage_penalty) return;
    const [, heads, source] = attention.dims;
    kept.forEach((hypothesis, row) => {
      hypothesis.coverage ??= new Float32Array(source);
      if (hypothesis.ended) return;
      hypothesis.coverage = hypothesis.coverage.map((covered, j) => {
        let sum = 0;
        for (let head = 0; head < heads; head++) sum += attention.data[(row * heads + head) * source + j];
        return covered + sum / heads;
      });
    });
  }

  // The best continuations of a hypothesis. A finished one goes on with padding, at no cost.
  continued(hypothesis, row, logProbs, position) {
    if (hypothesis.ended) return [this.candidate(hypothesis, row, 0, 0, hypothesis.length)];
    const [, vocabulary] = logProbs.dims;
    const from = row * vocabulary;
    this.ruleOut(hypothesis.tokens, logProbs.data, from, position);
    return largest(logProbs.data, from, vocabulary, 2 * this.settings.beams)
      .map((token) => this.candidate(hypothesis, row, token, logProbs.data[from + token], hypothesis.length + 1))
      .filter(({ logProb }) => logProb > IMPOSSIBLE / 2);
  }

  candidate(hypothesis, parent, token, added, length) {
    const { length_penalty: penalty, coverage_penalty: beta } = this.settings;
    const logProb = Math.fround(hypothesis.logProb + added);
    let score = logProb / ((5 + length) / 6) ** penalty;
    if (beta) score += beta * hypothesis.coverage.reduce((sum, x) => sum + Math.log(Math.min(1, Math.max(LEAST_COVERAGE, x))), 0);
    return {
      token, parent, logProb, score: Math.fround(score), length, coverage: hypothesis.coverage,
      frozen: hypothesis.ended, ended: hypothesis.ended || token === this.end,
    };
  }

  // Make an end that comes too early impossible, and what would repeat an n-gram.
  ruleOut(tokens, logProbs, from, position) {
    const { min_length: least, no_repeat_ngram: n } = this.settings;
    if (position - 1 < least) logProbs[from + this.end] = IMPOSSIBLE;
    if (!n || position <= n) return;
    const last = tokens.slice(tokens.length - n + 1).join();
    for (let i = 1; i + n <= tokens.length; i++) {
      if (tokens.slice(i, i + n - 1).join() === last) logProbs[from + tokens[i + n - 1]] = IMPOSSIBLE;
    }
  }
}
