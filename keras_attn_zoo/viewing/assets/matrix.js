// The matrix: a cell for each pair, and small matrices of all layers and heads.

const rgb = (text) => text.split(",").map(Number);

// Weights as a picture of one dot each.
function bitmap({ rows, columns, values }, colours) {
  const canvas = make("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const [from, to] = [rgb(colours.paper), rgb(colours.accent)];
  for (let i = 0; i < values.length; i++) {
    const weight = Math.min(1, values[i]);
    for (let k = 0; k < 3; k++) image.data[4 * i + k] = from[k] + weight * (to[k] - from[k]);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

class Matrix {
  constructor(panel) {
    this.panel = panel;
    this.cells = make("canvas", { class: "cells", tabindex: "0", role: "application" });
    this.rowNames = make("canvas", { class: "row-names", "aria-hidden": "true" });
    this.columnNames = make("canvas", { class: "column-names", "aria-hidden": "true" });
    this.element = make("div", { class: "matrix" }, make("div", { class: "corner" }), this.columnNames, this.rowNames, this.cells);
    this.cells.addEventListener("pointermove", (event) => event.pointerType === "mouse" && panel.point("cell", ...this.cellAt(event)));
    this.cells.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && panel.point(null));
    this.cells.addEventListener("click", (event) => panel.pin("cell", ...this.cellAt(event)));
    this.cells.addEventListener("focus", () => panel.point("cell", ...(this.cursor || [0, 0]), true));
    this.cells.addEventListener("blur", () => panel.point(null));
    this.cells.addEventListener("keydown", (event) => this.key(event));
    for (const [names, side, axis] of [[this.rowNames, "row", 0], [this.columnNames, "column", 1]]) {
      names.addEventListener("pointermove", (event) => event.pointerType === "mouse" && panel.point(side, this.cellAt(event)[axis]));
      names.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && panel.point(null));
      names.addEventListener("click", (event) => panel.pin(side, this.cellAt(event)[axis]));
    }
  }

  show(view) {
    this.view = view;
    this.cursor = null;
    this.picture = null;
    this.cells.setAttribute("aria-label",
      `Weights: ${view.rows} rows, ${view.rowSide.title}, by ${view.columns} columns, ${view.columnSide.title}. Arrow keys move.`);
  }

  // Sizes that fit: cells as large as the panel allows, and never too small to point at.
  measure() {
    const { view } = this;
    const narrow = this.element.clientWidth < 420;
    this.labels = Math.min(narrow ? 84 : 130, 16 + 7 * Math.max(...view.rowLabels.map((label) => label.length)));
    this.heads = Math.min(110, 16 + 7 * Math.max(...view.columnLabels.map((label) => label.length)));
    this.entropyWidth = 46;
    const room = this.element.clientWidth - this.labels - this.entropyWidth - 4;
    this.size = Math.max(12, Math.min(30, Math.floor(room / view.columns)));
  }

  cellAt(event) {
    const box = this.cells.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / this.size);
    const column = Math.floor((event.clientX - box.left) / this.size);
    return [Math.max(0, Math.min(this.view.rows - 1, row)), Math.max(0, Math.min(this.view.columns - 1, column))];
  }

  key(event) {
    const { view } = this;
    const [row, column] = this.cursor || [0, 0];
    const moves = {
      ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, view.columns - 1], PageUp: [0, column], PageDown: [view.rows - 1, column],
    };
    if (event.key in moves) {
      const [r, c] = moves[event.key];
      this.cursor = [Math.max(0, Math.min(view.rows - 1, r)), Math.max(0, Math.min(view.columns - 1, c))];
      this.panel.point("cell", ...this.cursor, true);
    } else if (event.key === "Enter" || event.key === " ") this.panel.pin("cell", ...(this.cursor || [0, 0]));
    else return;
    event.preventDefault();
  }

  draw() {
    const { view, panel } = this;
    const { colours, focus } = panel;
    this.measure();
    const { size } = this;
    const [width, height] = [size * view.columns, size * view.rows];
    this.element.style.gridTemplateColumns = `${this.labels}px ${width + this.entropyWidth}px`;
    if (!this.picture || this.pictureOf !== colours) {
      this.picture = bitmap(view, colours);
      this.pictureOf = colours;
    }
    const row = focus ? (focus.side === "cell" || focus.side === "row" ? focus.index : -1) : -1;
    const column = focus ? (focus.side === "cell" ? focus.column : focus.side === "column" ? focus.index : -1) : -1;
    const context = fitCanvas(this.cells, width + this.entropyWidth, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture, 0, 0, width, height);
    this.drawGrid(context, width, height);
    const most = Math.log(Math.max(2, view.columns));
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    view.entropies.forEach((entropy, i) => {
      context.fillStyle = `rgba(${colours.ink}, 0.25)`;
      context.fillRect(width + 6, i * size + 2, Math.min(1, entropy / most) * (this.entropyWidth - 8), size - 4);
      context.fillStyle = `rgb(${colours.ink})`;
      context.fillText(entropy.toFixed(2), width + 9, (i + 0.5) * size);
    });
    for (const [r, c, sure] of view.gold) this.frame(context, r, c, `rgb(${colours.gold})`, 2, sure ? [] : [4, 3]);
    context.strokeStyle = `rgb(${colours.ink})`;
    context.lineWidth = 1;
    if (row >= 0) context.strokeRect(0.5, row * size + 0.5, width - 1, size - 1);
    if (column >= 0) context.strokeRect(column * size + 0.5, 0.5, size - 1, height - 1);
    if (row >= 0 && column >= 0) this.frame(context, row, column, `rgb(${colours.ink})`, 2.5, []);
    this.drawNames(row, column, width, height);
  }

  frame(context, row, column, colour, thick, dash) {
    const { size } = this;
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.setLineDash(dash);
    context.strokeRect(column * size + thick / 2, row * size + thick / 2, size - thick, size - thick);
    context.setLineDash([]);
  }

  drawGrid(context, width, height) {
    const { view, size } = this;
    context.strokeStyle = `rgba(${this.panel.colours.ink}, ${size < 14 ? 0.06 : 0.14})`;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i <= view.columns; i++) { context.moveTo(i * size + 0.5, 0); context.lineTo(i * size + 0.5, height); }
    for (let i = 0; i <= view.rows; i++) { context.moveTo(0, i * size + 0.5); context.lineTo(width, i * size + 0.5); }
    context.stroke();
  }

  drawNames(row, column, width, height) {
    const { view, size, labels, heads } = this;
    const { colours } = this.panel;
    const font = (strong) => `${strong ? "600 " : ""}${Math.min(13, size - 1)}px system-ui, sans-serif`;
    const rows = fitCanvas(this.rowNames, labels, height);
    const columns = fitCanvas(this.columnNames, width + this.entropyWidth, heads);
    rows.textBaseline = columns.textBaseline = "middle";
    rows.fillStyle = columns.fillStyle = `rgb(${colours.ink})`;
    rows.textAlign = "right";
    view.rowLabels.forEach((label, i) => {
      rows.font = font(i === row);
      rows.fillText(fitText(rows, label, labels - 8), labels - 5, (i + 0.5) * size);
    });
    view.columnLabels.forEach((label, i) => {
      columns.save();
      columns.font = font(i === column);
      columns.translate((i + 0.5) * size, heads - 5);
      columns.rotate(-Math.PI / 2);
      columns.fillText(fitText(columns, label, heads - 8), 0, 0);
      columns.restore();
    });
    columns.font = "10px system-ui, sans-serif";
    columns.fillText("entropy", width + 6, heads - 8);
  }

  reveal() {}
}

function fitText(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

// Every layer and head of a place, small; a click shows one large.
class Overview {
  constructor(panel) {
    this.panel = panel;
    this.element = make("div", { class: "overview" });
  }

  show() { this.stale = true; }

  draw() {
    const { panel } = this;
    if (!this.stale && this.drawnWith === panel.colours) return;
    this.stale = false;
    this.drawnWith = panel.colours;
    const layers = panel.layers();
    const table = make("div", { class: "thumbnails" });
    layers.forEach((layer, l) => {
      const row = make("div", { class: "thumbnail-row" }, make("span", { class: "layer-name" }, panel.choice.beam ? "search" : `layer ${l + 1}`));
      for (let head = 0; head < layer.heads; head++) {
        const picture = bitmap(layer.matrix(head), panel.colours);
        const chosen = () => panel.choose({ layer: panel.choice.beam ? panel.choice.layer : l, head }, "matrix");
        picture.setAttribute("aria-hidden", "true");
        // Of a long sentence a dot may be smaller than the screen's.
        if (Math.max(picture.width, picture.height) > 84) picture.style.imageRendering = "auto";
        row.append(make("button", { type: "button", class: "thumbnail", "aria-label": `layer ${l + 1}, head ${head + 1}`, onclick: chosen },
          picture, make("span", {}, String(head + 1))));
      }
      table.append(row);
    });
    this.element.replaceChildren(make("p", { class: "hint" }, "Rows attend to columns. Choose one to see it large."), table);
  }

  reveal() {}
}
