// Plays the accesses of buffers on their grids. All data is here, so no kernel is asked.

const LEFT = 34, TOP = 16, RIGHT = 12; // room for the numbers of rows and columns
const LOW = 12; // the least height of a grid with few rows of many columns

class Player {
  constructor(el, data) {
    this.data = data;
    this.count = data.writes.length;
    this.at = 0;
    this.speed = 20;
    this.timer = null;
    this.play = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "\u25b6 Play");
    const step = (label, by) => element("button", { type: "button", "aria-label": by < 0 ? "One access back" : "One access on", onclick: () => this.go(this.at + by) }, label);
    this.slider = element("input", { type: "range", min: "0", max: String(this.count), value: "0", "aria-label": "Accesses done", oninput: () => this.go(+this.slider.value) });
    this.status = element("span", { class: "tm-status", role: "status" });
    this.line = element("div", { class: "tm-now" });
    const speeds = element("select", { "aria-label": "Accesses a second", onchange: (e) => { this.speed = +e.target.value; } },
      ...[5, 20, 100, 1000].map((n) => element("option", { value: n, ...(n === 20 ? { selected: "" } : {}) }, `${n}/s`)));
    const controls = element("div", { class: "tm-controls" }, this.play, step("\u25c0", -1), step("\u25b6", 1), this.slider, speeds, this.status);
    const side = data.grids.length > 1 ? 230 : 460;
    this.grids = data.grids.map((grid) => this.grid(grid, side));
    const more = data.complete ? "" : `The first ${this.count} accesses are here; the program goes on after them.`;
    this.root = element("div", { class: "tvmagic tm-player", role: "group", "aria-label": data.title, "data-lm-suppress-shortcuts": "true", "data-theme": data.theme === "auto" ? null : data.theme, onkeydown: (e) => this.key(e) },
      element("div", { class: "tm-title" }, data.title), controls, this.line,
      element("div", { class: "tm-grids" }, ...this.grids.map((g) => g.figure)), element("div", { class: "tm-meta" }, more));
    el.replaceChildren(this.root);
    this.go(0);
    this.watchColours();
  }

  /** Draw again when the page gets other colours, and when the player comes back into the page, which may have others then. */
  watchColours() {
    const player = new WeakRef(this);
    const watch = new MutationObserver(() => {
      if (player.deref()) player.deref().draw();
      else watch.disconnect();
    });
    watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  /** The figure of a buffer: its sizes, what its axes are indexed by, and a canvas. */
  grid(grid, side) {
    const cell = Math.max(3, Math.min(26, Math.floor(side / Math.max(grid.rows, grid.columns))));
    const tall = Math.max(cell, Math.ceil(LOW / grid.rows));
    const canvas = element("canvas", { width: LEFT + grid.columns * cell + RIGHT, height: TOP + grid.rows * tall + 4, role: "img", "aria-label": `Grid of ${grid.name}` });
    const axes = grid.axes.length > 1 ? `down ${grid.axes.slice(0, -1).join(", ")}; right ${grid.axes.at(-1)}` : `right ${grid.axes[0] ?? ""}`;
    const figure = element("figure", { tabindex: "0" }, element("figcaption", {}, element("b", {}, grid.name), ` ${grid.shape.join(" \u00d7 ")}`, element("div", { class: "tm-meta" }, axes)), canvas);
    return { ...grid, cell, tall, canvas, figure };
  }

  /** A colour of the style sheet as it is here: in it are the one for a light and the one for a dark page. */
  colour(name) {
    this.root.style.outlineColor = `var(${name})`; // there is no outline
    return getComputedStyle(this.root).outlineColor;
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.at >= this.count) this.go(0);
    this.play.textContent = "Pause";
    this.play.setAttribute("aria-pressed", "true");
    let last = performance.now();
    const tick = (now) => {
      const due = Math.floor(((now - last) / 1000) * this.speed);
      if (due > 0) { last = now; this.go(this.at + due); }
      if (this.at >= this.count) this.stop();
      else this.timer = requestAnimationFrame(tick);
    };
    this.timer = requestAnimationFrame(tick);
  }

  stop() {
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.play.textContent = "\u25b6 Play";
    this.play.setAttribute("aria-pressed", "false");
  }

  go(to) {
    this.at = Math.max(0, Math.min(this.count, to));
    this.slider.value = String(this.at);
    const { data } = this, last = this.at - 1;
    const done = last >= 0 ? `${data.writes[last] === "w" ? "write" : "read"} ${this.grids[data.which[last]].name}[${data.indices[last].join(", ")}]` : "before the first";
    this.status.textContent = `${this.at} of ${data.complete ? "" : "the first "}${this.count}: ${done}`;
    const [text, loops] = data.statements[data.statement[last]] ?? ["", []];
    this.line.replaceChildren(element("code", {}, text || "\u00a0"), element("div", { class: "tm-meta" }, loops.map((name, n) => `${name} = ${data.loops[last][n]}`).join(", ") || "\u00a0"));
    this.draw();
  }

  draw() {
    if (!this.root.isConnected) return; // it has no colours
    const { data } = this, ages = this.grids.map(() => new Map());
    for (let i = 0; i < this.at; i++) {
      const grid = this.grids[data.which[i]];
      ages[data.which[i]].set(data.spots[2 * i] * grid.columns + data.spots[2 * i + 1], i);
    }
    this.grids.forEach((grid, n) => this.drawGrid(grid, ages[n], this.at && data.which[this.at - 1] === n));
  }

  drawGrid(grid, age, isNow) {
    const { cell, tall, canvas, rows, columns } = grid, { data } = this;
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height); // the ground is the page's
    this.numbers(pen, grid);
    pen.translate(LEFT, TOP);
    for (const [spot, i] of age) {
      const [row, column] = [Math.floor(spot / columns), spot % columns];
      pen.globalAlpha = Math.max(0.15, 1 - (this.at - 1 - i) / Math.max(40, this.count / 4));
      pen.fillStyle = this.colour(data.writes[i] === "w" ? "--tm-accent" : "--tm-used");
      pen.fillRect(column * cell, row * tall, cell, tall);
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = this.colour("--tm-line"); // around all, and around each cell that is large enough
    pen.beginPath();
    for (let r = 0; r <= rows; r += tall >= 5 ? 1 : rows) { pen.moveTo(0, r * tall + 0.5); pen.lineTo(columns * cell, r * tall + 0.5); }
    for (let c = 0; c <= columns; c += cell >= 5 ? 1 : columns) { pen.moveTo(c * cell + 0.5, 0); pen.lineTo(c * cell + 0.5, rows * tall); }
    pen.stroke();
    if (isNow) {
      pen.strokeStyle = this.colour("--tm-error");
      pen.lineWidth = 2;
      pen.strokeRect(data.spots[2 * this.at - 1] * cell + 1, data.spots[2 * this.at - 2] * tall + 1, cell - 2, tall - 2);
      pen.lineWidth = 1;
    }
  }

  /** The numbers of rows and columns: the first, the last, and some between. */
  numbers(pen, { cell, tall, rows, columns }) {
    pen.fillStyle = this.colour("--tm-muted");
    pen.font = "10px system-ui, sans-serif";
    const places = (count, size, room) => {
      const by = Math.max(1, Math.ceil(room / size));
      return [...Array(count).keys()].filter((n) => n % by === 0 && (n === 0 || count - 1 - n >= by) || n === count - 1 && n >= by);
    };
    pen.textAlign = "center";
    for (const c of places(columns, cell, 26)) pen.fillText(c, LEFT + (c + 0.5) * cell, TOP - 4);
    pen.textAlign = "right";
    for (const r of places(rows, tall, 13)) pen.fillText(r, LEFT - 4, TOP + (r + 0.5) * tall + 3);
  }

  key(event) {
    if (event.target === this.slider || event.ctrlKey || event.metaKey) return;
    const act = { ArrowRight: () => this.go(this.at + 1), ArrowLeft: () => this.go(this.at - 1), Home: () => this.go(0), End: () => this.go(this.count), p: () => this.toggle() }[event.key];
    event.stopPropagation();
    if (act) { event.preventDefault(); act(); }
  }
}

kinds.player = (box, data) => new Player(box, data);
