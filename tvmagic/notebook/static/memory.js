// What is kept in the page: how the steppers of a cell were left, for when it runs again, and how programs are to
// be shown, for all steppers. An address may name a step: `#step=12&line=7`.

const CELLS = new WeakMap(); // by the element of a cell: the last stepper of each title
const PREFERENCES = "tvmagic";
const SWITCHES = ["side", "fold", "hide"];

/** How programs are to be shown, as somebody chose in any stepper. */
function preferences() {
  try {
    return JSON.parse(localStorage.getItem(PREFERENCES)) ?? {};
  } catch {
    return {}; // a page that may not store anything
  }
}

function prefer(name, value) {
  try {
    localStorage.setItem(PREFERENCES, JSON.stringify({ ...preferences(), [name]: value }));
  } catch {
    // then the choice holds for this stepper alone
  }
}

/** The steppers that the cell around a node had, by title; a map that is lost where there is no cell. */
function memoryOf(node) {
  const cell = node.closest(".jp-Cell");
  if (!cell) return new Map();
  if (!CELLS.has(cell)) CELLS.set(cell, new Map());
  return CELLS.get(cell);
}

const FIRST = new WeakMap(); // by notebook, as JupyterLab has several in a page: the key of the stepper that asked first

/** What is after the # of the address, also where JupyterLab has taken it away after it read the address. */
function fragment() {
  const opened = performance.getEntriesByType("navigation")[0];
  const url = opened && URL.canParse(opened.name) ? new URL(opened.name) : null;
  return location.hash || (url?.pathname === location.pathname ? url.hash : "");
}

/** What the address says of the stepper in a node: {step, line}, both from 1; null if it speaks of another or of none. */
function linkedTo(key, node) {
  const said = new URLSearchParams(fragment().slice(1));
  const notebook = node.closest(".jp-Notebook") ?? document;
  if (!FIRST.has(notebook)) FIRST.set(notebook, key);
  if (!said.has("step") || (said.get("in") ?? FIRST.get(notebook)) !== key) return null;
  return { step: +said.get("step"), line: +said.get("line") || 0 };
}

/** The values of knobs that the address names (`knob.tile=8`), by the knob. */
function linkedKnobs() {
  return new Map([...new URLSearchParams(fragment().slice(1))].filter(([name]) => name.startsWith("knob.")).map(([name, value]) => [name.slice(5), value]));
}

/** The address of a line of a step, without what is secret in the present one; `knobs` are pairs of names and values. */
function addressOf(key, step, line, knobs = []) {
  const url = new URL(location.href);
  url.searchParams.delete("token");
  const turned = knobs.map(([name, value]) => `&knob.${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("");
  url.hash = `step=${step}${line ? `&line=${line}` : ""}&in=${key}${turned}`;
  return url.href;
}
