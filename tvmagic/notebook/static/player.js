// Plays the accesses of a buffer on its grid. All data is here, so no kernel is asked.

class Player {
  constructor(el, data) {
    this.data = data;
    this.count = data.writes.length;
    this.at = 0;
    this.speed = 20;
    this.timer = null;
    const cell = Math.max(3, Math.min(26, Math.floor(460 / Math.max(data.rows, data.columns))));
    this.cell = cell;
    this.canvas = element("canvas", { width: data.columns * cell + 1, height: data.rows * cell + 1, role: "img", "aria-label": `Grid of ${data.name}` });
    this.play = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "\u25b6 Play");
    const step = (label, by) => element("button", { type: "button", "aria-label": by < 0 ? "One access back" : "One access on", onclick: () => this.go(this.at + by) }, label);
    this.slider = element("input", { type: "range", min: "0", max: String(this.count), value: "0", "aria-label": "Accesses done", oninput: () => this.go(+this.slider.value) });
    this.status = element("span", { class: "tm-status", role: "status" });
    const speeds = element("select", { "aria-label": "Accesses a second", onchange: (e) => { this.speed = +e.target.value; } },
      ...[5, 20, 100, 1000].map((n) => element("option", { value: n, ...(n === 20 ? { selected: "" } : {}) }, `${n}/s`)));
    const controls = element("div", { class: "tm-controls" }, this.play, step("\u25c0", -1), step("\u25b6", 1), this.slider, speeds, this.status);
    this.root = element("div", { class: "tvmagic tm-player", role: "group", "aria-label": data.title, "data-lm-suppress-shortcuts": "true", "data-theme": data.theme === "auto" ? null : data.theme, onkeydown: (e) => this.key(e) },
      element("div", { class: "tm-title" }, data.title), controls, this.canvas);
    el.replaceChildren(this.root);
    this.go(0);
  }

  colour(name) { return getComputedStyle(this.root).getPropertyValue(name).trim(); }

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
    const { data } = this;
    const done = this.at ? `${data.writes[this.at - 1] === "w" ? "write" : "read"} ${data.name}[${data.indices[this.at - 1].join(", ")}]` : "before the first";
    this.status.textContent = `${this.at} of ${this.count}${data.complete ? "" : "+"}: ${done}`;
    this.draw();
  }

  draw() {
    const { canvas, cell, data } = this;
    const pen = canvas.getContext("2d");
    pen.fillStyle = this.colour("--tm-bg");
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const age = new Map();
    for (let i = 0; i < this.at; i++) age.set(data.spots[2 * i] * data.columns + data.spots[2 * i + 1], i);
    for (const [spot, i] of age) {
      const [row, column] = [Math.floor(spot / data.columns), spot % data.columns];
      pen.globalAlpha = Math.max(0.15, 1 - (this.at - 1 - i) / Math.max(40, this.count / 4));
      pen.fillStyle = this.colour(data.writes[i] === "w" ? "--tm-accent" : "--tm-used");
      pen.fillRect(column * cell, row * cell, cell, cell);
    }
    pen.globalAlpha = 1;
    if (cell >= 5) {
      pen.strokeStyle = this.colour("--tm-line");
      pen.beginPath();
      for (let r = 0; r <= data.rows; r++) { pen.moveTo(0, r * cell + 0.5); pen.lineTo(canvas.width, r * cell + 0.5); }
      for (let c = 0; c <= data.columns; c++) { pen.moveTo(c * cell + 0.5, 0); pen.lineTo(c * cell + 0.5, canvas.height); }
      pen.stroke();
    }
    if (this.at) {
      pen.strokeStyle = this.colour("--tm-error");
      pen.lineWidth = 2;
      pen.strokeRect(data.spots[2 * this.at - 1] * cell + 1, data.spots[2 * this.at - 2] * cell + 1, cell - 2, cell - 2);
      pen.lineWidth = 1;
    }
  }

  key(event) {
    if (event.target === this.slider || event.ctrlKey || event.metaKey) return;
    const act = { ArrowRight: () => this.go(this.at + 1), ArrowLeft: () => this.go(this.at - 1), Home: () => this.go(0), End: () => this.go(this.count), p: () => this.toggle() }[event.key];
    event.stopPropagation();
    if (act) { event.preventDefault(); act(); }
  }
}

kinds.player = (box, data) => new Player(box, data);
