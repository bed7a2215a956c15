// The stepper: everything it shows is in `data`, so it asks the kernel for nothing.
// `lines.js`, `memory.js`, `tools.js` and `edit.js` are before it in one function.

const CONTEXT = 3;
const BLOCK = 28; // rows put into the page together: as many as the view shows at once
const NOTES = 8; // notes that a step shows at once; more come as soon as there is time
const WIDE = 1000; // pixels that two programs side by side need, with the list
const LIST = 250; // pixels of the list
const KIN = 1 / 3; // of a text's lines; more relatives than that say nothing
const SLICE = 6; // milliseconds of work before the page may draw again
let serial = 0;

/** A call without the names that its results get: a list has room for the one alone. */
const callOf = (text) => text.replace(/^[^=()"']+=\s*(?=[^=\s])/, "");

class Stepper {
  constructor(root, data, kept = {}) {
    this.data = data = unpackData(data);
    this.id = `tm${++serial}`;
    this.knobs = []; // the names and values of the knobs that the steps are for, where there are some
    const failed = data.steps.findIndex((s) => s.error);
    kept = { ...preferences(), ...kept };
    this.state = {
      step: Math.max(0, data.steps.findIndex((s) => s.changed && s.a !== null)),
      side: true,
      fold: true,
      hide: Boolean(data.hide),
      ...kept,
      ...(failed >= 0 ? { step: failed } : {}), // what somebody looks for is why it failed
      query: "",
      follow: null,
      opened: new Set(),
      at: -1,
    };
    this.fitting = kept.side === undefined; // side by side if there is room, until the user chooses
    this.hits = new Set(); // the lines that hold what is searched for
    this.touched = new Set(); // the steps that hold it, or the followed line
    this.plain = new Map(); // the HTML of lines without marks
    if (!this.step) {
      root.replaceChildren(element("div", { class: "tvmagic tm-stepper tm-none" }, "No pass has run."));
      return;
    }
    this.build(root);
    this.search.value = kept.query ?? "";
    this.find(this.search.value);
    if (!("step" in kept)) this.goToLinked(); // a cell that runs again goes on at its step
    this.listen = new AbortController();
    addEventListener("hashchange", () => this.goToLinked(), { signal: this.listen.signal });
  }

  /** Let go of what the page holds of this stepper; another one takes its place. */
  end() {
    this.restore?.();
    this.listen?.abort();
    this.edits?.end();
    this.size?.disconnect();
  }

  /** What stays when other data come: the same step by its name if there is one, how it is shown, the search. */
  kept(data) {
    const { side, fold, hide, query } = this.state;
    const named = ({ steps }, name) => steps.map((_, i) => i).filter((i) => steps[i].name === name);
    const mine = this.step ? named(this.data, this.step.name) : [];
    const others = this.step ? named(data, this.step.name) : [];
    const step = others[Math.min(mine.indexOf(this.state.step), others.length - 1)];
    return { fold, hide, query, ...(this.fitting ? {} : { side }), ...(step === undefined ? {} : { step }) };
  }

  /** Go to the step and the line that the address names, if it speaks of this stepper. */
  goToLinked() {
    const link = linkedTo(this.data.key, this.root);
    if (!link || !this.data.steps[link.step - 1]) return;
    this.go(link.step - 1);
    const row = link.line ? unpack(this.step).findIndex(({ a, b }) => (this.step.a === null ? a : b) === link.line - 1) : -1;
    if (row >= 0) this.put(row);
    this.root.scrollIntoView({ block: "start" });
  }

  // ---- frame

  build(root) {
    const [before, after] = this.data.sides ?? ["before", "after"];
    const button = (label, title, onclick, pressed) =>
      element("button", { type: "button", title, onclick, "aria-pressed": pressed === undefined ? null : String(pressed) }, label);
    this.prev = button("\u25c0 Previous", "Previous pass (left arrow or k)", () => this.move(-1));
    this.next = button("Next \u25b6", "Next pass (right arrow or j)", () => this.move(1));
    this.count = element("span", { class: "tm-count", "aria-live": "polite" });
    this.search = element("input", {
      type: "search", placeholder: "Search passes", title: "Search in all passes (/)", "aria-label": "Search in all passes",
      oninput: () => this.find(this.search.value), onkeydown: (e) => this.searchKey(e),
    });
    this.foundBox = element("span", { class: "tm-count", role: "status" });
    this.sideButton = button("Side by side", "Before and after side by side, or in one column (s)", () => this.toggle("side"), this.state.side);
    this.foldButton = button("Fold unchanged", "Fold the unchanged parts (f)", () => this.toggle("fold"), this.state.fold);
    this.hideButton = button("Hide no-ops", "Hide passes that changed nothing (h)", () => this.toggle("hide"), this.state.hide);
    const bar = element("div", { class: "tm-bar", role: "toolbar", "aria-label": "Stepper" },
      this.prev, this.next, this.count, this.search, this.foundBox, this.sideButton, this.foldButton, this.hideButton);
    this.list = element("ol", { class: "tm-list", role: "listbox", tabindex: "0", "aria-label": "Passes", id: `${this.id}-list` });
    this.list.addEventListener("click", (e) => {
      const item = e.target.closest("li");
      if (item) this.go(+item.dataset.step);
    });
    this.head = element("div", { class: "tm-head" });
    this.said = element("span", { class: "tm-meta", role: "status" });
    this.copyBefore = button(`Copy ${before}`, `Copy the program ${this.data.sides ? "of " : ""}${before}${this.data.sides ? "" : " this step"}`, () => this.copy("before", this.lines(this.step.b).join("\n")));
    this.copyAfter = button(`Copy ${after}`, `Copy the program ${this.data.sides ? "of " : ""}${after}${this.data.sides ? "" : " this step"}`, () => this.copy("after", this.lines(this.step.a).join("\n")));
    this.copyDiff = button("Copy diff", "Copy what this step changed, as diff -u writes it", () => this.copy("diff", this.diff()));
    this.edits = new Edits(this);
    this.tools = element("div", { class: "tm-tools", role: "toolbar", "aria-label": "This step" }, this.said, this.edits.button, this.copyBefore, this.copyAfter, this.copyDiff,
      button("Download", "Save the program after this step as a file", () => this.download()),
      button("Link", "Copy the address of this step and line", () => this.copy("link", addressOf(this.data.key, this.state.step + 1, this.lineNumber(), this.knobs))),
      this.large = button("Maximise", "As large as the window (m)", () => this.maximise(), false));
    this.view = element("div", { class: "tm-view", tabindex: "0", role: "group", "aria-label": "Program before and after" });
    this.view.addEventListener("click", (e) => this.clickLine(e));
    this.view.addEventListener("copy", (e) => this.copySelected(e));
    this.view.addEventListener("mousedown", (e) => this.selectIn(e));
    this.view.addEventListener("mousemove", (e) => this.explain(e));
    this.view.addEventListener("mouseleave", () => this.explain(null));
    this.hint = element("div", { class: "tm-hint", "aria-hidden": "true", hidden: true });
    this.followBox = element("div", { class: "tm-follow", role: "status" });
    this.notes = element("div", { class: "tm-notes" });
    this.source = element("div");
    const help = element("p", { class: "tm-help" });
    help.innerHTML =
      "<kbd>\u2190</kbd> <kbd>\u2192</kbd> or <kbd>k</kbd> <kbd>j</kbd> pass, <kbd>\u2191</kbd> <kbd>\u2193</kbd> change, " +
      "<kbd>Alt</kbd>+<kbd>\u2191</kbd> <kbd>\u2193</kbd> line, <kbd>Enter</kbd> or a click follows a line, <kbd>/</kbd> search, <kbd>m</kbd> maximise, <kbd>Esc</kbd> lets go";
    const single = this.data.steps.length === 1; // then it is a comparison: no list, nothing to step through
    const main = element("div", { class: "tm-main" }, this.head, this.tools, this.edits.box, this.view, this.followBox, this.notes, this.source, single ? null : help);
    this.root = element("div", {
      class: `tvmagic tm-stepper${single ? " tm-single" : ""}${this.data.sides ? " tm-sides" : ""}`, role: "group", "aria-label": `Passes of ${this.data.title || "a program"}`,
      "data-lm-suppress-shortcuts": "true", "data-theme": this.data.theme === "auto" ? null : this.data.theme, onkeydown: (e) => this.key(e),
    }, single ? null : bar, element("div", { class: "tm-body" }, single ? null : this.list, main), this.hint);
    root.replaceChildren(this.root);
    this.size = new ResizeObserver(() => {
      const wide = this.root.clientWidth >= (single ? WIDE - LIST : WIDE);
      if (this.root.clientWidth && this.fitting && wide !== this.state.side) this.setSide(wide);
    });
    this.size.observe(this.root);
  }

  get step() { return this.data.steps[this.state.step]; }

  visible() {
    return this.data.steps.map((_, i) => i).filter((i) => !this.state.hide || this.data.steps[i].changed || this.data.steps[i].error || i === this.state.step);
  }

  move(by) {
    const order = this.visible();
    const place = order.indexOf(this.state.step) + by;
    if (place >= 0 && place < order.length) this.go(order[place]);
  }

  go(step) {
    if (step === this.state.step) return;
    Object.assign(this.state, { step, at: -1 });
    this.state.opened.clear();
    this.renderStep();
    if (this.list.querySelector(`#${this.id}-o${step}`)) this.select();
    else this.renderList();
  }

  setSide(side) {
    this.state.side = side;
    this.sideButton.setAttribute("aria-pressed", String(side));
    this.renderStep();
  }

  toggle(name) {
    if (name === "side") this.fitting = false;
    this.state[name] = !this.state[name];
    prefer(name, this.state[name]);
    this[`${name}Button`].setAttribute("aria-pressed", String(this.state[name]));
    this.state.opened.clear();
    this.renderStep();
    if (name === "hide") this.renderList();
  }

  // ---- list of passes

  renderList() {
    const { steps } = this.data;
    const items = this.visible().map((i) => {
      const s = steps[i];
      const chosen = i === this.state.step;
      const classes = [s.changed || s.error ? "" : "tm-noop", s.error ? "tm-failed" : "", s.kind === "schedule" ? "tm-schedule" : "", this.touched.has(i) ? "tm-has" : ""];
      const change = s.error ? "failed" : s.changed ? `+${s.added} \u2212${s.removed}` : "no change";
      const counts = s.error ? ["failed"] : s.changed ? [s.added ? element("span", { class: "tm-plus" }, `+${s.added}`) : null, s.removed ? element("span", { class: "tm-minus" }, `\u2212${s.removed}`) : null] : [element("span", { "aria-hidden": "true" }, "\u00b7"), element("span", { class: "tm-sr" }, "no change")];
      const sign = s.error ? "\u2715" : /^[\u2713\u2261?\u2715=~Rx] /.test(s.mark || "") ? s.mark[0] : s.changed ? "\u25cf" : "\u25cb";
      const has = this.touched.has(i) ? element("span", { class: "tm-sr" }, this.state.follow ? " (the followed line is here)" : " (found here)") : null;
      const item = element("li", { role: "option", id: `${this.id}-o${i}`, "data-step": i, "aria-selected": String(chosen), class: classes.join(" "), title: `${i + 1}. ${s.name}: ${s.time}, ${change}${s.mark ? ", " + s.mark : ""}` },
        element("span", { "aria-hidden": "true" }, sign), element("span", { class: "tm-label" }, s.kind === "schedule" ? callOf(s.name) : s.name, has), element("span", { class: "tm-counts" }, ...counts), element("span", { class: "tm-where" }, s.time));
      return item;
    });
    this.list.replaceChildren(...items);
    this.list.style.setProperty("--count", items.length);
    this.select();
  }

  /** Mark the present step in the list, and bring it into sight. */
  select() {
    const { steps } = this.data;
    this.list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    const chosen = this.list.querySelector(`#${this.id}-o${this.state.step}`);
    chosen?.setAttribute("aria-selected", "true");
    this.list.setAttribute("aria-activedescendant", `${this.id}-o${this.state.step}`);
    if (chosen && this.list.clientHeight) {
      const top = chosen.offsetTop - this.list.offsetTop;
      if (top < this.list.scrollTop || top + chosen.offsetHeight > this.list.scrollTop + this.list.clientHeight)
        this.list.scrollTop = top - this.list.clientHeight / 2;
    }
    const order = this.visible();
    this.count.textContent = `step ${this.state.step + 1} of ${steps.length}`;
    this.prev.disabled = order[0] === this.state.step;
    this.next.disabled = order.at(-1) === this.state.step;
  }

  /** Show what is followed or searched for: in the program, the cell and the list. */
  renderMarks() {
    const holds = this.state.follow ? (text) => text.l.some((_, k) => this.hit(text, k)) : (text) => this.found(text);
    this.touched = new Set(this.stepsWhere(holds));
    this.renderStep();
    this.renderFollow();
    this.renderSource();
    this.renderList();
  }

  /** The numbers of the steps that made a text of which `holds` is true. */
  stepsWhere(holds) {
    const texts = this.data.texts.map(holds);
    return this.data.steps.map((_, i) => i).filter((i) => texts[this.data.steps[i].a ?? -1]);
  }

  /** Whether a text holds what is searched for. */
  found(text) {
    return this.hits.size > 0 && text.l.some((id) => this.hits.has(id));
  }

  // ---- the program

  renderStep() {
    this.edits.show();
    const { step } = this;
    this.head.replaceChildren(
      element("h4", { class: "tm-title" }, `${this.state.step + 1}. ${step.name}`),
      element("span", { class: "tm-meta" }, [step.time, step.error ? "failed" : this.changeText(step), step.options, step.place].filter(Boolean).join(" \u00b7 ")));
    if (step.mark) this.head.append(element("span", { class: verdict(step) }, step.mark));
    if (step.error) this.head.append(element("div", { class: "tm-error", role: "alert" }, ...sentence(step.error)));
    this.copyBefore.disabled = step.b === null;
    this.copyAfter.disabled = step.a === null;
    this.copyDiff.disabled = !this.comparable(step) || !step.changed;
    this.said.textContent = "";
    this.renderProgram(step);
    this.renderNotes(step);
    const followed = this.state.follow ? unpack(step).findIndex((row) => this.rowHit(step, row)) : -1;
    if (followed >= 0) this.reveal(followed);
    else if (this.state.at < 0) this.view.scrollTop = 0;
  }

  changeText(step) {
    if (this.data.sides) return step.changed ? `${plural(step.removed, "line")} of ${this.data.sides[0]} alone, ${step.added} of ${this.data.sides[1]}` : "the same program";
    return step.changed ? `${plural(step.added, "line")} added, ${step.removed} removed` : "changed nothing";
  }

  /** Whether a step has something on both sides. */
  comparable(step) {
    return step.a !== null && unpack(step).some((row) => row.a !== null);
  }

  /** The rows as [from, to, folded]: one by one where they are shown, as one where they are folded. */
  items(step) {
    const rows = unpack(step);
    const near = rows.map(() => !this.state.fold || !step.changed);
    if (this.state.fold && step.changed)
      rows.forEach((row, i) => { if (isChange(row) || this.rowHit(step, row)) near.fill(true, Math.max(0, i - CONTEXT), i + CONTEXT + 1); });
    for (const i of this.state.opened) near[i] = true;
    const items = [];
    for (let i = 0, end = 0; i < rows.length; i = end) {
      while (end < rows.length && !near[end]) end++;
      if (end - i >= 3) items.push([i, end, true]);
      else for (end = Math.max(end, i + 1); i < end; i++) items.push([i, i + 1, false]);
    }
    return items;
  }

  /** Put the program into the page: at once the block that is seen first, the others as soon as there is time. */
  renderProgram(step) {
    const both = this.comparable(step);
    const side = this.state.side && both;
    const [before, after] = this.data.sides?.map(esc) ?? ["Before", "After"];
    const together = this.data.sides ? `${before} (\u2212) and ${after} (+)` : "Before (\u2212) and after (+)";
    const heads = side ? [before, after] : [both ? together : step.a === null ? before : after];
    const items = this.items(step);
    this.blocks = [];
    for (let k = 0; k < items.length; k += BLOCK) this.blocks.push({ items: items.slice(k, k + BLOCK), full: false });
    this.view.className = `tm-view tm-code ${side ? "tm-side" : "tm-stacked"}`;
    this.view.innerHTML = `<div class="tm-diff">${heads.map((h) => `<div class="tm-colhead">${h}</div>`).join("")}`
      + this.blocks.map((block) => `<div class="tm-block" style="--rows:${block.items.length}"></div>`).join("") + "</div>";
    this.view.querySelectorAll(".tm-block").forEach((node, k) => { this.blocks[k].node = node; });
    if (this.blocks.length) this.fill(this.blocks[0]);
    this.fillRest(this.blocks);
  }

  fill(block) {
    if (block.full) return;
    block.full = true;
    const side = this.view.classList.contains("tm-side");
    const rows = unpack(this.step);
    block.node.innerHTML = block.items.map(([from, to, folded]) => folded
      ? `<div class="tm-foldrow"><button type="button" data-lm-suppress-shortcuts="true" data-from="${from}" data-to="${to}">\u22ef ${to - from} unchanged lines</button></div>`
      : this.rowHtml(this.step, rows[from], from, side)).join("");
  }

  /** Fill the other blocks, a few at a time, unless another program has come meanwhile. */
  fillRest(blocks) {
    const rest = blocks.filter((block) => !block.full);
    if (rest.length) setTimeout(() => {
      if (blocks !== this.blocks) return;
      const end = performance.now() + SLICE;
      while (rest.length && performance.now() < end) this.fill(rest.shift());
      this.fillRest(blocks);
    });
  }

  rowHit(step, row) {
    if (!this.state.follow) return false;
    const [before, after] = [this.data.texts[step.b ?? -1], this.data.texts[step.a ?? -1]];
    return (row.a !== null && before && this.hit(before, row.a)) || (row.b !== null && after && this.hit(after, row.b));
  }

  rowHtml(step, row, number, side) {
    const changed = row.kind === "~";
    if (side) return this.cell(step, "b", row.a, changed || row.kind === "-" ? "removed" : "", row.am, number) + this.cell(step, "a", row.b, changed || row.kind === "+" ? "added" : "", row.bm, number);
    if (changed) return this.cell(step, "b", row.a, "removed", row.am, number) + this.cell(step, "a", row.b, "added", row.bm, number);
    if (row.b !== null && step.a !== null) return this.cell(step, "a", row.b, row.kind === "+" ? "added" : "", null, number);
    return this.cell(step, "b", row.a, row.kind === "-" ? "removed" : "", null, number);
  }

  cell(step, which, line, kind, marks, number) {
    const right = which === "a" ? " tm-right" : "";
    if (line === null || line === undefined) return `<div class="tm-cell tm-blank${right}"></div>`;
    const text = this.data.texts[step[which]];
    const id = text.l[line];
    const indent = Math.min(24, this.data.lines[id].search(/\S|$/) + 4);
    const glow = this.hit(text, line) ? " tm-hit" : this.kin(text, line) ? " tm-kin" : "";
    const at = this.state.at === number ? " tm-at" : "";
    const sign = kind === "added" ? "+" : kind === "removed" ? "\u2212" : " ";
    const html = `<span class="tm-text">${this.line(id, marks, kind === "removed" ? "del" : "ins")}</span>`;
    return `<div class="tm-cell${right}${kind ? " tm-" + kind : ""}${glow}${at}" data-text="${step[which]}" data-line="${line}" data-row="${number}" style="--in:${indent}ch"><span class="tm-no">${line + 1}</span><span class="tm-gut">${sign}</span>${html}</div>`;
  }

  /** The HTML of a line; that of a line without marks is made once. */
  line(id, marks, tag) {
    const query = this.hits.has(id) ? this.state.query.toLowerCase() : "";
    if (marks?.length || query) return lineHtml(this.data.lines[id], this.data.tokens[id], marks, tag, query);
    if (!this.plain.has(id)) this.plain.set(id, lineHtml(this.data.lines[id], this.data.tokens[id]));
    return this.plain.get(id);
  }

  /** Scroll to a row; its block and those that touch it are filled before. */
  reveal(row) {
    const k = this.blocks.findIndex(({ items }) => row < items.at(-1)[1]);
    this.blocks.slice(Math.max(0, k - 1), k + 2).forEach((block) => this.fill(block));
    const node = this.view.querySelector(`[data-row="${row}"]`);
    if (!node) return;
    const [box, mine] = [this.view.getBoundingClientRect(), node.getBoundingClientRect()];
    if (mine.top < box.top + 24 || mine.bottom > box.bottom) this.view.scrollTop += mine.top - box.top - box.height / 3;
  }

  // ---- notes and the cell

  renderNotes(step) {
    if (step === this.noted) return;
    this.noted = step;
    const many = step.notes.reduce((sum, note) => sum + note.rows.length, 0) > NOTES;
    this.notes.replaceChildren();
    if (many) setTimeout(() => { if (step === this.step) this.fillNotes(step); });
    else this.fillNotes(step);
  }

  fillNotes(step) {
    this.notes.replaceChildren(...step.notes.map((note) => {
      if (note.svg) {
        const picture = element("div", { class: "tm-picture" });
        picture.innerHTML = note.svg; // drawn by us, with names escaped
        return picture;
      }
      if (note.fold) return element("details", { class: "tm-phase" }, element("summary", {}, note.fold), noteTable(note.columns, note.rows));
      if (note.rows.length > 1 && note.columns.length) {
        const alike = new Set(note.texts).size === 1;
        const head = alike ? note.columns : [note.topic, ...note.columns];
        const table = noteTable(head, note.rows.map((row, i) => (alike ? row : [note.texts[i], ...row])));
        return alike ? element("div", {}, element("div", {}, ...sentence(note.texts[0])), table) : table;
      }
      return element("ul", {}, ...note.texts.map((text, i) => {
        const facts = note.columns.map((c, k) => `${c}: ${note.rows[i][k]}`).join("; ");
        return element("li", {}, ...sentence(text), facts ? element("span", { class: "tm-meta" }, ...sentence(` (${facts})`)) : null);
      }));
    }));
  }

  renderSource() {
    const names = Object.keys(this.data.sources);
    if (!names.length) { this.source.replaceChildren(); return; }
    const lit = new Set(this.state.follow ? this.state.follow.places : []);
    const details = element("details", { class: "tm-cellsrc" }, element("summary", { onclick: () => { this.cellsOpen = !details.open; } }, names.length === 1 ? "The cell" : "The cells"));
    details.open = this.cellsOpen || lit.size > 0;
    for (const name of names) {
      const box = element("div", { class: "tm-scroll tm-code", tabindex: "0", role: "group", "aria-label": `Text of ${name}: up and down go to a line, Enter follows it`, onkeydown: (e) => this.cellKey(e) });
      this.data.sources[name].forEach((line, i) => {
        const row = element("div", { class: `tm-row${lit.has(`${name}\n${i + 1}`) ? " tm-hit" : ""}` });
        row.innerHTML = `<span class="tm-no">${i + 1} </span>${lineHtml(line, this.data.sourceTokens[name]?.[i], null, "ins", this.state.query.toLowerCase())}`;
        row.addEventListener("click", () => this.followPlace(name, i + 1));
        box.append(row);
      });
      details.append(element("div", { class: "tm-meta" }, name), box);
    }
    this.source.replaceChildren(details);
  }

  /** Keys in the text of a cell: up and down go to a line, Enter follows it. */
  cellKey(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by && event.key !== "Enter") return;
    const box = event.currentTarget;
    const rows = [...box.children];
    const at = rows.findIndex((row) => row.classList.contains("tm-at"));
    event.preventDefault();
    event.stopPropagation();
    if (by) {
      rows[at]?.classList.remove("tm-at");
      rows[Math.max(0, Math.min(rows.length - 1, at + by))].classList.add("tm-at");
    } else if (at >= 0) {
      const label = box.getAttribute("aria-label");
      rows[at].click();
      const again = [...this.source.querySelectorAll(".tm-scroll")].find((other) => other.getAttribute("aria-label") === label);
      again.children[at].classList.add("tm-at");
      again.focus();
    }
  }

  // ---- following a line

  places(text, line) {
    return (this.data.origins[text.o[line]] || []).map(([source, at]) => `${source}\n${at}`);
  }

  hit(text, line) {
    const f = this.state.follow;
    if (!f) return false;
    if (text.h[line] >= 0 && f.family[text.h[line]]) return true;
    if (f.text === text && f.line === line) return true;
    return f.strong && f.origins.has(text.o[line]);
  }

  /** Whether a line comes from the same line of the cell; said only in texts where that tells some lines from others. */
  kin(text, line) {
    const f = this.state.follow;
    if (!f || !f.origins.has(text.o[line])) return false;
    if (!f.telling.has(text)) f.telling.set(text, text.o.filter((o) => f.origins.has(o)).length <= KIN * text.o.length);
    return f.telling.get(text);
  }

  /**
   * For each group of threads whether a line of it is hit when a line of `group` is followed: if one of its threads is one of
   * the line's, comes from it, or is what it comes from. Copies of one line are not relatives.
   */
  family(group) {
    const { groups, parents } = this.data;
    const made = parents.map(() => []);
    parents.forEach((above, k) => above.forEach((p) => made[p].push(k)));
    const own = group < 0 ? [] : groups[group].filter((t) => t >= 0);
    const family = new Set([...reached(own, parents), ...reached(own, made)]);
    return groups.map((threads) => threads.some((t) => family.has(t < 0 ? ~t : t)));
  }

  /** For each group of threads whether one of them is among `own` or comes from one. */
  whatBecameOf(own) {
    const made = this.data.parents.map(() => []);
    this.data.parents.forEach((above, k) => above.forEach((p) => made[p].push(k)));
    const family = reached(own, made);
    return this.data.groups.map((threads) => threads.some((t) => family.has(t < 0 ? ~t : t)));
  }

  follow(textNumber, line) {
    const text = this.data.texts[textNumber];
    const f = this.state.follow;
    if (f && f.text === text && f.line === line) this.letGo();
    else this.followFrom({ text, line, thread: text.h[line], places: this.places(text, line), strong: false });
  }

  /** From a line of a cell: to the step of the call that is there, if one is, and to all that comes from the line. */
  followPlace(source, line) {
    const call = this.data.steps.findIndex((step) => step.kind === "schedule" && step.place === `${source}, line ${line}`);
    if (call >= 0) this.go(call);
    this.followFrom({ text: null, line: -1, thread: -1, made: this.madeAt(source, line), places: [`${source}\n${line}`], strong: true });
  }

  /** The threads of the loops and statements that the calls on a line of a cell made. */
  madeAt(source, line) {
    const members = (text) => this.data.texts[text].h.flatMap((group) => (group < 0 ? [] : this.data.groups[group].filter((t) => t >= 0)));
    const calls = this.data.steps.filter((step) => step.kind === "schedule" && step.place === `${source}, line ${line}` && step.b !== null && step.a !== null);
    return calls.flatMap((step) => {
      const before = new Set(members(step.b));
      return members(step.a).filter((t) => !before.has(t));
    });
  }

  followFrom(follow) {
    const among = ([source, at]) => follow.places.includes(`${source}\n${at}`);
    follow.family = follow.made?.length ? this.whatBecameOf(follow.made) : this.family(follow.thread);
    follow.telling = new Map();
    follow.origins = new Set(this.data.origins.map((_, k) => k).filter((k) => k && this.data.origins[k].some(among)));
    this.state.follow = follow;
    this.renderMarks();
  }

  letGo() {
    Object.assign(this.state, { follow: null, at: -1 });
    this.renderMarks();
  }

  renderFollow() {
    const f = this.state.follow;
    if (!f) { this.followBox.replaceChildren(); this.followBox.hidden = true; return; }
    this.followBox.hidden = false;
    const steps = [...this.touched];
    const words = [];
    if (f.text) words.push("Following ", element("code", {}, this.data.lines[f.text.l[f.line]].trim()), ": ");
    const call = f.strong ? this.data.steps.findIndex((step) => step.kind === "schedule" && f.places.includes(step.place.replace(", line ", "\n"))) : -1;
    if (call >= 0) words.push(`the call of step ${call + 1}`);
    if (steps.length || call < 0) words.push(`${call >= 0 ? "; " : ""}in ${plural(steps.length, "step")} of ${this.data.steps.length}`);
    if (steps.length) words.push(`, first in ${this.data.steps[steps[0]].name}`);
    for (const place of f.places.slice(0, 3)) {
      const [source, at] = place.split("\n");
      const line = this.data.sources[source]?.[+at - 1];
      words.push(f.places[0] === place ? "; from " : ", ", `${source}, line ${at}`, ...(line ? [": ", element("code", {}, line.trim())] : []));
    }
    const text = f.text ? this.data.lines[f.text.l[f.line]] : "";
    const known = [...new Set(wordsIn(text, this.data.words).map(({ word }) => word))];
    const glossary = known.map((word) => element("div", { class: "tm-meta" }, element("b", {}, word), ": ", ...sentence(this.data.words[word])));
    this.followBox.replaceChildren(...words, ...glossary);
  }

  clickLine(event) {
    const fold = event.target.closest("button[data-from]");
    if (fold) {
      this.open(+fold.dataset.from, +fold.dataset.to);
      this.view.focus({ preventScroll: true });
      return;
    }
    const cell = event.target.closest(".tm-cell[data-line]");
    if (cell && !String(document.getSelection())) { this.state.at = +cell.dataset.row; this.follow(+cell.dataset.text, +cell.dataset.line); }
  }

  // ---- what is taken out of the page

  /** The lines of a text. */
  lines(text) {
    return text === null ? [] : this.data.texts[text].l.map((id) => this.data.lines[id]);
  }

  diff() {
    return unifiedDiff(unpack(this.step), this.lines(this.step.b), this.lines(this.step.a), this.step.name);
  }

  /** The number from 1, in the text after the step, of the line that is marked, or of the next if that is gone; 0 if there is none. */
  lineNumber() {
    const side = this.step.a === null ? "a" : "b";
    const row = this.state.at < 0 ? null : unpack(this.step).slice(this.state.at).find((row) => row[side] !== null);
    return row ? row[side] + 1 : 0;
  }

  async copy(what, text) {
    await copyText(text);
    this.said.textContent = what === "link" ? "link copied" : `${what} copied: ${plural(text.split("\n").length - (what === "diff"), "line")}`;
  }

  download() {
    const { a, b, name } = this.step;
    const { language } = this.data.texts[a ?? b];
    const ending = { asm: "s", llvm: "ll", tvmscript: "py", python: "py" }[language] ?? "txt";
    const file = `${this.data.title}-${this.state.step + 1}-${name}`.replace(/[^\w.-]+/g, "_").slice(0, 80);
    saveText(`${file}.${ending}`, `${this.lines(a ?? b).join("\n")}\n`);
    this.said.textContent = `saved as ${file}.${ending}`;
  }

  maximise() {
    if (this.restore) return this.restore();
    const { scrollTop } = this.view;
    this.restore = maximise(this.root, () => {
      this.restore = null;
      this.large.setAttribute("aria-pressed", "false");
      this.view.focus();
    });
    this.large.setAttribute("aria-pressed", "true");
    this.view.scrollTop = scrollTop;
    this.view.focus();
  }

  copySelected(event) {
    const selection = document.getSelection();
    const text = selection.rangeCount ? selectedText(this.view, selection) : null;
    if (text === null) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  }

  /** A selection stays in the column in which it begins. */
  selectIn(event) {
    const cell = event.target.closest(".tm-cell");
    this.view.classList.toggle("tm-from-right", Boolean(cell?.classList.contains("tm-right")));
    this.view.classList.toggle("tm-from-left", Boolean(cell && !cell.classList.contains("tm-right")));
  }

  // ---- words

  /** Say what the word under the pointer means, if it is one of the compiler's. */
  explain(event) {
    const word = event && event.buttons === 0 && event.target.closest(".tm-text") ? wordAt(event.clientX, event.clientY, this.data.words) : null;
    this.hint.hidden = !word;
    if (!word || this.hint.dataset.word === word) { if (word) this.placeHint(event); return; }
    this.hint.dataset.word = word;
    this.hint.replaceChildren(element("b", {}, word), `: `, ...sentence(this.data.words[word]));
    this.placeHint(event);
  }

  placeHint(event) {
    const box = this.root.getBoundingClientRect();
    this.hint.style.left = `${Math.max(4, Math.min(event.clientX - box.left, box.width - 330))}px`;
    this.hint.style.top = `${event.clientY - box.top + 18}px`;
  }

  // ---- search

  find(query) {
    this.state.query = query.trim();
    const needle = this.state.query.toLowerCase();
    this.hits = new Set(needle ? this.data.lines.map((_, i) => i).filter((i) => this.data.lines[i].toLowerCase().includes(needle)) : []);
    const steps = (this.searchSteps = this.stepsWhere((text) => this.found(text)));
    this.foundBox.textContent = !needle ? "" : steps.length ? `in ${plural(steps.length, "step")}; first: ${this.data.steps[steps[0]].name}` : "nowhere";
    this.renderMarks();
  }

  searchKey(event) {
    if (event.key === "Enter" && this.searchSteps?.length) {
      const later = event.shiftKey ? this.searchSteps.filter((i) => i < this.state.step).at(-1) : this.searchSteps.find((i) => i > this.state.step);
      const target = this.searchFresh !== this.state.query ? this.searchSteps[0] : later ?? this.searchSteps[event.shiftKey ? this.searchSteps.length - 1 : 0];
      this.searchFresh = this.state.query;
      this.go(target);
      const text = this.data.texts[this.step.a];
      const row = unpack(this.step).findIndex(({ b }) => b !== null && this.hits.has(text.l[b]));
      if (row >= 0) this.put(row);
      event.preventDefault();
    } else if (event.key === "Escape") {
      this.search.value = "";
      this.find("");
      this.view.focus();
    }
    event.stopPropagation();
  }

  // ---- keys

  key(event) {
    if (event.target === this.search || event.ctrlKey || event.metaKey) return;
    const typing = event.target.tagName === "BUTTON" || event.target.tagName === "SUMMARY";
    const act = {
      ArrowLeft: () => this.move(-1), k: () => this.move(-1), ArrowRight: () => this.move(1), j: () => this.move(1),
      ArrowUp: () => (event.altKey ? this.walk(-1) : this.change(-1)), ArrowDown: () => (event.altKey ? this.walk(1) : this.change(1)),
      Home: () => this.go(this.visible()[0]), End: () => this.go(this.visible().at(-1)),
      "/": () => { this.search.focus(); this.search.select(); },
      s: () => this.toggle("side"), f: () => this.toggle("fold"), h: () => this.toggle("hide"),
      Enter: typing ? null : () => this.followAt(), " ": null,
      m: () => this.maximise(),
      e: () => this.edits.button.hidden || this.edits.ask({}),
      Escape: () => (this.state.follow || this.state.at >= 0 || !this.restore ? this.letGo() : this.restore()),
    }[event.key];
    event.stopPropagation();
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** To the next change up or down. */
  change(by) {
    const rows = unpack(this.step);
    const starts = rows.map((r, i) => i).filter((i) => isChange(rows[i]) && !(i && isChange(rows[i - 1])));
    const target = by > 0 ? starts.find((i) => i > this.state.at) : starts.filter((i) => i < this.state.at).at(-1);
    if (target !== undefined) this.put(target);
  }

  /** To the next line up or down. */
  walk(by) {
    const rows = unpack(this.step);
    this.put(Math.min(rows.length - 1, Math.max(0, this.state.at + by)));
  }

  /** Go to a row and bring it into sight; where it is folded, it is unfolded with a few rows around it. */
  put(row) {
    this.state.at = row;
    if (this.blocks.some(({ items }) => items.some(([from, to, folded]) => folded && from <= row && row < to))) this.open(row - CONTEXT, row + CONTEXT + 1);
    this.reveal(row);
    this.view.querySelectorAll(".tm-at").forEach((node) => node.classList.remove("tm-at"));
    this.view.querySelectorAll(`[data-row="${row}"]`).forEach((node) => node.classList.add("tm-at"));
  }

  /** Unfold rows, with what is seen above them at its place. */
  open(from, to) {
    const top = this.view.scrollTop;
    for (let i = Math.max(0, from); i < to; i++) this.state.opened.add(i);
    this.renderStep();
    this.blocks.filter(({ items }) => items[0][0] < to).forEach((block) => this.fill(block));
    this.view.scrollTop = top;
  }

  followAt() {
    const cells = this.view.querySelectorAll(".tm-at[data-line]");
    const cell = cells[cells.length - 1];
    if (cell) this.follow(+cell.dataset.text, +cell.dataset.line);
  }
}

/** A stepper in an element; it goes on where the one before it in the same cell was left. */
kinds.stepper = (box, data) => {
  const steppers = memoryOf(box);
  const last = steppers.get(data.title);
  const stepper = new Stepper(box, data, last?.kept(data));
  last?.end();
  steppers.set(data.title, stepper);
  return stepper;
};
