// From the JSON of the page to weights.

// Make an element. Text goes in as text alone, so a sentence of markup stays a sentence.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A select with options [[value, text], ...].
function makeSelect(label, options, value, onchange) {
  const select = make("select", { "aria-label": label });
  for (const [option, text] of options) select.append(make("option", { value: option }, text));
  select.value = String(value);
  select.addEventListener("change", () => onchange(select.value));
  return select;
}

// Bytes in base85, with ",.:" in place of "<>&".
function fromBase85(text) {
  const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_`{|}~";
  const values = new Uint8Array(128);
  for (let i = 0; i < digits.length; i++) values[digits.charCodeAt(i)] = i;
  const whole = Math.ceil(text.length / 5);
  const view = new DataView(new ArrayBuffer(4 * whole));
  for (let i = 0; i < whole; i++) {
    let number = 0;
    // What is missing at the end counts as the highest digit.
    for (let j = 5 * i; j < 5 * i + 5; j++) number = 85 * number + (j < text.length ? values[text.charCodeAt(j)] : 84);
    view.setUint32(4 * i, number);
  }
  return new Uint8Array(view.buffer, 0, 4 * whole - (5 * whole - text.length));
}

// JSON and the weights that it points to; see packing.py.
async function unpack({ packed }) {
  const bytes = await inflate(fromBase85(packed));
  const end = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, end)));
  return { data, weights: { bytes: bytes.subarray(end), values: byteValues(...data.scale) } };
}

// The weight of each byte; see `page_packing.SCALES`.
function byteValues(step, knee) {
  return Float32Array.from({ length: 256 }, (_, byte) => {
    const share = step * byte;
    return share < 2 * knee ? (share * share) / (4 * knee) : share - knee;
  });
}

// How many sentences that were typed in a page keeps: with a dozen models, one may take some megabytes.
const KEPT = 20;

// What the page holds: the systems of what is shown, and sentences that know theirs, and their weights.
class Store {
  constructor({ data, weights }) {
    this.systems = data.systems;
    this.places = data.places;
    this.sentences = data.sentences.map((sentence) => ({ ...sentence, systems: data.systems, weights }));
    this.given = this.sentences.length;
  }

  // Add a sentence that was typed in, with its given translation or null: in its own place if it is there already, or
  // of the oldest one if there are many. Return its number, and the sentence that was in its own place before.
  add({ data, weights }, target = null) {
    const sentence = { ...data.sentences[0], systems: data.systems, target, weights };
    const known = this.sentences.findIndex((one, i) => i >= this.given && one.text === sentence.text && one.target === target);
    if (known >= 0) return [known, ...this.sentences.splice(known, 1, sentence)];
    if (this.sentences.length === this.given + KEPT) this.sentences.splice(this.given, 1);
    return [this.sentences.push(sentence) - 1];
  }
}

// Add the weights of one matrix to a sum.
function addMatrix(sum, { bytes, values }, { at, shape }, index, times) {
  const size = shape[1] * shape[2];
  for (let i = 0; i < size; i++) sum[i] += times * values[bytes[at + index * size + i]];
}

// Mean of several matrices, [[place, index], ...] of one shape.
function meanMatrix(weights, chosen) {
  const [, rows, columns] = chosen[0][0].shape;
  const values = new Float32Array(rows * columns);
  for (const [place, index] of chosen) addMatrix(values, weights, place, index, 1 / chosen.length);
  return { rows, columns, values };
}

// Words get the sum over the subwords of an attended word, and the mean over those of an attending one.
function mergeMatrix({ columns, values }, rowGroups, columnGroups, words) {
  const [rowCount, columnCount] = words;
  const merged = new Float32Array(rowCount * columnCount);
  const sizes = new Uint16Array(rowCount);
  for (const group of rowGroups) if (group >= 0) sizes[group]++;
  rowGroups.forEach((group, row) => {
    if (group < 0) return;
    for (let column = 0; column < columns; column++) {
      const target = columnGroups[column];
      if (target >= 0) merged[group * columnCount + target] += values[row * columns + column] / sizes[group];
    }
  });
  return { rows: rowCount, columns: columnCount, values: merged };
}

// In nats: 0 where all weight is on one token, log n where it is even over n.
function rowEntropies({ rows, columns, values }) {
  return Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let column = 0; column < columns; column++) {
      const weight = values[row * columns + column];
      if (weight > 0) sum -= weight * Math.log(weight);
    }
    return Math.max(0, sum);
  });
}

const percent = (share) => (share >= 0.995 || share === 0 ? `${Math.round(100 * share)} %`
  : share < 0.01 ? "<1 %" : `${Math.round(100 * share)} %`);
const plain = (token) => token.replaceAll("▁", " ").trim();
