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

// JSON and the weights that it points to; see packing.py.
async function unpack({ packed }) {
  const deflated = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const end = 4 + new DataView(bytes.buffer).getUint32(0, true);
  return { data: JSON.parse(new TextDecoder().decode(bytes.subarray(4, end))), bytes: bytes.subarray(end) };
}

// What the page holds: systems, and sentences that know their bytes.
class Store {
  constructor({ data, bytes }) {
    this.systems = data.systems;
    this.places = data.places;
    this.sentences = [];
    this.add({ data, bytes });
  }

  add({ data, bytes }) {
    for (const sentence of data.sentences) this.sentences.push({ ...sentence, bytes });
    return this.sentences.length - 1;
  }
}

// Weights of one matrix: the largest of a row is in 65535 parts, the roots of the shares of it in 255; see packing.py.
function addMatrix(sum, bytes, { at, shape }, index, times) {
  const [count, rows, columns] = shape;
  const body = at + 2 * count * rows;
  for (let row = 0; row < rows; row++) {
    const head = at + 2 * (index * rows + row);
    const largest = (bytes[head] + 256 * bytes[head + 1]) / 65535;
    const from = body + (index * rows + row) * columns;
    for (let column = 0; column < columns; column++) {
      const root = bytes[from + column] / 255;
      sum[row * columns + column] += times * largest * root * root;
    }
  }
}

// Mean of several matrices, [[place, index], ...] of one shape.
function meanMatrix(bytes, chosen) {
  const [, rows, columns] = chosen[0][0].shape;
  const values = new Float32Array(rows * columns);
  for (const [place, index] of chosen) addMatrix(values, bytes, place, index, 1 / chosen.length);
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
