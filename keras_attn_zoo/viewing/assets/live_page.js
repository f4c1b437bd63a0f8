// Where sentences that are typed in are translated: by the server of the page, or in this browser.

class Server {
  constructor() {
    this.choice = null;
    this.stop = null;
    this.example = this.fault = "";
  }

  show() {}

  async *examine(sentence, target) {
    let answer;
    let data;
    try {
      answer = await fetch("explore", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sentence, target }),
      });
      data = await answer.json();
    } catch {
      throw new Error("The server does not answer: is it still running?");
    }
    if (!answer.ok) throw new Error(data.error);
    yield unpack(data);
  }
}

// A program of WebAssembly with one instruction of SIMD.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];

// What this browser lacks, or null.
function missing() {
  if (location.protocol === "file:") return "A page that translates is read from a web server: run python -m http.server in its folder, and open localhost:8000.";
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly, which translates here: open the page in a browser from 2023 or later.";
  if (!WebAssembly.validate(new Uint8Array(SIMD))) return "This browser has no SIMD in WebAssembly, which translates here: open the page in a browser from 2023 or later.";
  return null;
}

// What the page is for.
const PURPOSE = "Choose a model, type a sentence and press Translate: you see its translation, and which words of the sentence each word of it attended to.";

// Why this page has one thread, or null.
function alone() {
  const isolated = globalThis.crossOriginIsolated;
  if (isolated === undefined || (isolated && typeof SharedArrayBuffer === "undefined")) return "this browser has no memory that threads share";
  if (!isSecureContext) return "the page comes neither over https nor from this machine";
  return isolated ? null : "the server does not send Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp";
}

// A sentence to begin with, by language.
const EXAMPLES = { de: "Ich rufe dich morgen an, wenn ich Zeit habe.", en: "I will call you tomorrow if I have time." };

// Memory that Chromium was seen to take at most: with the first model, and for each byte of a model.
const MEMORY = { first: 250e6, byte: 15 };

const sizeOf = ({ files }) => Object.values(files).reduce((sum, { size }) => sum + size, 0);

// The name of a language, also of a code as locales write it, such as "zh_CN"; or what was given, if it is no code.
function languageOf(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code.replaceAll("_", "-"));
  } catch {
    return code;
  }
}

// From which language into which, if that is known.
const directionOf = ({ languages }) => (languages ?? []).map(languageOf).join(" → ");

class BrowserModels {
  // "given": models and libraries, as `live_folder` writes them; "say": function of a message, and of whether it is of a
  // fault.
  constructor(given, say) {
    this.given = given;
    this.say = say;
    this.asked = new Map();
    this.chosen = [];
    this.loaded = new Set();
    this.fault = "";
    // What is said as long as a sentence is being translated.
    this.progress = "";
    this.shown = null;
    this.number = 0;
    // Boxes with the models that each stands for.
    this.boxes = [];
    this.lacks = missing();
    const directions = [...new Set(given.models.map(directionOf))];
    const groups = directions.map((direction) => this.group(direction, given.models.filter((one) => directionOf(one) === direction)));
    const why = alone();
    this.threads = why ? 1 : Math.min(4, navigator.hardwareConcurrency);
    // The reason is for whoever puts the page on a server.
    const threads = make("span", { title: why }, this.threads === 1 ? "one thread" : `${this.threads} threads`);
    const [purpose, note] = this.lacks ? [make("p", { class: "fault", role: "alert" }, this.lacks), null] : [make("p", {}, PURPOSE),
      make("p", { class: "hint" }, "What you type stays in this browser, which translates by itself, on ", threads, `. A model is loaded when you choose it; the last ${KEPT} sentences are kept.`)];
    this.choice = make("fieldset", { class: "models", disabled: Boolean(this.lacks) }, make("legend", {}, "Models"), purpose, ...groups, note);
  }

  // The models of one direction, and a choice of them all.
  group(direction, models) {
    const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
    const parts = models.map((model) => this.box([model], model.name, model.system.name, megabytes(sizeOf(model))));
    if (models.length > 1) {
      const size = models.reduce((sum, model) => sum + sizeOf(model), 0);
      const memory = ((MEMORY.first + MEMORY.byte * size) / 1e9).toFixed(1);
      parts.unshift(this.box(models, "", `all ${models.length}${direction && `, ${direction}`}`, `${megabytes(size)}, up to ${memory} GB of memory`));
    } else if (direction) parts.unshift(make("span", { class: "hint" }, direction));
    return make("div", { class: "group", role: "group", "aria-label": direction || "Models" }, ...parts);
  }

  box(models, value, name, size) {
    const input = make("input", { type: "checkbox", value });
    this.boxes.push({ input, models });
    input.addEventListener("change", () => {
      const others = this.chosen.filter((one) => !models.includes(one));
      // A sentence is of one language: to choose all models of a direction is to leave those of another.
      this.choose(!input.checked ? others : models.length > 1 ? models : [...others, ...models]);
    });
    return make("label", { class: models.length > 1 ? "all" : null }, input, make("span", {}, name, " ", make("small", {}, size)));
  }

  // Choose these models alone, and load them one after the other, as long as they stay chosen.
  async choose(models) {
    this.chosen = this.given.models.filter((one) => models.includes(one));
    this.fault = "";
    this.mark();
    for (const model of this.chosen) {
      if (this.loaded.has(model.name) || !this.chosen.includes(model)) continue;
      try {
        await this.load(model);
      } catch (error) {
        this.chosen = this.chosen.filter((one) => one !== model);
        this.fault = error.message;
        this.mark();
      }
    }
    this.tell();
  }

  // Hear of which systems the sentence is that is shown.
  show(systems) {
    this.shown = systems;
    this.tell();
  }

  tell() { this.say(this.progress || this.ready(), !this.progress && Boolean(this.fault)); }

  mark() {
    for (const { input, models } of this.boxes) {
      const count = models.filter((one) => this.chosen.includes(one)).length;
      input.checked = count === models.length;
      input.indeterminate = count > 0 && count < models.length;
    }
  }

  // A sentence in the language of what is chosen.
  get example() { return EXAMPLES[(this.chosen[0] ?? this.given.models[0])?.languages?.[0]] ?? ""; }

  // What could not be loaded, which of the chosen models can translate, and whether what is shown is of others.
  ready() {
    const names = (systems) => systems.map(({ name }) => name).join(", ");
    const ready = names(this.chosen.filter(({ name }) => this.loaded.has(name)).map(({ system }) => system));
    const shown = names(this.shown ?? []);
    const others = shown && shown !== names(this.chosen.map(({ system }) => system));
    return [this.fault, ready && `Ready: ${ready}.`, ready && others && `What is shown is by ${shown}: press Translate to renew it.`].filter(Boolean).join(" ");
  }

  async load(model) {
    await this.ask({ kind: "load", model, libraries: this.given.libraries, threads: this.threads });
    this.loaded.add(model.name);
  }

  // The worker gets the policy of this page, as one of its own address would not.
  async worker() {
    const answer = await fetch("live.js", { cache: "no-cache" });
    if (!answer.ok) throw new Error(`live.js cannot be loaded: the server says ${answer.status}.`);
    const worker = new Worker(URL.createObjectURL(new Blob([await answer.text()], { type: "text/javascript" })));
    worker.postMessage({ base: document.baseURI });
    worker.addEventListener("message", ({ data }) => this.hear(data));
    worker.addEventListener("error", ({ message }) => { worker.terminate(); this.end(message); });
    return worker;
  }

  async ask(request) {
    this.started ??= this.worker().catch((error) => {
      this.started = null;
      throw error instanceof TypeError ? new Error("live.js cannot be loaded: is there a network?") : error;
    });
    const worker = await this.started;
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { resolve, reject });
      worker.postMessage({ ...request, id });
    });
  }

  hear({ id, found, error, stopped, loading, bytes, size }) {
    if (loading) {
      this.say(`Loading ${loading}: ${Math.round((100 * bytes) / size)} %`);
      return;
    }
    const { resolve, reject } = this.asked.get(id);
    this.asked.delete(id);
    if (error === undefined) resolve(found);
    else reject(new Error(stopped ? "Stopped." : error));
  }

  // What was asked will not be answered.
  end(message) {
    this.started = null;
    this.loaded.clear();
    for (const { reject } of this.asked.values()) reject(new Error(`The browser has ended what translates: ${message}.`));
    this.asked.clear();
  }

  async stop() {
    this.stopped = true;
    (await this.started)?.postMessage({ stop: true });
  }

  // Translate with one model after the other, during which the choice stays. What the page shows is yielded once there is
  // something, and again at each change; the results of models that have none say in "waiting" why.
  async *examine(sentence, target) {
    this.stopped = false;
    if (!sentence.trim()) throw new Error("The sentence is empty: there is nothing to translate.");
    // It may be clear why none is.
    if (!this.chosen.length) throw new Error([this.fault, "Choose a model first."].filter(Boolean).join(" "));
    this.choice.disabled = true;
    this.progress = "Translating …";
    try {
      yield* this.translate(this.chosen, sentence, target);
    } finally {
      this.progress = "";
      this.choice.disabled = false;
    }
  }

  async *translate(models, sentence, target) {
    const results = models.map(() => null);
    const systems = models.map(({ system }) => system);
    const values = byteValues(...this.given.scale);
    let bytes = new Uint8Array();
    let read = null;
    let fault = null;
    const turn = ({ name }) => ({ waiting: this.loaded.has(name) ? "Not translated yet." : "Not loaded yet." });
    const shown = () => {
      const sentence = { ...read, gold: null, results: results.map((one, i) => one ?? turn(models[i])) };
      return { data: { systems, places: this.given.places, sentences: [sentence] }, weights: { bytes, values } };
    };
    for (const [i, model] of models.entries()) {
      try {
        if (!this.stopped && !this.loaded.has(model.name)) {
          results[i] = { waiting: "Loading …" };
          if (read) yield shown();
          await this.load(model);
        }
        if (this.stopped) throw new Error("Stopped.");
        results[i] = { waiting: "Translating …" };
        if (read) yield shown();
        if (models.length > 1) this.progress = `Translating: ${model.system.name}, ${i + 1} of ${models.length} …`;
        this.tell();
        const { bytes: more, result, ...text } = await this.ask({ kind: "examine", sentence, target, name: model.name, at: bytes.length });
        const all = new Uint8Array(bytes.length + more.length);
        all.set(bytes);
        all.set(more, bytes.length);
        [results[i], read, bytes] = [result, text, all];
      } catch (error) {
        fault ??= error;
        results[i] = { waiting: error.message, fault: !this.stopped };
      }
      if (read) yield shown();
    }
    if (fault) throw fault;
  }
}
