// Tokens in two columns and ribbons between them. Columns of long sentences scroll by themselves, and a ribbon to a
// token out of sight ends at the edge.

const FAINT = 0.04;

class Ribbons {
  // "panel" is told of what is pointed at: panel.point(side, index), panel.pin(side, index).
  constructor(panel) {
    this.panel = panel;
    this.lists = {};
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.element = make("div", { class: "ribbons" });
  }

  show(view) {
    this.view = view;
    this.element.replaceChildren(this.column("column"), make("div", { class: "between" }, this.canvas), this.column("row"));
    for (const list of Object.values(this.lists)) list.addEventListener("scroll", () => this.draw(), { passive: true });
  }

  column(name) {
    const { view, panel } = this;
    const labels = view[`${name}Labels`];
    const most = Math.log(Math.max(2, view.columns));
    const list = make("ul", {
      class: `tokens ${name}s`, role: "listbox", "aria-label": view[`${name}Side`].title, tabindex: "-1",
    });
    labels.forEach((label, i) => {
      const item = make("li", { role: "option", tabindex: i ? "-1" : "0", "aria-selected": "false", title: label, class: [START, END].includes(label) ? "special" : "" },
        make("span", { class: "word", dir: "auto" }, label || "·"));
      if (name === "row") {
        const entropy = view.entropies[i];
        const bar = make("i");
        bar.style.width = `${Math.min(100, (100 * entropy) / most)}%`;
        item.append(make("span", { class: "entropy", title: `entropy ${entropy.toFixed(2)} nats` },
          make("b", {}, entropy.toFixed(2)), make("span", { class: "bar" }, bar)));
      }
      list.append(item);
    });
    const indexOf = (event) => {
      const item = event.target.closest("li");
      return item ? Array.prototype.indexOf.call(list.children, item) : -1;
    };
    list.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse" && indexOf(event) >= 0) panel.point(name, indexOf(event));
    });
    list.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && panel.point(null));
    list.addEventListener("click", (event) => indexOf(event) >= 0 && panel.pin(name, indexOf(event)));
    list.addEventListener("focusin", (event) => indexOf(event) >= 0 && panel.point(name, indexOf(event), true));
    list.addEventListener("focusout", () => panel.point(null));
    list.addEventListener("keydown", (event) => this.key(event, name, indexOf(event)));
    this.lists[name] = list;
    const title = make("h4", {}, view[`${name}Side`].title);
    if (name === "row") title.append(make("small", { title: "in nats: 0 where all weight is on one token" }, "entropy"));
    return make("div", { class: "side" }, title, list);
  }

  key(event, name, index) {
    const other = name === "row" ? "column" : "row";
    const count = this.lists[name].children.length;
    const moves = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: count - 1, PageDown: index + 10, PageUp: index - 10 };
    if (event.key in moves) this.focus(name, Math.max(0, Math.min(count - 1, moves[event.key])));
    else if (event.key === "ArrowLeft" && name === "row" || event.key === "ArrowRight" && name === "column") {
      this.focus(other, this.panel.counterpart(name, index));
    } else if (event.key === "Enter" || event.key === " ") this.panel.pin(name, index);
    else return;
    event.preventDefault();
  }

  focus(name, index) {
    const items = this.lists[name].children;
    for (const item of items) item.tabIndex = -1;
    items[index].tabIndex = 0;
    items[index].focus();
  }

  reveal(name, index) {
    const list = this.lists[name];
    const item = list.children[index];
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = item.offsetTop - list.clientHeight / 2;
    }
  }

  // Shade the tokens and draw the ribbons of what is pointed at.
  draw() {
    const { view, panel } = this;
    const focus = panel.focus;
    for (const name of ["row", "column"]) {
      const items = this.lists[name].children;
      for (let i = 0; i < items.length; i++) {
        const weight = focus && focus.side !== name ? weightOf(view, focus, i) : 0;
        const here = focus !== null && focus.side === name && focus.index === i;
        const style = items[i].style;
        style.background = weight > 0.003 ? `rgba(${panel.colours.accent}, ${Math.min(1, 0.08 + 0.92 * weight)})` : "";
        items[i].classList.toggle("strong", weight > 0.5);
        items[i].classList.toggle("here", here);
        items[i].setAttribute("aria-selected", String(here));
      }
    }
    this.drawRibbons(focus);
  }

  drawRibbons(focus) {
    const { view, canvas } = this;
    const { row, column } = this.lists;
    const width = canvas.parentElement.clientWidth;
    const height = Math.max(row.clientHeight, column.clientHeight);
    const context = fitCanvas(canvas, width, height);
    const middles = (list) => {
      const size = list.children.length ? list.children[0].offsetHeight : 0;
      const top = list.scrollTop;
      const bottom = list.clientHeight;
      return Array.from(list.children, (_, i) => Math.max(0, Math.min(bottom, (i + 0.5) * size - top)));
    };
    // Those to words out of sight all end at the edge: faint, so that they do not look like one strong link there.
    const inSight = (y, list) => y > 0 && y < list.clientHeight;
    const right = middles(row);
    const left = middles(column);
    const thick = Math.max(3, Math.min(14, row.children[0] ? 0.6 * row.children[0].offsetHeight : 3));
    const { accent, gold } = this.panel.colours;
    const ribbon = (r, c, weight, strength) => {
      const seen = inSight(left[c], column) && inSight(right[r], row) ? 1 : 0.3;
      context.strokeStyle = `rgba(${accent}, ${seen * strength * Math.min(1, 0.25 + weight)})`;
      context.lineWidth = Math.max(0.5, weight * thick);
      context.beginPath();
      context.moveTo(0, left[c]);
      context.bezierCurveTo(width / 2, left[c], width / 2, right[r], width, right[r]);
      context.stroke();
    };
    if (focus) {
      for (let r = 0; r < view.rows; r++) {
        if (focus.side === "row" && focus.index !== r) continue;
        for (let c = 0; c < view.columns; c++) {
          if (focus.side === "column" && focus.index !== c) continue;
          const weight = view.values[r * view.columns + c];
          if (weight > 0.003) ribbon(r, c, weight, 0.9);
        }
      }
    } else {
      for (let r = 0; r < view.rows; r++) {
        for (let c = 0; c < view.columns; c++) {
          const weight = view.values[r * view.columns + c];
          if (weight > FAINT) ribbon(r, c, weight, 0.6);
        }
      }
    }
    context.strokeStyle = `rgb(${gold})`;
    context.lineWidth = 1.5;
    for (const [r, c, sure] of view.gold) {
      if (focus && (focus.side === "row" ? focus.index !== r : focus.index !== c)) continue;
      context.setLineDash(sure ? [] : [4, 3]);
      context.beginPath();
      context.moveTo(0, left[c]);
      context.bezierCurveTo(width / 2, left[c], width / 2, right[r], width, right[r]);
      context.stroke();
    }
    context.setLineDash([]);
  }
}

// What a token of the other side has to do with what is pointed at.
function weightOf(view, focus, i) {
  return focus.side === "row" ? view.values[focus.index * view.columns + i] : view.values[i * view.columns + focus.index];
}

// Set a canvas to its size on the screen; return its context, cleared.
function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
