// The worker: it loads models and translates, so that the page stays responsive, and says nothing to anyone else.

const PROGRAMS = ["encoder", "step", "follow", "attention"];
const models = new Map();
let base = null;
let libraries = null;
let stopped = false;

class Stopped extends Error {}

// Fetch a file as it was published, and inflate it; "report" gets the bytes so far.
async function fetchFile({ path, size, sha256 }, report = () => {}) {
  let answer;
  try {
    // A browser may have the file of an earlier site.
    answer = await fetch(new URL(path, base), { cache: "no-cache" });
  } catch {
    throw new Error(`${path} cannot be loaded: is there a network?`);
  }
  if (!answer.ok) throw new Error(`${path} cannot be loaded: the server says ${answer.status}.`);
  const bytes = new Uint8Array(size);
  const reader = answer.body.getReader();
  let read = 0;
  const damaged = (what) => new Error(`${path} is damaged: ${what}. Reload the page; if it stays so, the site is to be built again.`);
  for (;;) {
    let chunk;
    try {
      chunk = await reader.read();
    } catch {
      throw new Error(`${path} cannot be loaded: the connection ended early.`);
    }
    if (chunk.done) break;
    if (read + chunk.value.length > size) throw damaged(`it has more than ${size} bytes`);
    bytes.set(chunk.value, read);
    read += chunk.value.length;
    report(read);
  }
  if (read < size) throw damaged(`it has ${read} of ${size} bytes`);
  // A page without encryption cannot compute it; there, the size has to do.
  if (globalThis.crypto.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    if ([...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") !== sha256) throw damaged("its checksum is another one");
  }
  return path.endsWith(".deflated") ? inflate(bytes) : bytes;
}

// onnxruntime and SentencePiece. The latter is written for Node, whose `require` gives it the file of a model.
async function loadLibraries({ onnxruntime, wasm, sentencepiece }, threads) {
  // What is run is checked before; the browser has it then.
  for (const script of [onnxruntime, sentencepiece]) await fetchFile(script);
  const ort = await import(new URL(onnxruntime.path, base).href);
  ort.env.wasm.wasmBinary = await fetchFile(wasm, (bytes) => postMessage({ loading: "onnxruntime", bytes, size: wasm.size }));
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = "error";
  let model = null;
  globalThis.exports = {};
  globalThis.require = () => ({ readFileSync: () => model });
  globalThis.__filename = "";
  // What it says where it is.
  globalThis.document = { currentScript: { src: base } };
  importScripts(new URL(sentencepiece.path, base).href);
  const { SentencePieceProcessor } = globalThis.exports;
  // One for each model, however many translators have it: each is a program with a memory of its own.
  const processors = new Map();
  const processor = async (bytes, sha256) => {
    if (!processors.has(sha256)) {
      const one = new SentencePieceProcessor();
      model = bytes;
      await one.load("");
      processors.set(sha256, one);
    }
    return processors.get(sha256);
  };
  return { ort, processor };
}

async function loadModel({ name, files }) {
  const total = Object.values(files).reduce((sum, { size }) => sum + size, 0);
  let before = 0;
  const found = {};
  for (const [part, file] of Object.entries(files)) {
    found[part] = await fetchFile(file, (bytes) => postMessage({ loading: name, bytes: before + bytes, size: total }));
    before += file.size;
  }
  const text = (bytes) => new TextDecoder().decode(bytes);
  const description = JSON.parse(text(found.description));
  // To prepare what runs once for a sentence takes longer than it saves.
  const often = ["step", ...(description.follow.by === "token" ? ["follow"] : [])];
  const externalData = [{ path: description.weights, data: found.weights }];
  const sessions = {};
  for (const part of PROGRAMS.filter((one) => one in found)) {
    const graphOptimizationLevel = often.includes(part) ? "all" : "disabled";
    sessions[part] = await libraries.ort.InferenceSession.create(found[part], { executionProviders: ["wasm"], externalData, graphOptimizationLevel });
  }
  const subwords = async (side) => {
    const known = description.tokenizers[side];
    // Both sides may have the same one.
    const [model, truecaser, vocabulary] = ["model", "truecaser", "vocabulary"].map((kind) => (
      [`${side}_${kind}`, `source_${kind}`].find((part) => kind in known && part in found)));
    const processor = await libraries.processor(found[model], files[model].sha256);
    const own = readPieces(found[model]);
    if (vocabulary) return new LiveMarianPieces(processor, own, JSON.parse(text(found[vocabulary])), known);
    return new LiveSubwords(processor, own, truecaser ? new Truecaser(text(found[truecaser])) : null);
  };
  return new LiveModel(name, description, sessions, await subwords("source"), await subwords("target"), libraries.ort);
}

// Let messages in, among them one that stops.
function pause() {
  return new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      if (stopped) reject(new Stopped());
      else resolve();
    };
    port2.postMessage(null);
  });
}

const requests = {
  async load({ model, libraries: given, threads }) {
    if (!models.has(model.name)) {
      libraries ??= await loadLibraries(given, threads);
      models.set(model.name, await loadModel(model));
    }
  },

  async examine({ sentence, target, name, at }) {
    const weights = new LiveWeights(at);
    // As `translators.exploration` reads them.
    const [text, translation] = [sentence, target].map((one) => (one === null ? null : normalise(one)));
    const { words, result } = await models.get(name).examine(text, translation, weights, pause);
    return { text, words, result, bytes: weights.bytes() };
  },
};

let last = Promise.resolve();
onmessage = ({ data }) => {
  if (data.base) { ({ base } = data); return; }
  if (data.stop) { stopped = true; return; }
  if (data.kind === "examine") stopped = false;
  // One after the other.
  last = last.then(async () => {
    try {
      postMessage({ id: data.id, found: await requests[data.kind](data) });
    } catch (error) {
      postMessage({ id: data.id, stopped: error instanceof Stopped, error: error.message });
    }
  });
};
