// What the stepper shows, unpacked: rows, texts, and the HTML of lines. `stepper.js` comes after it in one module.
// Texts reach the page by textContent or through `esc`; nothing else writes a user's names.

const esc = (s) => s.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  // Keys that go to what has the focus are ours: JupyterLab looks for this mark from there upwards.
  if ("tabindex" in attributes || ["button", "input", "select", "summary"].includes(tag)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c != null));
  return node;
}

/** Rows of a step from their packed form: [kind, before, after, count or marks ...]. */
function unpack(step) {
  if (step.rowList) return step.rowList;
  const rows = [];
  for (const [kind, a, b, x, y] of step.rows) {
    if (kind === "~") rows.push({ kind, a, b, am: x, bm: y });
    else if (kind === "-") for (let i = 0; i < x; i++) rows.push({ kind, a: a + i, b: null });
    else if (kind === "+") for (let i = 0; i < x; i++) rows.push({ kind, a: null, b: b + i });
    else for (let i = 0; i < x; i++) rows.push({ kind, a: a + i, b: b + i });
  }
  step.rowList = rows;
  return rows;
}

/** The class of what was found of a step by comparing it with NumPy or by a proof; empty where nothing was. */
const verdict = ({ mark }) => (!mark ? "" : { "\u2713": "tm-ok", "\u2261": "tm-same", "?": "tm-open", "\u2715": "tm-error", "=": "tm-ok", "~": "tm-ok", R: "tm-ok", x: "tm-error" }[mark[0]] || "tm-meta");

const isChange = (row) => row.kind === "~" || row.kind === "-" || row.kind === "+";

/** HTML of a line: Pygments' classes, changed words in `tag`, found text in <mark>. */
function lineHtml(text, tokens, marks, tag, query) {
  const cuts = new Set([0, text.length]);
  const spans = [];
  let at = 0;
  for (const [, name, count] of (tokens || "").matchAll(/([a-z-])(\d+)/g)) {
    spans.push([at, at + +count, name]);
    cuts.add(at).add((at += +count));
  }
  for (const [s, e] of marks || []) cuts.add(s).add(e);
  const found = [];
  if (query) {
    const low = text.toLowerCase();
    for (let i = low.indexOf(query); i >= 0; i = low.indexOf(query, i + query.length)) {
      found.push([i, i + query.length]);
      cuts.add(i).add(i + query.length);
    }
  }
  const order = [...cuts].filter((c) => c <= text.length).sort((a, b) => a - b);
  const within = (list, p) => list && list.find(([s, e]) => s <= p && p < e);
  let html = "";
  let open = []; // what stands around the present part, the outermost first: one element around all parts that it marks
  for (let i = 0; i + 1 < order.length; i++) {
    const [s, e] = [order[i], order[i + 1]];
    const around = [...(within(found, s) ? ["mark"] : []), ...(within(marks, s) ? [tag] : [])];
    const same = open[0] === around[0] ? (open[1] === around[1] ? 2 : 1) : 0;
    html += open.slice(same).reverse().map((name) => `</${name}>`).join("") + around.slice(same).map((name) => `<${name}>`).join("");
    open = around;
    const piece = esc(text.slice(s, e));
    const span = within(spans, s);
    html += span && span[2] !== "-" ? `<span class="${span[2]}">${piece}</span>` : piece;
  }
  return html + open.reverse().map((name) => `</${name}>`).join("");
}

/** A sentence as nodes: what stands between backquotes as code. */
function sentence(text) {
  return text.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part)).filter((part) => part !== "");
}

/** The longest word of a glossary under a point of the page: `T.Ramp` before `Ramp`; null if there is none. */
function wordAt(x, y, glossary) {
  const spot = document.caretPositionFromPoint?.(x, y);
  const range = spot ? null : document.caretRangeFromPoint?.(x, y);
  const [node, at] = spot ? [spot.offsetNode, spot.offset] : [range?.startContainer, range?.startOffset];
  const line = node?.parentElement?.closest(".tm-text");
  if (!line || node.nodeType !== Node.TEXT_NODE) return null;
  const before = document.createRange();
  before.setStart(line, 0);
  before.setEnd(node, at);
  const [text, place] = [line.textContent, before.toString().length];
  return wordsIn(text, glossary).find(({ from, to }) => from <= place && place <= to)?.word ?? null;
}

/** The words of a glossary in a text, each with its place. */
function wordsIn(text, glossary) {
  const found = [];
  for (const { 0: name, index } of text.matchAll(/[A-Za-z_][\w.]*/g)) {
    const word = Object.hasOwn(glossary, name) ? name : Object.hasOwn(glossary, name.split(".").at(-1)) ? name.split(".").at(-1) : null;
    if (word) found.push({ word, from: index, to: index + name.length });
  }
  return found;
}

function noteTable(columns, rows) {
  return element("table", { class: "tm-table" },
    element("thead", {}, element("tr", {}, ...columns.map((c) => element("th", { scope: "col" }, c)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((v) => element("td", {}, ...sentence(v)))))));
}

/** Numbers from runs of (first, step, count). */
function numbers(runs) {
  const list = [];
  for (let r = 0; r < runs.length; r += 3) for (let i = 0; i < runs[r + 2]; i++) list.push(runs[r] + runs[r + 1] * i);
  return list;
}

/** A text made by a step: what its rows have in common comes from the text before. */
function patched(text, step, before) {
  const fresh = { l: numbers(text.l), o: numbers(text.o ?? []), h: numbers(text.h) };
  const made = { l: [], o: [], h: [] };
  let next = 0;
  for (const row of unpack(step)) {
    if (row.b === null) continue;
    const same = row.kind === "=";
    for (const key of ["l", "o", "h"]) made[key].push(same ? before[key][row.a] : fresh[key][next]);
    if (!same) next++;
  }
  if (text.all) made.o = numbers(text.all);
  if (text.allh) made.h = numbers(text.allh);
  return made;
}

/** All that is reached from `start` by steps to the numbers that `next` has for each number. */
function reached(start, next) {
  const found = new Set(start);
  for (const one of found) for (const other of next[one] ?? []) found.add(other);
  return found;
}

/** The threads of each group and the parents of each thread. Data before version 2 have a group for each thread, and at most one parent. */
function unpackThreads(data) {
  if (data.version >= 2) return { groups: data.groups, parents: data.parents };
  const parents = numbers(data.parents ?? []);
  const last = data.texts.reduce((most, text) => Math.max(most, ...numbers(text.h)), -1);
  return { groups: Array.from({ length: Math.max(last + 1, parents.length) }, (_, k) => [k]), parents: parents.map((p) => (p < 0 ? [] : [p])) };
}

/** The data with its texts unpacked; what the widget holds stays as it is. */
function unpackData(data) {
  const steps = data.steps.map((s) => ({ ...s }));
  const texts = [];
  for (const t of data.texts) {
    const made = t.base === undefined ? { l: numbers(t.l), o: numbers(t.o), h: numbers(t.h) } : patched(t, steps[t.base], texts[steps[t.base].b]);
    texts.push({ ...made, language: t.language });
  }
  return { words: {}, ...data, texts, steps, ...unpackThreads(data) };
}
