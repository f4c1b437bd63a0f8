// A panel: one system on the sentence, at a place, a layer and a head of its choice.

const VIEWS = { ribbons: "ribbons", matrix: "matrix", overview: "all heads" };

class Panel {
  constructor(page, choice) {
    this.page = page;
    this.choice = { system: 0, path: 1, beam: null, place: "cross", layer: "best", head: "mean", ...choice };
    // The translation that is shown wherever a sentence has it: a given one, unless another is chosen.
    this.wanted = this.choice.path;
    this.focus = null;
    this.pinned = false;
    this.drawings = { ribbons: new Ribbons(this), matrix: new Matrix(this), overview: new Overview(this) };
    this.controls = make("div", { class: "controls" });
    this.caption = make("p", { class: "caption" });
    this.translation = make("p", { class: "translation", dir: "auto" });
    this.body = make("div", { class: "drawing" });
    this.details = make("p", { class: "details", role: "status", "aria-live": "polite" });
    this.title = make("h3");
    this.chooser = make("span");
    this.close = make("button", { type: "button", class: "close quiet", "aria-label": "Close this panel", onclick: () => page.removePanel(this) }, "×");
    this.element = make("section", { class: "panel" },
      make("header", {}, this.title, this.chooser, this.close), this.controls, this.caption, this.translation, this.body, this.details);
    this.element.addEventListener("pointerenter", () => { page.active = this; });
    this.element.addEventListener("focusin", () => { page.active = this; });
  }

  get system() { return this.page.store.systems[this.choice.system]; }
  get sentence() { return this.page.sentence; }
  get result() { return this.sentence.results[this.choice.system]; }
  get colours() { return this.page.colours; }
  get drawing() { return this.drawings[this.page.view]; }

  // Make a choice that the sentence allows.
  settle() {
    const { choice } = this;
    if (choice.path >= this.result.paths.length) choice.path = 0;
    if (choice.beam && (choice.beam[0] >= this.result.steps.length || choice.beamOf !== this.sentence)) choice.beam = null;
    const places = this.places();
    if (!places.includes(choice.place)) choice.place = places[0];
    const layers = this.system.places[choice.place];
    if (choice.layer === "best" && choice.place !== "cross") choice.layer = layers.length > 1 ? layers.length - 1 : 0;
    if (typeof choice.layer === "number" && choice.layer >= layers.length) choice.layer = layers.length - 1;
    if (typeof choice.head === "number" && choice.head >= this.headCount()) choice.head = "mean";
  }

  places() {
    return this.choice.beam ? ["cross"] : Object.keys(this.page.store.places).filter((place) => this.system.places[place]);
  }

  headCount() {
    const { choice, system } = this;
    if (choice.beam) return this.result.steps[0].attention.shape[0];
    const layers = system.places[choice.place];
    const layer = choice.layer === "best" ? system.best : choice.layer;
    return typeof layer === "number" ? layers[layer][1] : Math.min(...layers.map(([, heads]) => heads));
  }

  // Of the overview: heads of each layer, and their matrices.
  layers() {
    const { choice, sentence, result } = this;
    if (choice.beam) {
      const heads = beamMatrices(sentence, result, pathOfBeam(result, ...choice.beam));
      return [{ heads: heads.length, matrix: (head) => heads[head] }];
    }
    return layersOf(result, result.paths[choice.path], choice.place).map((layer) => ({
      heads: layer.shape[0], matrix: (head) => meanMatrix(sentence.weights, [[layer, head]]),
    }));
  }

  choose(change, view) {
    Object.assign(this.choice, change);
    if (change.path !== undefined) this.wanted = change.path;
    if (change.beam) this.choice.beamOf = this.sentence;
    if (change.system !== undefined || change.path !== undefined) this.choice.beam = null;
    if (view) this.page.setView(view);
    else this.update();
    this.page.panelChanged(this);
  }

  update() {
    this.focus = null;
    this.pinned = false;
    this.title.textContent = this.system.name;
    this.close.hidden = this.page.panels.length < 2;
    this.showChooser();
    this.element.classList.toggle("waiting", Boolean(this.result.waiting));
    this.caption.classList.toggle("fault", Boolean(this.result.fault));
    if (this.result.waiting) {
      this.view = null;
      for (const part of [this.controls, this.translation, this.body, this.details]) part.replaceChildren();
      this.caption.textContent = this.result.waiting;
      return;
    }
    this.settle();
    this.view = buildView(this.page.store, this.sentence, this.choice, this.page.level);
    this.showControls();
    this.showCaption();
    this.body.replaceChildren(this.drawing.element);
    this.drawing.show(this.view);
    this.draw();
  }

  // In place of the heading, which stays for paper and for screen readers.
  showChooser() {
    const { systems } = this.page.store;
    if (systems.length < 2) return;
    const focused = this.chooser.contains(document.activeElement);
    const select = makeSelect("System", systems.map((one, i) => [i, one.name]), this.choice.system, (i) => this.choose({ system: Number(i) }));
    select.dataset.control = "system";
    this.chooser.replaceChildren(select);
    this.element.classList.add("several");
    if (focused) select.focus();
  }

  showControls() {
    const { choice, system, page } = this;
    const number = (value) => (/^\d+$/.test(value) ? Number(value) : value);
    const field = (name, label, options, value, read = number) => {
      const select = makeSelect(label, options, value, (chosen) => this.choose(read(chosen)));
      select.dataset.control = name;
      return make("label", {}, make("span", {}, label), select);
    };
    const focused = this.controls.contains(document.activeElement) ? document.activeElement.dataset.control : null;
    const parts = [];
    const paths = this.result.paths.map((path, i) => [i, path.kind === "own" ? "its own" : "given"]);
    if (choice.beam) paths.push(["beam", "beam of the search"]);
    if (paths.length > 1) {
      parts.push(field("path", "Translation", paths, choice.beam ? "beam" : choice.path, (i) => (i === "beam" ? {} : { path: Number(i) })));
    }
    const places = this.places().map((place) => [place, page.store.places[place]]);
    if (places.length > 1) parts.push(field("place", "Attention", places, choice.place, (place) => ({ place, layer: "best", head: "mean" })));
    const layers = system.places[choice.place];
    if (layers.length > 1 && !choice.beam) {
      const options = layers.map((_, i) => [i, String(i + 1)]);
      if (choice.place === "cross") options.unshift(["best", layerName(system)]);
      options.push(["mean", "mean of all"]);
      parts.push(field("layer", "Layer", options, choice.layer, (layer) => ({ layer: number(layer) })));
    }
    const heads = this.headCount();
    if (heads > 1) {
      const options = [["mean", "mean of all"], ...Array.from({ length: heads }, (_, i) => [i, String(i + 1)])];
      parts.push(field("head", "Head", options, choice.head, (head) => ({ head: number(head) })));
    }
    this.controls.replaceChildren(...parts);
    if (focused) this.element.querySelector(`[data-control="${focused}"]`)?.focus();
  }

  showCaption() {
    const { choice, system, view } = this;
    const layers = system.places[choice.place];
    const chosen = choice.layer === "best" ? system.best : choice.layer;
    const some = typeof chosen === "number" ? [layers[chosen]] : layers;
    const parts = [this.page.store.places[choice.place]];
    if (choice.beam) parts.push("as the search saw it");
    else if (layers.length > 1) parts.push(typeof chosen === "number" ? `layer ${chosen + 1} of ${layers.length}` : `mean of ${layers.length} layers`);
    parts.push(choice.head === "mean" ? (this.headCount() > 1 ? `mean of ${this.headCount()} heads` : "one head") : `head ${choice.head + 1}`);
    parts.push([...new Set(some.map(([name]) => name))].join(", "));
    if (!choice.beam && choice.place === "cross" && choice.head === "mean" && chosen in system.aer) parts.push(`AER ${system.aer[chosen]} % on this page`);
    if (some.every(([, , byPosition]) => byPosition)) parts.push("looks at positions, not at words: the same in every sentence");
    this.caption.textContent = parts.join(" · ");
    const sum = view.path.logProbs.reduce((a, b) => a + b, 0);
    this.translation.replaceChildren(view.path.text || "(empty)", make("small", {}, ` log p ${signed(sum)}`));
  }

  // What is pointed at: a "row", a "column" or a "cell"; null for nothing.
  point(side, index, column, force = false) {
    if (typeof column === "boolean") [column, force] = [undefined, column];
    if (this.pinned && !force) return;
    if (force) this.pinned = false;
    const focus = side === null ? null : { side, index, column };
    if (same(focus, this.focus)) return;
    this.focus = focus;
    this.draw();
    if (force && side && side !== "cell") this.revealCounterpart();
    this.page.follow(this, focus);
  }

  pin(side, index, column) {
    const focus = { side, index, column };
    const again = this.pinned && same(this.focus, focus);
    this.pinned = !again;
    this.focus = again ? null : focus;
    this.draw();
    if (!again && side !== "cell") this.revealCounterpart();
    this.page.follow(this, this.focus);
  }

  unpin() {
    this.pinned = false;
    this.point(null);
  }

  // Show what another panel points at, if its words are here too.
  followOf(kind, word) {
    if (this.pinned || !this.view) return;
    let focus = null;
    for (const name of ["row", "column"]) {
      if (kind && this.view[`${name}Side`].kind === kind && !focus) {
        const index = tokenOf(this.view, name, word);
        if (index >= 0 && index < this.view[`${name}Labels`].length) focus = { side: name, index, column: undefined };
      }
    }
    if (same(focus, this.focus)) return;
    this.focus = focus;
    this.draw();
  }

  // The token of the other side that has most to do with one.
  counterpart(side, index) {
    const count = side === "row" ? this.view.columns : this.view.rows;
    let best = 0;
    for (let i = 1; i < count; i++) {
      if (weightOf(this.view, { side, index }, i) > weightOf(this.view, { side, index }, best)) best = i;
    }
    return best;
  }

  revealCounterpart() {
    const { side, index } = this.focus;
    this.drawing.reveal(side === "row" ? "column" : "row", this.counterpart(side, index));
  }

  draw() {
    if (!this.view) return;
    this.drawing.draw();
    this.details.hidden = this.page.view === "overview";
    this.details.replaceChildren(...this.describe());
    this.element.classList.toggle("pinned", this.pinned);
  }

  describe() {
    const { view, focus } = this;
    if (!focus) return [make("span", { class: "hint" }, "Point at a word, tap it, or move with the arrow keys.")];
    const quoted = (label) => make("b", { dir: "auto" }, label);
    if (focus.side === "cell") {
      const weight = view.values[focus.index * view.columns + focus.column];
      return [quoted(view.rowLabels[focus.index]), " attends to ", quoted(view.columnLabels[focus.column]), `: ${percent(weight)}. `, ...this.ofRow(focus.index)];
    }
    const [from, to, says] = focus.side === "row" ? ["row", "column", " attends to "] : ["column", "row", " is attended to by "];
    const labels = view[`${to}Labels`];
    const weights = labels.map((label, i) => [label, weightOf(view, focus, i)]).filter(([, weight]) => weight >= 0.005);
    weights.sort((a, b) => b[1] - a[1]);
    const named = weights.slice(0, 5).flatMap(([label, weight], i) => [i ? ", " : "", quoted(label), ` ${percent(weight)}`]);
    const rest = weights.length > 5 ? ` and ${weights.length - 5} more` : "";
    const what = named.length ? named : ["nothing"];
    return [quoted(view[`${from}Labels`][focus.index]), says, ...what, `${rest}. `, ...(focus.side === "row" ? this.ofRow(focus.index) : [])];
  }

  ofRow(row) {
    const { entropies, probabilities } = this.view;
    const parts = [`Entropy ${entropies[row].toFixed(2)} nats`];
    if (probabilities) parts.push(`probability ${percent(probabilities[row])}`);
    return [`${parts.join(", ")}.`];
  }
}

const signed = (number) => number.toFixed(2).replace("-", "−");

// The layer that is shown first: of the lowest error rate on this page, or else the one that the model aligns by.
function layerName(system) {
  if (system.bestBy === "aer") return `best: ${system.best + 1}, lowest AER`;
  return system.best === "all" ? "alignment layers: mean of all" : `alignment layer: ${system.best + 1}`;
}

function same(a, b) {
  return a === b || (a !== null && b !== null && a.side === b.side && a.index === b.index && a.column === b.column);
}
