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
    const { params, plain, bounds } = this.data;
    this.end("starting \u2026");
    this.facts.replaceChildren();
    this.stop.hidden = false;
    this.button.disabled = true;
    this.worker = startWorker();
    this.worker.onmessage = ({ data: { said, result, error } }) => {
      if (said) { this.said.textContent = `${said} \u2026`; return; }
      this.end("");
      if (error) this.tell(false, `The operator stopped: ${error}`);
      else this.report(result);
    };
    this.worker.onerror = (event) => { this.end(""); this.tell(false, `The page could not run it: ${event.message}`); };
    this.worker.postMessage({ kernel, params, plain, bounds, seed: ++this.seed });
  }

  tell(good, text) {
    this.said.className = good ? "tm-ok" : "tm-error";
    this.said.textContent = text;
  }

  report({ outputs, wasm, javascript }) {
    const wrong = outputs.find(({ differs }) => differs);
    const values = outputs.reduce((sum, output) => sum + output.values, 0);
    if (javascript === undefined) this.tell(true, `${plural(values, "value")} computed; ${this.data.missing}`);
    else if (wrong) {
      const { place, got, expected, bound } = wrong.differs;
      const count = outputs.reduce((sum, output) => sum + output.wrong, 0);
      this.tell(false, `differs from the reference: ${wrong.name}[${place.join(", ")}] is ${got}, the reference gives ${expected}${bound ? ` (rounding may change it by ${bound.toPrecision(2)})` : ""}; ${count} of ${plural(values, "value")} differ`);
    } else {
      const open = outputs.reduce((sum, output) => sum + output.open, 0);
      const worst = Math.max(...outputs.map((output) => output.worst));
      const rest = [worst ? `the worst is off by ${worst.toPrecision(2)} of what rounding may do` : "to the last bit", ...(open ? [`${open} that rounding decides were not compared`] : [])];
      this.tell(true, `equal to the reference: ${plural(values, "value")}, ${rest.join("; ")}`);
    }
    const rows = [["WebAssembly", milliseconds(wasm), ""]];
    if (javascript !== undefined) {
      const ratio = javascript / wasm;
      rows[0][2] = `${ratio >= 100 ? Math.round(ratio) : ratio.toPrecision(2)} times as fast`;
      rows.push(["plain JavaScript", milliseconds(javascript), "loops written from the definition"]);
    }
    this.facts.replaceChildren(noteTable(["computed by", "least time", ""], rows));
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
