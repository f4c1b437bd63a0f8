// A view: what a panel shows of a sentence. Its rows attend to its columns.

const START = "<s>";

// The words of a text, and the word in which each of its tokens begins: a space belongs to the word behind it, and
// marks at the end of a word are a word of their own, as in `split_words` and `group_pieces`.
function groupTokens(tokens) {
  const texts = tokens.map((token) => (token === END ? "" : token.replaceAll("▁", " ")));
  const words = texts.join("").replace(/([,.;:?!]+)(?=\s|$)/g, " $1").split(/\s+/).filter(Boolean);
  if (!words.length && tokens.some((token) => token !== END)) words.push("");
  const letters = words.flatMap((word, at) => new Array(word.length).fill(at));
  let read = 0;
  const groups = texts.map((text, at) => {
    const first = tokens[at] === END ? words.length : letters[read] ?? words.length - 1;
    read += text.replace(/\s/g, "").length;
    return first;
  });
  return { words, groups };
}

// One side of an attention, as subwords and as words. "kind" says whose tokens they are: panels with the same
// tokens follow each other.
function side(kind, title, tokens, groups, words) {
  const last = Math.max(-1, ...groups) + 1;
  return { kind, title, tokens, groups, words: last > words.length ? [...words, END] : words };
}

function sourceSide(sentence, result) {
  return side("source", "Source", result.tokens, result.groups, sentence.words);
}

function targetSide(path) {
  return side(`target ${path.text}`, path.kind === "given" ? "Given translation" : "Translation",
    path.tokens, path.groups, path.words);
}

// What the decoder has read: the start, and the tokens before.
function readSide(path) {
  const { tokens, groups, words, kind } = targetSide(path);
  return {
    kind: `read ${kind}`, title: "Read so far",
    tokens: [START, ...tokens.slice(0, -1)],
    groups: [0, ...groups.slice(0, -1).map((group) => (group < 0 ? group : group + 1))],
    words: [START, ...words.slice(0, tokens.at(-1) === END ? -1 : undefined)],
  };
}

// The hypothesis that ends in a candidate of the search: [[step, candidate], ...], the first position first.
function ancestry(steps, step, candidate) {
  const chain = [];
  for (; step >= 0; step--) {
    chain.unshift([step, candidate]);
    candidate = steps[step].parents[candidate];
  }
  return chain;
}

// Log-probability of a candidate's last subword alone.
function ownLogProb(steps, step, candidate) {
  const before = step ? steps[step - 1].logProbs[steps[step].parents[candidate]] : 0;
  return steps[step].logProbs[candidate] - before;
}

// A hypothesis of the search as a path, with the attention that chose its tokens.
function pathOfBeam(result, step, candidate) {
  const chain = ancestry(result.steps, step, candidate).filter(([at, place]) => result.steps[at].tokens[place] !== "");
  const tokens = chain.map(([at, place]) => result.steps[at].tokens[place]);
  return {
    kind: "beam", chain, step, candidate, tokens, ...groupTokens(tokens),
    text: plain(tokens.filter((token) => token !== END).join("")),
    logProbs: chain.map(([at, place]) => ownLogProb(result.steps, at, place)),
  };
}

// One row for each token of a beam: of the weights of its parent.
function beamMatrices(sentence, result, path) {
  const heads = result.steps[0].attention.shape[0];
  const columns = result.tokens.length;
  return Array.from({ length: heads }, (_, head) => {
    const values = new Float32Array(path.chain.length * columns);
    path.chain.forEach(([at, place], row) => {
      const { attention, parents } = result.steps[at];
      const one = new Float32Array(attention.shape[1] * columns);
      addMatrix(one, sentence.weights, attention, head, 1);
      values.set(one.subarray(parents[place] * columns, (parents[place] + 1) * columns), row * columns);
    });
    return { rows: path.chain.length, columns, values };
  });
}

// The matrices that layer and head choose.
function chooseMatrices(layers, best, layer, head) {
  const chosen = layer === "best" ? best : layer;
  const some = chosen === "mean" || chosen === "all" ? layers : [layers[Math.min(Number(chosen), layers.length - 1)]];
  return some.flatMap((one) => {
    const heads = one.shape[0];
    return head === "mean" ? Array.from({ length: heads }, (_, i) => [one, i]) : [[one, Math.min(Number(head), heads - 1)]];
  });
}

function layersOf(result, path, place) {
  return place === "encoder" ? result.encoder : path.weights[place];
}

function buildView(store, sentence, choice, level) {
  const result = sentence.results[choice.system];
  const system = store.systems[choice.system];
  const path = choice.beam ? pathOfBeam(result, ...choice.beam) : result.paths[choice.path];
  const columns = choice.place === "decoder" ? readSide(path) : sourceSide(sentence, result);
  const rows = choice.place === "encoder" ? { ...sourceSide(sentence, result), title: "Attending" } : targetSide(path);
  if (choice.place === "encoder") columns.title = "Attended to";
  let matrix;
  if (choice.beam) {
    const heads = beamMatrices(sentence, result, path);
    matrix = choice.head === "mean" ? heads[0] : heads[Math.min(choice.head, heads.length - 1)];
    if (choice.head === "mean") {
      const values = matrix.values.map((_, i) => heads.reduce((sum, one) => sum + one.values[i], 0) / heads.length);
      matrix = { ...matrix, values };
    }
  } else {
    const layers = layersOf(result, path, choice.place);
    matrix = meanMatrix(sentence.weights, chooseMatrices(layers, system.best, choice.layer, choice.head));
  }
  const ofWords = level === "words";
  if (ofWords) {
    matrix = mergeMatrix(matrix, rows.groups, columns.groups, [rows.words.length, columns.words.length]);
  }
  const labels = (one) => (ofWords ? one.words : one.tokens);
  let probabilities = null;
  if (choice.place !== "encoder") {
    const sums = new Array(matrix.rows).fill(0);
    path.logProbs.forEach((one, i) => {
      const row = ofWords ? rows.groups[i] : i;
      if (row >= 0) sums[row] += one;
    });
    probabilities = sums.map(Math.exp);
  }
  const linked = path.kind === "given" && sentence.gold && choice.place !== "encoder" && choice.place !== "decoder";
  return {
    ...matrix, path, probabilities,
    entropies: rowEntropies(matrix),
    rowLabels: labels(rows), columnLabels: labels(columns), rowSide: rows, columnSide: columns,
    gold: linked ? goldLinks(sentence.gold, rows, columns, ofWords) : [],
    ofWords,
  };
}

// Gold links as [row, column, sure]; those of a word are those of each of its tokens.
function goldLinks(links, rows, columns, ofWords) {
  if (ofWords) return links.map(([j, i, sure]) => [i, j, sure]);
  const tokens = ({ groups }, word) => [...groups.keys()].filter((at) => groups[at] === word);
  return links.flatMap(([j, i, sure]) => tokens(rows, i).flatMap((r) => tokens(columns, j).map((c) => [r, c, sure])));
}

// The word of a token of a view, and the first token of a word.
function wordOf(view, name, index) {
  return view.ofWords ? index : view[`${name}Side`].groups[index];
}

function tokenOf(view, name, word) {
  return view.ofWords ? word : view[`${name}Side`].groups.indexOf(word);
}
