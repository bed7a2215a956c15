// A page that computes: knobs, the operator in WebAssembly with a button that runs it, the stepper, pictures. All of it
// is in the page: each choice of the knobs is a text that is unpacked when it is asked for.

class KernelPage {
  constructor(box, data) {
    this.data = data;
    this.seed = 0;
    const linked = linkedKnobs();
    this.at = data.knobs.map(([name, choices, at]) => (choices.includes(linked.get(name)) ? choices.indexOf(linked.get(name)) : at));
    this.knobs = element("div", { class: "tm-controls", role: "group", "aria-label": "Knobs", hidden: !data.knobs.length }, ...data.knobs.map(([name, choices], n) => this.slider(name, choices, n)));
    this.button = element("button", { type: "button", class: "tm-run", title: "Make inputs, run the operator, compare (r)", onclick: () => this.run() }, "Run");
    this.stop = element("button", { type: "button", hidden: true, onclick: () => this.end("stopped") }, "Stop");
    this.said = element("span", { role: "status" });
    this.facts = element("div");
    this.failure = element("div");
    this.steps = element("div");
    this.pictures = element("details", {}, element("summary", {}, "Pictures"));
    this.drawn = element("div", { class: "tm-scroll", tabindex: "0", role: "group", "aria-label": "Pictures" });
    this.pictures.append(this.drawn);
    const bar = element("div", { class: "tm-controls" }, this.button, this.stop, this.said);
    this.root = element("div", { class: "tvmagic tm-player tm-playground", role: "group", "aria-label": `${data.title}, computed in this page`, "data-theme": data.theme === "auto" ? null : data.theme, onkeydown: (e) => this.key(e) },
      element("p", {}, ...sentence(data.about)), this.knobs, bar, this.facts, this.failure, this.steps, this.pictures);
    box.replaceChildren(this.root);
    this.shown = this.show();
  }

  slider(name, choices, number) {
    const at = this.at[number];
    const value = element("output", {}, choices[at]);
    const input = element("input", { type: "range", min: 0, max: choices.length - 1, step: 1, value: at, "aria-label": name, "aria-valuetext": choices[at] });
    input.addEventListener("input", () => {
      value.textContent = choices[input.value];
      input.setAttribute("aria-valuetext", choices[input.value]);
      this.at[number] = +input.value;
      this.shown = this.show();
    });
    return element("label", { class: "tm-knob", "data-name": name }, `${name} `, input, value);
  }

  /** Show what the knobs choose; when another choice was made meanwhile, that one is shown. */
  async show() {
    const number = this.data.knobs.reduce((place, [, choices], n) => place * choices.length + this.at[n], 0);
    const variant = JSON.parse(await unpackText(this.data.variants[number]));
    const now = this.data.knobs.reduce((place, [, choices], n) => place * choices.length + this.at[n], 0);
    if (now !== number) return;
    this.end("");
    this.variant = variant;
    this.facts.replaceChildren();
    this.failure.innerHTML = variant.failure;
    this.button.disabled = !variant.kernel;
    const last = this.stepper;
    this.stepper = new Stepper(this.steps, variant.stepper, last?.kept(variant.stepper));
    last?.end();
    this.stepper.knobs = this.data.knobs.map(([name, choices], n) => [name, choices[this.at[n]]]);
    this.drawn.innerHTML = variant.pictures;
    this.pictures.hidden = !variant.pictures;
  }

  key(event) {
    if (event.key !== "r" || event.ctrlKey || event.metaKey || event.altKey || event.target.type === "search" || this.button.disabled) return;
    event.preventDefault();
    this.run();
  }

  /** Let go of what is being computed. */
  end(said) {
    this.worker?.terminate();
    this.worker = null;
    this.stop.hidden = true;
    this.button.disabled = !this.variant?.kernel;
    this.said.className = "tm-meta";
    this.said.textContent = said;
  }

  run() {
    const { kernel } = this.variant;
    const { params, plain, bounds, preconditions } = this.data;
    this.end("starting \u2026");
    this.facts.replaceChildren();
    this.stop.hidden = false;
    this.button.disabled = true;
    this.worker = startWorker();
    this.worker.onmessage = ({ data: { said, result, error } }) => {
      if (said) { this.said.textContent = `${said} \u2026`; return; }
      this.end("");
      if (error) this.tell("tm-error", `The operator stopped: ${error}`);
      else this.report(result);
    };
    this.worker.onerror = (event) => { this.end(""); this.tell("tm-error", `The page could not run it: ${event.message}`); };
    this.worker.postMessage({ kernel, params, plain, bounds, preconditions, seed: ++this.seed });
  }

  tell(tone, text) {
    this.said.className = tone;
    this.said.textContent = text;
  }

  report({ outputs, wasm, javascript }) {
    const sum = (name) => outputs.reduce((total, output) => total + output[name], 0);
    const [values, open] = [sum("values"), sum("open")];
    const wrong = outputs.find(({ differs }) => differs);
    if (javascript === undefined) this.tell("tm-open", `? not judged \u00b7 ${plural(values, "value")} computed; ${this.data.missing}`);
    else if (wrong) {
      const { place, got, expected, bound } = wrong.differs;
      const rounding = bound ? `, rounding bound ${bound.toPrecision(2)}` : "";
      this.tell("tm-error", `\u2715 NOT equal to plain JavaScript \u00b7 ${sum("wrong")} of ${plural(values, "value")} differ, first at ${wrong.name}[${place.join(", ")}]: got ${got}, expected ${expected}${rounding}`);
    } else this.tell(...this.verdict(values, open, Math.max(...outputs.map((output) => output.worst))));
    const rows = [["WebAssembly", milliseconds(wasm), ""]];
    if (javascript !== undefined) {
      const ratio = javascript / wasm;
      rows[0][2] = `${ratio >= 100 ? Math.round(ratio) : ratio.toPrecision(2)} times as fast`;
      rows.push(["plain JavaScript", milliseconds(javascript), "loops written from the definition"]);
    }
    this.facts.replaceChildren(noteTable(["computed by", "least time", ""], rows));
  }

  /** The class and the words for values of which none is wrong and `open` were not judged. */
  verdict(values, open, worst) {
    const [total, judged] = [values.toLocaleString("en"), (values - open).toLocaleString("en")];
    if (2 * open > values) return ["tm-open", `? not judged \u00b7 ${open.toLocaleString("en")} of ${total} values may be anything that rounding allows`];
    if (open > 0.01 * values) return ["tm-open", `? ${judged} of ${total} values judged \u00b7 equal to plain JavaScript where judged`];
    const error = worst ? `worst error ${worst.toPrecision(2)} of the rounding bound` : "no difference";
    return ["tm-ok", `\u2713 equal to plain JavaScript \u00b7 ${judged} ${open ? `of ${total} ` : ""}values judged \u00b7 ${error}`];
  }
}

function milliseconds(time) {
  return time >= 1000 ? `${(time / 1000).toPrecision(3)} s` : time >= 1 ? `${time.toPrecision(3)} ms` : `${(time * 1000).toPrecision(3)} \u00b5s`;
}

/** A text that `live.packed` made. */
function unpackText(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

kinds.page = (box, data) => new KernelPage(box, data);
